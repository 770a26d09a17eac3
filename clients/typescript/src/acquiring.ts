/**
 * One acquire, over all of its transmissions.
 *
 * Every transmission carries the same request id and the next attempt number, so the effect is that of one request,
 * whatever the network lost or delayed. If the caller gives up, or the bound is reached with the outcome unknown, the
 * request is withdrawn behind the caller (`cleanup.ts`).
 *
 * A request that could not reach the servers for too long may have ended: they gave up its queue position, or a lease
 * that it was granted is over before the answer arrived. It holds nothing, so a wait that has time left continues as a
 * request with a new id, unless the caller chose the id.
 *
 * One that is above the caller's quota is repeated on the same server until the wait is over.
 */
import { cancelled, mayBeApplied, withdraw } from "./cleanup.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Contended, LockLost, TimedOut } from "./errors.js";
import { Failure } from "./failure.js";
import { type AcquireResponse, AcquireResponse_Outcome as Outcome } from "./gen/fencepost/v1/lock_pb.js";
import { delayFrom, holderFrom, type LockDelay, type LockHolder, type Semaphore, semaphoreFrom } from "./info.js";
import type { Lease } from "./lease.js";
import type { Answered } from "./operation.js";
import { release } from "./releasing.js";
import { renew } from "./renewing.js";
import { type Request, restarted, transmission } from "./request.js";
import { Retries } from "./retries.js";
import { within } from "./timers.js";
import { transmit } from "./transmission.js";

export class Acquiring {
  readonly #core: Core;
  #request: Request;
  readonly #onWaiting: ((ahead: number) => void) | undefined;
  /** Told why a transmission failed. */
  readonly #onFailure: ((cause: string) => void) | undefined;
  readonly #stop = new AbortController();
  /** When the wait ends, and when retries end. */
  readonly #waitUntil: number;
  readonly #until: number;
  /** Transmissions with the current request id. */
  #transmissions = 0;
  /** Whether one before the last may have been delivered, and was not refused for want of room. */
  #isRepeat = false;
  /** Whether the last one was to wait. */
  #waits = false;
  /** Whether the session had no room for another lease. */
  #isFull = false;

  constructor(
    core: Core,
    request: Request,
    onWaiting?: (ahead: number) => void,
    onFailure?: (cause: string) => void,
  ) {
    this.#core = core;
    this.#request = request;
    this.#onWaiting = onWaiting;
    this.#onFailure = onFailure;
    this.#waitUntil = now() + request.wait;
    this.#until = this.#waitUntil + core.timeout;
  }

  /** Gives up: `run` rejects with the reason. */
  abandon(reason: unknown): void {
    this.#stop.abort(reason);
  }

