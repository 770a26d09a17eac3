package io.fencepost.client;

/**
 * The permits of a semaphore that is held.
 *
 * @param permitsUsed the permits that its holders use; more than the limit only after that was lowered
 * @param permitLimit the limit in force
 * @param permitLimitVersion the version of the limit
 */
public record SemaphoreInfo(long permitsUsed, int permitLimit, long permitLimitVersion) {}
