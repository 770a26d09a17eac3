/**
 * Timers that do not keep the process alive. What does, while a caller waits for a promise, is {@link Awake}.
 */

/** The longest delay of a timer in milliseconds; Node fires a longer one at once. */
const DELAY_MAX_MS = 2 ** 31 - 1;

/** Calls back after some milliseconds. */
export function after(ms: number, callback: () => void): NodeJS.Timeout {
  return setTimeout(callback, Math.min(Math.max(ms, 0), DELAY_MAX_MS)).unref();
}

/**
 * The same for the deadlines of answers: calls back once what has arrived is read, so that an event loop that was
 * blocked does not look like a silent server. Returns how to cancel it.
 */
export function afterReading(ms: number, callback: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined;
  // In a round of the event loop, sockets come between timers and immediates.
  const timer = after(ms, () => (immediate = setImmediate(callback)));
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}

/** Resolves after some milliseconds, at once when the signal aborts. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await within(new Promise<never>(() => undefined), ms, signal);
}

/**
 * Resolves with the promise's value, or with `undefined` when the time is over (in milliseconds, if there is a limit)
 * or the signal aborts.
 */
export function within<T>(
  promise: Promise<T>,
  ms: number | undefined,
  signal?: AbortSignal,
): Promise<T | undefined> {
  let stop: (() => void) | undefined;
  let timer: NodeJS.Timeout | undefined;
  const first = new Promise<T | undefined>((resolve, reject) => {
    promise.then(resolve, reject);
    stop = () => {
      resolve(undefined);
    };
    if (ms !== undefined) timer = after(ms, stop);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop);
  });
  return first.finally(() => {
    clearTimeout(timer);
    if (stop) signal?.removeEventListener("abort", stop);
  });
}

/** Keeps the process alive while somebody waits: all sockets and all other timers of this package do not. */
export class Awake {
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;

  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    this.#timer ??= setInterval(() => undefined, DELAY_MAX_MS);
    try {
      return await work();
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) {
        clearInterval(this.#timer);
        this.#timer = undefined;
      }
    }
  }
}