  /** Resolves with a lease that is valid, and renewed from now on. */
  async run(): Promise<Lease> {
    const begin = () => new Retries(this.#core.servers, this.#until, "caller", this.#waitUntil);
    let retries = begin();
    for (;;) {
      const { server, outcome } = await this.#transmit();
      this.#isFull = outcome instanceof Failure && outcome.isSessionFull;
      if (outcome instanceof Failure) {
        if (!this.#hasEnded(outcome)) {
          await this.#pause(retries, server, outcome);
          this.#isRepeat ||= !outcome.isOverQuota && !outcome.isStreamRefused;
          continue;
        }
      } else {
        this.#core.servers.answered(server);
        const lease = await this.#decide(outcome);
        if (lease) return lease;
      }
      this.#request = restarted(this.#request);
      this.#transmissions = 0;
      this.#isRepeat = false;
      retries = begin();
    }
  }

  async #transmit(): Promise<{ server: number; outcome: Answered | Failure }> {
    const stop = this.#stop.signal;
    stop.throwIfAborted();
    const wait = Math.max(this.#waitUntil - now(), 0);
    this.#waits = wait > 0;
    this.#transmissions += 1;
    const value = transmission(this.#request, this.#transmissions, wait);
    const unsent = Math.max(this.#until - now(), 0);
    const options = { unsent, wait, byCall: this.#isFull, onWaiting: this.#onWaiting };
    const sent = transmit(this.#core, value, options);
    const outcome = await within(sent.outcome, undefined, stop);
    if (outcome !== undefined) return { server: sent.server, outcome };
    this.#core.inBackground(cancelled(this.#core, sent, this.#request, this.#transmissions, this.#isRepeat));
    throw stop.reason;
  }

  /** Waits until the next transmission. Throws the error for the caller if there is none. */
  async #pause(retries: Retries, server: number, failure: Failure): Promise<void> {
    const stop = this.#stop.signal;
    this.#onFailure?.(this.#core.servers.explain(server, failure).message);
    const final = await retries.failed(server, failure, stop);
    if (final === undefined && !stop.aborted) return;
    const known = (final ?? failure).afterSending(retries.mayBeApplied);
    if (mayBeApplied(known, this.#isRepeat)) {
      this.#core.inBackground(withdraw(this.#core, this.#request, this.#transmissions + 1));
    }
    stop.throwIfAborted();
    throw final?.toError();
  }

  /** Whether the request ended while the servers could not hear from it, with time left to wait. */
  #hasEnded(failure: Failure): boolean {
    return this.#transmissions > 1 && failure.isRequestEnded && this.#mayRestart();
  }

  #mayRestart(): boolean {
    return this.#request.choseId && now() < this.#waitUntil;
  }

  /** `undefined` if the request was granted and is over, and a new one may follow. */
  async #decide({ answer, lease }: Answered): Promise<Lease | undefined> {
    if (answer.case !== "acquire") throw Failure.malformed().toError();
    const response = answer.value;
    switch (response.outcome) {
      case Outcome.ACQUIRED:
        if (lease === undefined) throw Failure.malformed().toError();
        return this.#accept(lease);
      case Outcome.TIMED_OUT:
        throw timedOut(this.#request, response);
      case Outcome.CONTENDED:
        // Without a wait of its own, this answers a repeat that was sent when the wait was over.
        if (this.#request.wait > 0 && !this.#waits) throw timedOut(this.#request, response);
        throw new Contended(this.#request.message.lockName, ...stateFrom(response));
      default:
        throw Failure.malformed().toError();
    }
  }

  /** A grant that arrived late is renewed before it is used; one that is over is released. */
  async #accept(lease: Lease): Promise<Lease | undefined> {
    // Another process may have acquired it with this id, and described it.
    if (!this.#request.choseId) lease.description = undefined;
    this.#core.keeper.add(lease);
    if (lease.loss(now()) === undefined && lease.isLate(now())) {
      await renew(this.#core.keeper, lease, this.#stop.signal);
      lease.expectNoMore();
    }
    const loss = lease.loss(now());
    const { aborted } = this.#stop.signal;
    if (!aborted && loss === undefined && !lease.isLate(now())) return lease;
    // Behind the caller; the outcome of the release changes nothing here.
    release(this.#core, lease, "nobody").catch(() => undefined);
    this.#stop.signal.throwIfAborted();
    if (this.#mayRestart()) return undefined;
    throw loss ?? new LockLost(lease.name, lease.token, "silence");
  }
}

function timedOut({ message }: Request, response: AcquireResponse): TimedOut {
  return new TimedOut(message.lockName, ...stateFrom(response));
}

type State = [
  holders: LockHolder[],
  holderCount: number,
  waiters: number,
  delay: LockDelay | undefined,
  semaphore: Semaphore | undefined,
];

/** Why the lock was not granted. */
function stateFrom({ holders, holderCount, waiters, delay, semaphore }: AcquireResponse): State {
  return [holders.map(holderFrom), holderCount, waiters, delayFrom(delay), semaphoreFrom(semaphore)];
}
