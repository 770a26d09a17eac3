/** Timeouts and intervals of the keeper, in milliseconds, all derived from the shortest TTL. */
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS, SILENCE_DIVISOR } from "./facts.js";

/** The interval of checks, which bounds the time to notice that a suspended machine has resumed. */
export function tick(shortest: number): number {
  return clamp(shortest / 20, 10, 1000);
}

/** How long the first answer on a new session, or to a new attachment, may take. */
export function answerTimeout(ttl: number): number {
  return clamp(ttl / 6, 250, 5000);
}

/** The interval of renewals of a lease for which the session has no room. The session would renew at a third. */
export function renewalInterval(ttl: number): number {
  return ttl / 4;
}

/** How long a session that has answered may be silent. */
export function silenceLimit(pace: number): number {
  return pace / SILENCE_DIVISOR;
}

/**
 * The longest pause before the next session is opened. The keeper takes a random part, so that the clients of a stopped
 * server do not all connect to the next one at once.
 */
export function pause(shortest: number, tries: number): number {
  const first = Math.min(shortest / 20, 500);
  const doubled = Math.min(first * 2 ** Math.min(tries, 4), shortest / 8);
  return clamp(doubled, RECONNECT_FIRST_MS, RECONNECT_MAX_MS);
}

/** The minimum time between two sessions that operations open because the last one ended. They retry after a pause. */
export const SESSION_INTERVAL_MIN_MS = 20;

/**
 * The minimum time between two moves of operations away from a session that works, to the preferred server. All leases
 * move with them, and if the store is the cause no server does better.
 */
export const MOVE_INTERVAL_MIN_MS = 5000;

/** The interval of checks of a session without leases. */
export const IDLE_TICK_MS = 100;

function clamp(value: number, min: number, max: number): number {
  return Math.min(Math.max(value, min), max);
}

/** The least time that one of several servers gets to answer: over a slow network, TLS takes several round trips. */
const ANSWER_TIME_MIN_MS = 500;

/**
 * How long one of so many servers gets to answer a call that does not wait. Each of several servers gets a part of the
 * time: one that hangs must not use up that of the others.
 */
export function answerTime(callTimeout: number, retryFor: number, servers: number): number {
  return servers > 1 ? Math.min(callTimeout, Math.max(retryFor / servers, ANSWER_TIME_MIN_MS)) : callTimeout;
}
