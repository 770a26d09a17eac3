/**
 * The servers of a client, and which one to use. All share one state, so any of them will do: calls stay with one that
 * works and move on when it fails.
 */
import type { Address } from "./address.js";
import { Connection } from "./connection.js";
import type { Security } from "./security.js";

export class Servers {
  readonly #addresses: readonly Address[];
  readonly #security: Security;
  readonly #connections: (Connection | undefined)[] = [];
  #preferred = 0;

  constructor(addresses: readonly Address[], security: Security) {
    this.#addresses = addresses;
    this.#security = security;
  }

  get count(): number {
    return this.#addresses.length;
  }

  /** The index of the server to use now. */
  get preferred(): number {
    return this.#preferred;
  }

  /** Moves on from a server that failed, unless another call has done so already. */
  failed(index: number): void {
    if (index === this.#preferred) this.#preferred = (index + 1) % this.count;
  }

  /** A new connection, for a session: it must not share one with waiting calls. */
  connection(index: number): Connection {
    const address = this.#addresses[index];
    if (address === undefined) throw new RangeError(`there is no server ${String(index)}`);
    return new Connection(address, this.#security);
  }

  /** The connection for calls. */
  shared(index: number): Connection {
    return (this.#connections[index] ??= this.connection(index));
  }

  /** Ends the connections for calls. */
  close(): void {
    for (const connection of this.#connections) connection?.close();
  }
}
