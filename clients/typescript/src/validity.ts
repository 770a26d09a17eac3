/**
 * Until when a lease is valid by its holder's clock. All of that arithmetic is in this file; times are in milliseconds.
 *
 * `valid until = sent + held_for + ttl - drift - margin`. The server counts `ttl` from `held_for` after the arrival of
 * the request, which is after it was sent: whatever the network did, the lease ends later on the server. The drift
 * allows for different clock rates, the margin for the time between a check and the action that follows.
 */
import { DRIFT_DIVISOR, LATE_DIVISOR, MARGIN_DIVISOR, MARGIN_MIN_MS } from "./facts.js";

/** What an answer says about a lease. */
export interface Reading {
  /** When the transmission that was answered was sent. */
  sent: number;
  /** When the answer was read. */
  read: number;
  /** How long the server held the request before it asked its store. */
  heldFor: number;
  /** The TTL that was left then. */
  ttl: number;
}

/** The end of the lease by the holder's clock. */
export function validUntil({ sent, read, heldFor, ttl }: Reading): number {
  // The server cannot have held the request for longer than the whole exchange took. A server clock that runs faster
  // may report more after a long wait; the holder's clock decides.
  const held = Math.min(heldFor, Math.max(read - sent, 0));
  return sent + held + ttl - ttl / DRIFT_DIVISOR - Math.max(ttl / MARGIN_DIVISOR, MARGIN_MIN_MS);
}

/** Whether so little is left of a granted lease that it has to be renewed before it is used. */
export function isLate(until: number, now: number, ttl: number): boolean {
  return until - now < ttl / LATE_DIVISOR;
}

/**
 * Whether so little is left of a lease that a renewal must have failed. A lease is renewed when a third of its TTL has
 * passed, with the next beat (a ninth); here more than half of it has.
 */
export function isOverdue(until: number, now: number, ttl: number): boolean {
  return until - now < (ttl / 20) * 7;
}
