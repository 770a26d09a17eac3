/** Gives up a call when the caller's signal aborts, or the client is closed. */
import { checkSignal } from "./arguments.js";
import type { Core } from "./core.js";
import { ClientClosed } from "./errors.js";

export class Stop {
  readonly #controller = new AbortController();
  readonly #core: Core;
  readonly #caller: AbortSignal | undefined;
  readonly #abort = (): void => {
    this.#controller.abort(this.#caller?.aborted === true ? this.#caller.reason : new ClientClosed());
  };

  constructor(core: Core, caller: AbortSignal | undefined) {
    checkSignal(caller);
    this.#core = core;
    this.#caller = caller;
    core.onClose.add(this.#abort);
    caller?.addEventListener("abort", this.#abort);
    if (core.isClosed || caller?.aborted === true) this.#abort();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  end(): void {
    this.#core.onClose.delete(this.#abort);
    this.#caller?.removeEventListener("abort", this.#abort);
  }
}
