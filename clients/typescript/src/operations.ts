/** The operations of one session. Each has a number that its answer repeats. */
import type { SessionRequestSchema } from "./gen/fencepost/v1/lock_pb.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Operation } from "./operation.js";

export type Outgoing = MessageInitShape<typeof SessionRequestSchema>;

/**
 * The maximum numbers of acquires and of other operations in flight on a session; the server allows 16,384. They are
 * counted separately, because a queued acquire may wait for a release.
 */
const ACQUIRES_MAX = 8000;
const OTHERS_MAX = 2000;

export class Operations {
  #last = 0n;
  /** Sent, without an answer. */
  readonly #inFlight = new Map<bigint, Operation>();
  #acquiresInFlight = 0;
  /** Handles of the leases that acquires ask for. */
  readonly #handles = new Set<number>();
  /** Unsent, each in order. */
  readonly #acquires = new Set<Operation>();
  readonly #others = new Set<Operation>();
  /** Numbers of acquires to cancel. */
  readonly #cancels = new Set<bigint>();
  readonly #numbers = new Map<Operation, bigint>();

  get isEmpty(): boolean {
    return this.#inFlight.size + this.#acquires.size + this.#others.size === 0;
  }

  isReserved(handle: number): boolean {
    return this.#handles.has(handle);
  }

  add(operation: Operation): void {
    if (operation.isAcquire && operation.handle !== undefined) this.#handles.add(operation.handle);
    (operation.isAcquire ? this.#acquires : this.#others).add(operation);
  }

  get(number: bigint): Operation | undefined {
    return this.#inFlight.get(number);
  }

  /** Removes an answered operation. */
  answered(number: bigint): Operation | undefined {
    const operation = this.#inFlight.get(number);
    if (operation === undefined) return undefined;
    this.#inFlight.delete(number);
    this.#numbers.delete(operation);
    this.#cancels.delete(number);
    if (operation.isAcquire) this.#acquiresInFlight -= 1;
    this.#forgetHandle(operation);
    return operation;
  }

  /** Returns whether the operation was removed, because it was not sent. */
  withdraw(operation: Operation): boolean {
    if (this.#acquires.delete(operation) || this.#others.delete(operation)) {
      this.#forgetHandle(operation);
      return true;
    }
    const number = this.#numbers.get(operation);
    if (number !== undefined && operation.isAcquire && !operation.cancelled) {
      operation.cancelled = true;
      this.#cancels.add(number);
    }
    return false;
  }

  /** The next acquire to cancel, so that a release does not hand it the lock, or the next release or renewal. */
  nextUrgent(now: number): Outgoing | undefined {
    const cancelled = take(this.#cancels);
    if (cancelled !== undefined) return { message: { case: "cancel", value: { operation: cancelled } } };
    if (this.#inFlight.size - this.#acquiresInFlight >= OTHERS_MAX) return undefined;
    const operation = take(this.#others);
    return operation && this.#send(operation, now);
  }

  nextAcquire(now: number): Outgoing | undefined {
    if (this.#acquiresInFlight >= ACQUIRES_MAX) return undefined;
    const operation = take(this.#acquires);
    if (operation === undefined) return undefined;
    this.#acquiresInFlight += 1;
    return this.#send(operation, now);
  }

  /** Removes and returns all operations, when no more answers will arrive. */
  drain(): Operation[] {
    const all = [...this.#inFlight.values(), ...this.#others, ...this.#acquires];
    for (const each of [this.#inFlight, this.#others, this.#acquires, this.#cancels, this.#numbers]) each.clear();
    this.#handles.clear();
    this.#acquiresInFlight = 0;
    return all;
  }

  #send(operation: Operation, now: number): Outgoing {
    const number = (this.#last += 1n);
    this.#inFlight.set(number, operation);
    this.#numbers.set(operation, number);
    operation.markSent(now);
    const { request, handle } = operation;
    if (request.case !== "acquire") return { operation: number, message: request };
    return {
      operation: number,
      message: { case: "acquire", value: { request: request.value, ...(handle !== undefined && { handle }) } },
    };
  }

  #forgetHandle(operation: Operation): void {
    if (operation.isAcquire && operation.handle !== undefined) this.#handles.delete(operation.handle);
  }
}

/** Removes and returns the first item. */
function take<T>(items: Set<T>): T | undefined {
  for (const item of items) {
    items.delete(item);
    return item;
  }
  return undefined;
}
