/**
 * The servers of a client, and which one to use. All share one state, so any of them will do: calls stay with one that
 * works and move on when it fails.
 */
import type { Address } from "./address.js";
import { Connection } from "./connection.js";
import type { Failure } from "./failure.js";
import type { Security } from "./security.js";

export class Servers {
  readonly #addresses: readonly Address[];
  readonly #security: Security;
  readonly #connections: (Connection | undefined)[] = [];
  /** Why the last connections failed, of the servers that have not answered since. */
  readonly #troubles: (Failure | undefined)[] = [];
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
  failed(index: number, failure?: Failure): void {
    if (failure !== undefined && !failure.sent && !failure.isUnsentInTime) this.#troubles[index] = failure;
    if (index === this.#preferred) this.#preferred = (index + 1) % this.count;
  }

  /** The server has answered. */
  answered(index: number): void {
    this.#troubles[index] = undefined;
  }

  /** The reason of a failure: why connections with the server fail says more than that time is over. */
  explain(index: number, failure: Failure): Failure {
    return failure.isUnsentInTime ? (this.#troubles[index] ?? failure) : failure;
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
