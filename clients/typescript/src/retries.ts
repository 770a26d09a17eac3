/** Repeats of one call whose transmissions have failed so far. */
import { now } from "./clock.js";
import { RETRY_FIRST_MS, RETRY_MAX_MS } from "./facts.js";
import { Failure } from "./failure.js";
import type { Servers } from "./servers.js";
import { sleep } from "./timers.js";

export class Retries {
  readonly #servers: Servers;
  readonly #until: number;
  readonly #quotaUntil: number;
  readonly #isPatient: boolean;
  /** The last failures of the servers that were tried. */
  readonly #failures = new Map<number, Failure>();
  #tries = 0;
  #mayBeApplied = false;
  #answer: Failure | undefined;

  /**
   * Retries end at `until`. While a caller waits, they also end when no server could ever be called. What a quota
   * refuses is repeated until `quotaUntil`: by default at once final for a caller.
   */
  constructor(
    servers: Servers,
    until: number,
    waits: "caller" | "nobody" = "caller",
    quotaUntil = waits === "nobody" ? until : 0,
  ) {
    this.#servers = servers;
    this.#until = until;
    this.#quotaUntil = quotaUntil;
    this.#isPatient = waits === "nobody";
  }

  /** Whether the servers may have done what an earlier transmission asked for. */
  get mayBeApplied(): boolean {
    return this.#mayBeApplied;
  }

  /** The last failure that a server answered, although a repeat may succeed. */
  get answer(): Failure | undefined {
    return this.#answer;
  }

  /**
   * Records a failed transmission, and pauses until the next one. Returns the failure if there is none. The pause ends
   * early when the signal aborts.
   */
  async failed(server: number, failure: Failure, signal?: AbortSignal): Promise<Failure | undefined> {
    const known = this.#servers.explain(server, failure);
    const hasNoRoom = known.isSessionFull || known.isStreamRefused || known.isOverQuota;
    const isFinal = !known.isTransient && !known.isLasting && !hasNoRoom;
    if (isFinal) return known.afterSending(this.#mayBeApplied);
    this.#mayBeApplied ||= known.isOutcomeUnknown;
    if (!known.isSessionFull) {
      this.#failures.set(server, known);
      if (known.reason !== undefined) this.#answer = known;
      this.#servers.failed(server, failure);
    }
    const pause = Math.max(backoff(this.#tries), failure.retryDelay);
    this.#tries += 1;
    const until = known.isOverQuota && !known.isStreamRefused ? this.#quotaUntil : this.#until;
    if (this.#isHopeless || now() + pause >= until) return this.#final(known);
    await sleep(pause, signal);
    return undefined;
  }

  get #isHopeless(): boolean {
    const lasting = [...this.#failures.values()].filter(({ isLasting }) => isLasting);
    return lasting.length === this.#servers.count && !this.#isPatient;
  }

  /** With an unknown outcome, the last failure is the cause; otherwise each server has one. Tells the last answer. */
  #final(last: Failure): Failure {
    const known = last.isSessionFull || last.isOverQuota || this.#mayBeApplied;
    const inOrder = [...this.#failures].sort(([a], [b]) => a - b).map(([, failure]) => failure);
    const final = known ? last : Failure.ofAll(inOrder, last);
    return final.afterAnswer(this.#answer).afterSending(this.#mayBeApplied);
  }
}

/** The pause before the next transmission in milliseconds, with jitter, so that clients do not all retry at once. */
export function backoff(tries: number, first = RETRY_FIRST_MS, max = RETRY_MAX_MS): number {
  const full = Math.min(first * 2 ** Math.min(tries, 8), max);
  return (full / 2) * (1 + Math.random());
}
