package io.fencepost.client;

import java.time.Duration;
import java.util.Map;
import java.util.OptionalInt;

/**
 * A holder of a lock, as others see it.
 *
 * @param holder the label that the holder chose; {@code classic client} for a client that uses Redis directly
 * @param grantId the public id of the grant; empty for a classic client
 * @param token the fencing token of the grant; 0 for a classic client
 * @param ttl the TTL of the lease, which each renewal restores
 * @param expiresIn the time until the lease ends unless it is renewed; null for a classic client whose key has no TTL
 * @param heldSince the time since the grant
 * @param metadata the metadata that the holder chose
 * @param shared whether the holder shares the lock with others, by {@link LockRequest#shared}
 * @param permits its permits of a semaphore; 0 if the lock is held as none
 * @param slot its slot, if it has one permit of a semaphore
 * @param owner the owner that the request named; empty if it named none
 * @param identity who it is, as the server verified it when the lock was granted or queued for; empty if it was not
 *     verified. Unlike the label, it proves something
 * @param description the number of its last description; 0 if it was never described anew
 */
public record HolderInfo(
    String holder,
    String grantId,
    long token,
    Duration ttl,
    Duration expiresIn,
    Duration heldSince,
    Map<String, String> metadata,
    boolean shared,
    int permits,
    OptionalInt slot,
    String owner,
    String identity,
    long description) {}
