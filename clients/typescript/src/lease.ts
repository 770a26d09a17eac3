/**
 * The state of one lease: until when it is valid, and whether it is lost.
 *
 * Lost is final, whether the server reported it or the validity ended. Every read and every renewal checks the clock
 * first, so a process that was paused past the end finds its lease lost whatever its timers say, and a late renewal
 * never revives it.
 */
import { LockLost, type LossReason } from "./errors.js";
import type { AcquireRequest, AcquireResponse, Lease as WireLease } from "./gen/fencepost/v1/lock_pb.js";
import type { Released } from "./info.js";
import { isLate, isOverdue, type Reading, validUntil } from "./validity.js";
import { type End, end, milliseconds } from "./wire.js";

/** Who is told about a lease. */
export interface LeaseListener {
  lost(loss: LockLost): void;
  atRisk(): void;
}

export class Lease {
  readonly name: string;
  readonly token: number;
  readonly grantId: string;
  /** The label of the holder. */
  readonly holder: string;
  /** A secret: never shown. */
  readonly leaseId: string;
  /** How the previous lease of the lock ended. */
  readonly previousEnd: End;
  /** The full TTL, as far as it is known. */
  ttl: number;
  /** When it was last attached to a session. */
  attachedAt: number;
  /** The attempt number of the latest attachment; the grant was the first. */
  attachment = 1;
  /** Whether the server has reported since the last renewal that its store is unreachable. */
  storeUnreachable = false;
  /** Whether a session renews it. */
  onStream = true;
  /** When to attach it again, if no session had room for it. */
  attachAt: number | undefined;
  listener: LeaseListener | undefined;
  /** Its release, once that has begun. */
  released: Promise<Released> | undefined;
  #atRisk = false;
  #validUntil: number;
  #loss: LockLost | undefined;

  constructor(wire: WireLease, response: AcquireResponse, request: AcquireRequest, sent: number, read: number) {
    const reading = { sent, read, heldFor: milliseconds(response.heldFor), ttl: milliseconds(wire.ttl) };
    this.name = wire.lockName;
    this.token = Number(wire.fencingToken);
    this.grantId = wire.grantId;
    this.leaseId = wire.leaseId;
    this.previousEnd = end(response.previousEnd);
    this.holder = request.holder;
    this.ttl = Math.max(milliseconds(request.ttl), reading.ttl);
    this.attachedAt = read;
    this.#validUntil = validUntil(reading);
  }

  get validUntil(): number {
    return this.#validUntil;
  }

  /** Whether renewals fail. */
  get isAtRisk(): boolean {
    return this.#atRisk && this.#loss === undefined;
  }

  /** Checks the clock, and returns why the lease is lost; `undefined` while it is valid. */
  loss(now: number): LockLost | undefined {
    if (this.#loss === undefined && now >= this.#validUntil) this.end("silence");
    return this.#loss;
  }

  /** How long it is still valid, in milliseconds; 0 if it is lost. */
  remaining(now: number): number {
    return this.loss(now) === undefined ? this.#validUntil - now : 0;
  }

  isLate(now: number): boolean {
    return isLate(this.#validUntil, now, this.ttl);
  }

  isOverdue(now: number): boolean {
    return isOverdue(this.#validUntil, now, this.ttl);
  }

  /** Applies a renewal. The end of the validity only moves forward. */
  renewed(reading: Reading): void {
    if (this.loss(reading.read) !== undefined) return;
    this.ttl = Math.max(this.ttl, reading.ttl);
    const until = validUntil(reading);
    if (until <= this.#validUntil) return;
    this.#validUntil = until;
    this.#atRisk = false;
    this.storeUnreachable = false;
  }

  /** Renewals fail. */
  atRisk(now: number): void {
    if (this.loss(now) !== undefined || this.#atRisk) return;
    this.#atRisk = true;
    this.listener?.atRisk();
  }

  /** Ends the lease, unless it has ended. */
  end(reason: LossReason, successorToken?: number): void {
    if (this.#loss !== undefined) return;
    this.#loss = new LockLost(this.name, this.token, reason, successorToken);
    this.listener?.lost(this.#loss);
  }
}
