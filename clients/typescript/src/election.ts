/**
 * Leader election. An election is a lock: a campaign acquires it, the leader holds it, the term is its token, and a
 * resignation is its release.
 *
 * A loss ends the term, not the election: once the body has settled, the elector campaigns again. So does one that
 * cannot reach the servers, for as long as it takes. The lock is never released while the body may still work.
 */
import { type Body, type Outcome, run } from "./body.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { ClientClosed, Contended, LockLost, OutcomeUnknown, Refused, TimedOut, Unavailable } from "./errors.js";
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS, WAIT_MAX_MS } from "./facts.js";
import type { Lock } from "./lock.js";
import { Outage } from "./outage.js";
import type { AcquireOptions, LeadOptions } from "./request.js";
import { backoff } from "./retries.js";
import { Stop } from "./stop.js";
import { sleep } from "./timers.js";

/** Acquires the lock, and calls back with the message of each transmission that fails meanwhile. */
export type Campaign = (options: AcquireOptions, onFailure: (cause: string) => void) => Promise<Lock>;

/** The shortest wait that is tried when the servers refuse longer ones, in milliseconds; then there is none. */
const WAIT_MIN_MS = 1000;

/** The most causes of an error that are looked at. */
const CAUSES_MAX = 10;

export class Election<T> {
  readonly #core: Core;
  readonly #options: LeadOptions;
  readonly #campaign: Campaign;
  readonly #body: Body<T>;
  readonly #outage: Outage;
  /** How long one acquire waits: at first as long as servers allow, unless they are configured otherwise. */
  #wait = WAIT_MAX_MS;
  /** Campaigns that failed and terms that were short, one after another. */
  #tries = 0;

  constructor(core: Core, name: string, options: LeadOptions, campaign: Campaign, body: Body<T>) {
    this.#core = core;
    this.#options = options;
    this.#campaign = campaign;
    this.#body = body;
    this.#outage = new Outage(core, name);
  }

  /** Resolves with the body's value once the body has ended as the leader. */
  async lead(): Promise<T> {
    const { signal } = this.#options;
    const stop = new Stop(this.#core, signal);
    try {
      for (;;) {
        const lock = await this.#elected(stop.signal);
        const since = now();
        const outcome = await run(lock, signal, this.#body);
        if (!(await resign(lock))) return this.#result(outcome);
        this.#dropped(lock, outcome);
        if (now() - since >= RECONNECT_MAX_MS) this.#tries = 0;
        else await this.#pause(stop.signal);
      }
    } finally {
      stop.end();
    }
  }

  /** Campaigns until it is elected. */
  async #elected(stop: AbortSignal): Promise<Lock> {
    const onFailure = (cause: string) => {
      this.#outage.failed(cause);
    };
    const onWaiting = () => {
      this.#outage.end();
    };
    for (;;) {
      try {
        const lock = await this.#campaign({ ...this.#options, wait: this.#wait, onWaiting }, onFailure);
        this.#outage.end();
        return lock;
      } catch (error) {
        this.#options.signal?.throwIfAborted();
        if (isTooLong(error) && this.#wait > 0) {
          this.#wait = this.#wait > WAIT_MIN_MS ? this.#wait / 2 : 0;
          continue;
        }
        if (error instanceof TimedOut) {
          this.#tries = 0;
          this.#outage.end();
          continue;
        }
        if (!passes(error)) throw error;
        if (!(error instanceof Contended)) this.#outage.tell(error.message);
        await this.#pause(stop);
      }
    }
  }

  /** So that electors do not hammer servers that are in trouble. */
  async #pause(stop: AbortSignal): Promise<void> {
    const pause = backoff(this.#tries, RECONNECT_FIRST_MS, RECONNECT_MAX_MS);
    this.#tries += 1;
    await this.#core.awake.during(() => sleep(pause, stop));
    stop.throwIfAborted();
  }

  /** That of a body which has ended as the leader. */
  #result(outcome: Outcome<T>): T {
    const { signal } = this.#options;
    if (signal?.aborted === true && (!("error" in outcome) || isOfAbort(outcome.error, [signal.reason]))) {
      throw signal.reason;
    }
    if ("error" in outcome) throw outcome.error;
    return outcome.value;
  }

  /** A body has ended after the loss of its lock. What it says then goes nowhere, except for an error of its own. */
  #dropped({ name, token, signal }: Lock, outcome: Outcome<T>): void {
    if (!("error" in outcome) || isOfAbort(outcome.error, [signal.reason, this.#options.signal?.reason])) return;
    const cause = outcome.error instanceof Error ? outcome.error.message : String(outcome.error);
    const text = `the body under ${name} (token ${String(token)}) failed after it had lost the lock: ${cause}`;
    this.#core.log.warn(text, { lock: name, token, cause });
  }
}

/** Releases the lock. Resolves with whether it was lost before. What is not confirmed ends by its TTL. */
async function resign(lock: Lock): Promise<boolean> {
  const isLost = lock.status === "lost";
  try {
    await lock[Symbol.asyncDispose]();
    return isLost;
  } catch (error) {
    if (error instanceof LockLost) return true;
    throw error;
  }
}

/** Whether the servers wait, but for a shorter time. */
function isTooLong(error: unknown): boolean {
  if (!(error instanceof Refused) || error.violations.length === 0) return false;
  return error.violations.every(({ field }) => field === "wait_timeout");
}

/** Whether a later campaign may succeed although nobody changes anything here. */
function passes(error: unknown): error is Error {
  if (error instanceof Unavailable) return !error.isLasting;
  if (error instanceof Refused) return error.code === "RESOURCE_EXHAUSTED" || error.code === "ABORTED";
  return error instanceof Contended || error instanceof OutcomeUnknown || error instanceof LockLost;
}

/** Whether a body failed with the reason of its signal, or because something that it waited for was given up. */
function isOfAbort(error: unknown, reasons: readonly unknown[]): boolean {
  let each = error;
  for (let depth = 0; depth < CAUSES_MAX && each !== undefined; depth += 1) {
    if (reasons.some((reason) => each === reason || isSameLoss(each, reason))) return true;
    if (!(each instanceof Error)) return false;
    if (each.name === "AbortError" || each instanceof ClientClosed) return true;
    each = each.cause;
  }
  return false;
}

/** `throwIfLost()` throws a copy of the loss, with another stack. */
function isSameLoss(error: unknown, reason: unknown): boolean {
  if (!(error instanceof LockLost && reason instanceof LockLost)) return false;
  return error.lockName === reason.lockName && error.token === reason.token;
}
