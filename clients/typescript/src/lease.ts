/**
 * The state of one lease: until when it is valid, and whether it is lost.
 *
 * Lost is final, whether the server reported it or the validity ended. Every read and every renewal checks the clock
 * first, so a process that was paused past the end finds its lease lost whatever its timers say, and a late renewal
 * never revives it.
 */
import { LockLost, LockWanted, type LossReason } from "./errors.js";
import type { AcquireRequest, AcquireResponse, Lease as WireLease } from "./gen/fencepost/v1/lock_pb.js";
import type { Released } from "./info.js";
import { Turns } from "./turns.js";
import { isLate, isOverdue, type Reading, validUntil } from "./validity.js";
import { type End, end, milliseconds, type Mode, mode } from "./wire.js";

/** Who is told about a lease. */
export interface LeaseListener {
  lost(loss: LockLost): void;
  atRisk(cause: string, remaining: number): void;
  /** Renewals work again. */
  recovered(): void;
  /** No renewal extends it any more: it reaches its `maxHold`. */
  bounded(remaining: number): void;
  /** Somebody waits for the lock. Told once. */
  wanted(wanted: LockWanted): void;
}

export class Lease {
  readonly name: string;
  /** That of the grant, or of the last conversion. */
  #token: number;
  #mode: Mode;
  readonly grantId: string;
  /** Its permits of a semaphore; 0 if it is none. */
  readonly permits: number;
  /** Its slot, if it has one permit of a semaphore. */
  readonly slot: number | undefined;
  /** The label of the holder. */
  holder: string;
  /** The number of the last description that was sent; `undefined` if another process may have sent some. */
  description: number | undefined = 0;
  /** A secret: never shown. */
  readonly leaseId: string;
  /** How the previous lease of the lock ended. */
  readonly previousEnd: End;
  /** The TTL, as answers have told it: that of a repeat has the time that is left. */
  ttl: number;
  /** The TTL that the grant should have, until a renewal has told it. Infinite if nobody knows. */
  #expected: number;
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
  /** Its conversions and descriptions, one after another. */
  readonly turns = new Turns();
  /** Whoever must not be taken as forgotten while the lease is renewed. */
  pinned: object | undefined;
  /** Its release, once that has begun. */
  released: Promise<Released> | undefined;
  #atRisk = false;
  /** Whether its request had a `lockDelay`. */
  readonly hasLockDelay: boolean;
  /** Whether its request had a `maxHold`. */
  readonly #hasMaxHold: boolean;
  /** Whether the last renewal answered less than the TTL: it ends by its `maxHold`, and misses no renewal. */
  #bounded = false;
  #validUntil: number;
  #loss: LockLost | undefined;
  #ended: AbortController | undefined;
  #wanted: LockWanted | undefined;

  constructor(wire: WireLease, response: AcquireResponse, request: AcquireRequest, sent: number, read: number) {
    const reading = { sent, read, heldFor: milliseconds(response.heldFor), ttl: milliseconds(wire.ttl) };
    this.name = wire.lockName;
    this.#token = Number(wire.fencingToken);
    this.#mode = mode(wire.mode) ?? mode(request.mode) ?? "exclusive";
    this.grantId = wire.grantId;
    this.permits = request.permits;
    this.slot = wire.slot === 0 ? undefined : wire.slot;
    this.leaseId = wire.leaseId;
    this.previousEnd = end(response.previousEnd);
    this.holder = request.holder;
    this.ttl = reading.ttl;
    const isRepeat = request.attempt > 1;
    this.#expected = request.ttl === undefined && isRepeat ? Infinity : Math.max(milliseconds(request.ttl), this.ttl);
    this.attachedAt = read;
    this.hasLockDelay = request.lockDelay !== undefined;
    this.#hasMaxHold = request.maxHold !== undefined;
    this.#validUntil = validUntil(reading);
  }

  get token(): number {
    return this.#token;
  }

  get mode(): Mode {
    return this.#mode;
  }

  /** Aborts when the lease ends, with its loss: for calls about it. Whoever listens must not refer to the lock. */
  get ended(): AbortSignal {
    this.#ended ??= new AbortController();
    if (this.#loss !== undefined) this.#ended.abort(this.#loss);
    return this.#ended.signal;
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
    if (this.#loss === undefined && now >= this.#validUntil) this.end(this.#bounded ? "maxHold" : "silence");
    return this.#loss;
  }

  /** How long it is still valid, in milliseconds; 0 if it is lost. */
  remaining(now: number): number {
    return this.loss(now) === undefined ? this.#validUntil - now : 0;
  }

  /** Whether less is left than a grant should have, and a renewal may tell more. */
  isLate(now: number): boolean {
    return !this.#bounded && isLate(this.#validUntil, now, this.#expected);
  }

  /** A renewal could not tell more: what is known counts. */
  expectNoMore(): void {
    if (!Number.isFinite(this.#expected)) this.#expected = this.ttl;
  }

  isOverdue(now: number): boolean {
    return !this.#bounded && isOverdue(this.#validUntil, now, this.ttl);
  }

  /** Applies a renewal. The end of the validity only moves forward. */
  renewed(reading: Reading): void {
    if (this.loss(reading.read) !== undefined) return;
    const wasBounded = this.#bounded;
    // Without a `maxHold`, another process that knows the lease has renewed it with a lower TTL.
    this.#bounded = this.#hasMaxHold && reading.ttl < this.ttl;
    this.ttl = Math.max(this.ttl, reading.ttl);
    this.#expected = this.ttl;
    this.#extend(validUntil(reading));
    if (this.#bounded && !wasBounded) this.listener?.bounded(this.remaining(reading.read));
  }

  #extend(until: number): void {
    if (until <= this.#validUntil) return;
    this.#validUntil = until;
    this.storeUnreachable = false;
    if (!this.#atRisk) return;
    this.#atRisk = false;
    this.listener?.recovered();
  }

  /** Renewals fail. */
  atRisk(now: number, cause: string): void {
    if (this.loss(now) !== undefined || this.#atRisk) return;
    this.#atRisk = true;
    this.listener?.atRisk(cause, this.remaining(now));
  }

  /** It was converted. The token of a lease that became exclusive is a new one. */
  converted(mode: Mode, token: number): void {
    this.#mode = mode;
    this.#token = Math.max(this.#token, token);
  }

  /** That somebody waits whom it excludes; `undefined` while nobody is known to. */
  get wanted(): LockWanted | undefined {
    return this.#wanted;
  }

  /** Somebody waits whom it excludes. */
  wantedAs(mode: Mode): void {
    if (this.#loss !== undefined || this.#wanted !== undefined) return;
    this.#wanted = new LockWanted(this.name, mode);
    this.listener?.wanted(this.#wanted);
  }

  /** It has ended, by the clock or a server's report. */
  end(reason: LossReason, successorToken?: number): void {
    this.#end(reason, successorToken, false);
  }

  /** This client ends it. */
  giveUp(reason: "released" | "closed"): void {
    this.#end(reason, undefined, true);
  }

  #end(reason: LossReason, successorToken: number | undefined, isOwn: boolean): void {
    if (this.#loss !== undefined) return;
    this.#loss = new LockLost(this.name, this.#token, reason, successorToken, { isOwn });
    this.pinned = undefined;
    this.#ended?.abort(this.#loss);
    this.listener?.lost(this.#loss);
  }
}
