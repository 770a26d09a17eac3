/** One operation of a session, unsent or in flight. */
import { Code } from "@connectrpc/connect";
import { Failure } from "./failure.js";
import type { AcquireRequest, ReleaseRequest, RenewRequest, SessionResponse } from "./gen/fencepost/v1/lock_pb.js";
import type { Lease } from "./lease.js";
import { afterReading } from "./timers.js";

/** How long the only server may take to answer, or to say that a request waits, in milliseconds. */
export const ANSWER_TIMEOUT_MS = 5000;

export type Request =
  | { case: "acquire"; value: AcquireRequest }
  | { case: "release"; value: ReleaseRequest }
  | { case: "renew"; value: RenewRequest };

export type Answer = Extract<SessionResponse["message"], { case: "acquire" | "release" | "renew" }>;

export interface Answered {
  /** When the operation was sent, and when the answer was read. */
  readonly sent: number;
  readonly read: number;
  readonly answer: Answer;
  /** The lease of a granted acquire. It is attached to the session. */
  readonly lease: Lease | undefined;
}

/** What carries an operation to a server. */
export interface Carrier {
  withdraw(operation: Operation): void;
  /** No answer arrived in time, and nobody waits for it any more. */
  overdue(operation: Operation): void;
}

export interface OperationLimits {
  /** How long the operation may stay unsent. */
  readonly unsent: number;
  /** How long the server may take to answer it, or to say that it waits. */
  readonly answer: number;
  /** How long the server may let it wait once it has said so. */
  readonly wait: number;
}

export class Operation {
  readonly request: Request;
  /** Never rejects. */
  readonly outcome: Promise<Answered | Failure>;
  /** Told how many requests are ahead in the queue. */
  readonly onWaiting: ((ahead: number) => void) | undefined;
  /** The client's number for the lease: of the grant, or of the lease that is released. */
  handle: number | undefined;
  /** When it was sent. */
  sent: number | undefined;
  cancelled = false;
  readonly #answer: number;
  readonly #wait: number;
  #settle!: (outcome: Answered | Failure) => void;
  #settled = false;
  #cancelTimer: () => void;
  #carrier: Carrier | undefined;

  constructor(request: Request, limits: OperationLimits, onWaiting?: (ahead: number) => void) {
    this.request = request;
    this.onWaiting = onWaiting;
    this.#answer = limits.answer;
    this.#wait = limits.wait;
    this.outcome = new Promise((resolve) => (this.#settle = resolve));
    this.#cancelTimer = this.#arm(limits.unsent);
  }

  get isAcquire(): boolean {
    return this.request.case === "acquire";
  }

  /** Whether somebody still waits for the outcome. */
  get isOpen(): boolean {
    return !this.#settled;
  }

  /** The operation was queued on a session. */
  queued(carrier: Carrier): void {
    this.#carrier = carrier;
  }

  markSent(now: number): void {
    this.sent = now;
    if (this.isOpen) this.#restart(this.#answer);
  }

  /** The server has queued the acquire. */
  waiting(ahead: number): void {
    if (!this.isOpen) return;
    this.#restart(this.#wait + ANSWER_TIMEOUT_MS);
    this.onWaiting?.(ahead);
  }

  settle(outcome: Answered | Failure): void {
    this.#cancelTimer();
    this.#settled = true;
    this.#settle(outcome);
  }

  /** Withdraws the operation. It is still answered, soon: an acquire with a grant, if that came first. */
  cancel(): void {
    if (!this.isOpen) return;
    this.#restart(ANSWER_TIMEOUT_MS);
    this.#carrier?.withdraw(this);
  }

  #arm(ms: number): () => void {
    return afterReading(ms, () => {
      const isSent = this.sent !== undefined;
      const message = isSent ? "no answer in time" : "the request could not be sent in time";
      this.settle(new Failure(Code.DeadlineExceeded, message, isSent));
      this.#carrier?.overdue(this);
    });
  }

  #restart(ms: number): void {
    this.#cancelTimer();
    this.#cancelTimer = this.#arm(ms);
  }
}
