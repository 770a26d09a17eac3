/**
 * The one clock of this package: monotonic, and it counts the time that a machine is suspended.
 *
 * A lease keeps ageing on the server while the machine of its holder is suspended. On Linux the monotonic clock of Node
 * and its timers stop meanwhile, and the time since boot does not. So timers only wake the client up, and validity is
 * always decided by this clock. On macOS and Windows the monotonic clock counts suspend by itself.
 */
import { uptime } from "node:os";

/** By how much the two clocks may differ for other reasons, in milliseconds: the time since boot has steps of 10 ms. */
const TOLERANCE_MS = 30;

export class Clock {
  readonly #monotonic: () => number;
  readonly #sinceBoot: (() => number) | undefined;
  readonly #bootedBefore: number;
  /** The suspended time so far, in milliseconds. */
  #suspended = 0;

  constructor(monotonic: () => number, sinceBoot?: () => number) {
    this.#monotonic = monotonic;
    this.#sinceBoot = sinceBoot;
    this.#bootedBefore = sinceBoot === undefined ? 0 : sinceBoot() - monotonic();
  }

  /** Milliseconds since some moment. It never goes back. */
  now(): number {
    if (this.#sinceBoot === undefined) return this.#monotonic();
    // In this order: a pause between the two reads must not look like suspended time.
    const sinceBoot = this.#sinceBoot();
    const monotonic = this.#monotonic();
    const suspended = sinceBoot - monotonic - this.#bootedBefore;
    if (suspended > this.#suspended + TOLERANCE_MS) this.#suspended = suspended;
    return monotonic + this.#suspended;
  }
}

const clock = new Clock(
  () => performance.now(),
  process.platform === "linux" ? () => uptime() * 1000 : undefined,
);

/** Milliseconds since some moment. It never goes back. For a lease, read it before the request is sent. */
export function now(): number {
  return clock.now();
}
