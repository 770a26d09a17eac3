/** Repeats of one call whose transmissions have failed so far. */
import { now } from "./clock.js";
import { RETRY_FIRST_MS, RETRY_MAX_MS } from "./facts.js";
import type { Failure } from "./failure.js";
import type { Servers } from "./servers.js";
import { sleep } from "./timers.js";

export class Retries {
  readonly #servers: Servers;
  readonly #until: number;
  readonly #isPatient: boolean;
  /** The servers that refuse connections until somebody changes certificates. */
  readonly #lasting = new Set<number>();
  #tries = 0;
  #sent = false;

  /** Retries end at `until`. While a caller waits, they also end when no server would ever accept a connection. */
  constructor(servers: Servers, until: number, waits: "caller" | "nobody" = "caller") {
    this.#servers = servers;
    this.#until = until;
    this.#isPatient = waits === "nobody";
  }

  /**
   * Records a failed transmission, and pauses until the next one. Returns the failure if there is none. The pause ends
   * early when the signal aborts.
   */
  async failed(server: number, failure: Failure, signal?: AbortSignal): Promise<Failure | undefined> {
    const known = this.#servers.explain(server, failure).afterSending(this.#sent);
    if (failure.isTransient) {
      this.#sent = known.sent;
      this.#servers.failed(server, failure);
    } else if (!failure.isSessionFull) {
      return known;
    }
    if (known.isLasting) this.#lasting.add(server);
    if (this.#lasting.size === this.#servers.count && !this.#isPatient) return known;
    const pause = Math.max(backoff(this.#tries), failure.retryDelay);
    this.#tries += 1;
    if (now() + pause >= this.#until) return known;
    await sleep(pause, signal);
    return undefined;
  }
}

/** The pause before the next transmission in milliseconds, with jitter, so that clients do not all retry at once. */
function backoff(tries: number): number {
  const full = Math.min(RETRY_FIRST_MS * 2 ** Math.min(tries, 8), RETRY_MAX_MS);
  return (full / 2) * (1 + Math.random());
}
