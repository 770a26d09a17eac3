/**
 * Which store each server has. The servers of one client must share a store: a lock of one would exclude nobody on
 * another, and a lease that moves there would be lost.
 */
export class Stores {
  /** The ids of the stores, as the servers last told them. */
  readonly #ids: (string | undefined)[] = [];

  /** A server told the id of its store. Returns another server that had a different one, if this is news. */
  told(server: number, id: string): number | undefined {
    if (this.#ids[server] === id) return undefined;
    this.#ids[server] = id;
    const other = this.#ids.findIndex((known) => known !== undefined && known !== id);
    return other === -1 ? undefined : other;
  }
}
