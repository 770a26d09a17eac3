/** Runs work one after another, each when the work before it has settled. */
export class Turns {
  #last: Promise<unknown> | undefined;

  async next<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const done = before === undefined ? work() : before.then(work);
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    this.#last = settled;
    try {
      return await done;
    } finally {
      if (this.#last === settled) this.#last = undefined;
    }
  }
}
