/** Tells the log when nobody can be elected, once for each outage. */
import { now } from "./clock.js";
import type { Core } from "./core.js";

export class Outage {
  readonly #core: Core;
  readonly #name: string;
  /** When the first transmission failed since a server has answered. */
  #since: number | undefined;
  #isTold = false;

  constructor(core: Core, name: string) {
    this.#core = core;
    this.#name = name;
  }

  /** A transmission failed. The next one may succeed: told if they fail for as long as other calls are repeated. */
  failed(cause: string): void {
    this.#since ??= now();
    if (now() - this.#since >= this.#core.timeout) this.tell(cause);
  }

  /** A campaign failed. */
  tell(cause: string): void {
    if (this.#isTold) return;
    this.#isTold = true;
    const name = this.#name;
    this.#core.log.warn(`the campaign for ${name} fails, and goes on: ${cause}`, { lock: name, cause });
  }

  /** A server has answered. */
  end(): void {
    this.#since = undefined;
    this.#isTold = false;
  }
}
