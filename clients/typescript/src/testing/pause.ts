/** While it lasts, everybody who waits for its end waits. */
export class Pause {
  #over: Promise<void> | undefined;
  #end: (() => void) | undefined;

  begin(): void {
    this.#over ??= new Promise((resolve) => (this.#end = resolve));
  }

  end(): void {
    this.#over = undefined;
    this.#end?.();
  }

  async wait(): Promise<void> {
    while (this.#over !== undefined) await this.#over;
  }
}
