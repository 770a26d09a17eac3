package io.fencepost.client;

import java.util.List;

/**
 * The public state of a lock: a snapshot that may be out of date when it arrives. Use it for people and dashboards, not
 * to decide whether to write.
 *
 * @param name the lock's name
 * @param holders the holders; empty if the lock is not held. One, or the oldest of those that hold it together: at
 *     most 8
 * @param holderCount how many holders the lock has in all
 * @param delay why nobody gets the lock, if nobody holds it; null if there is no delay
 * @param semaphore the permits, if the lock is held as a semaphore; null if it is not
 * @param waiters the number of waiting requests
 * @param previousEnd how the last lease before the current one ended; before the newest one, if the lock is shared
 * @param newestToken the highest token granted for the lock; 0 if the server remembers none
 */
public record LockInfo(
    String name,
    List<HolderInfo> holders,
    int holderCount,
    LockDelay delay,
    SemaphoreInfo semaphore,
    int waiters,
    LeaseEnd previousEnd,
    long newestToken) {}
