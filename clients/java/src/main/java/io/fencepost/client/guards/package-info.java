/**
 * Guards: the comparison of tokens inside the store that a lock protects, so that a holder that was paused past its
 * lease cannot write.
 *
 * <p>In each transaction raise the fence first, then read, then write. A holder with an older token gets a {@link
 * io.fencepost.client.guards.StaleTokenException}, and its transaction must be rolled back.
 *
 * <p>One permit of a semaphore has a {@link io.fencepost.client.guards.Fence} of its own for each slot; a lock with
 * several permits is refused.
 */
package io.fencepost.client.guards;
