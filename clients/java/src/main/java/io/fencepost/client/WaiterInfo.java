package io.fencepost.client;

import java.time.Duration;

/**
 * A request that waits for a lock, as others see it.
 *
 * @param holder the label that its holder will have
 * @param owner the owner that it names; empty if it names none
 * @param identity who it is, as the server verified it; empty if it was not verified
 * @param waiterId distinguishes it from other requests, and stays the same while it waits
 * @param mode how it wants to hold the lock
 * @param permits the permits of a semaphore that it waits for; 0 if it wants none
 * @param waitingSince how long it has been in this queue; counts anew when another server takes the lock over
 * @param skipped whether the queue passes over it now, and keeps its place for a few seconds: its call was dropped or
 *     does not read, or its server is silent
 */
public record WaiterInfo(
    String holder,
    String owner,
    String identity,
    String waiterId,
    LockMode mode,
    int permits,
    Duration waitingSince,
    boolean skipped) {}
