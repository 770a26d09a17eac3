/**
 * The servers of a client, and which one to use. All share one state, so any of them will do: calls stay with one that
 * works and move on when it fails.
 */
import type { Address } from "./address.js";
import { Connection, Heard } from "./connection.js";
import { CONNECT_TIMEOUT_MS, OTHER_STORE, RETRY_FOR_MS } from "./facts.js";
import { Failure } from "./failure.js";
import { Log } from "./log.js";
import { ANSWER_TIMEOUT_MS } from "./operation.js";
import type { Security } from "./security.js";
import { Stores } from "./stores.js";
import { answerTime } from "./timing.js";

export class Servers {
  readonly #addresses: readonly Address[];
  readonly #security: Security;
  readonly #log: Log;
  readonly #heard: readonly Heard[];
  readonly #connections: (Connection | undefined)[] = [];
  /** Why the last connections failed, of the servers that have not answered since. */
  readonly #troubles: (Failure | undefined)[] = [];
  /** The servers that failed and have not answered since. */
  readonly #failing = new Set<number>();
  readonly #stores = new Stores();
  /** How long one server gets to answer a call that does not wait, in milliseconds. */
  readonly answerTime: number;
  #preferred = 0;

  constructor(addresses: readonly Address[], security: Security, log: Log = new Log(null), timeout = RETRY_FOR_MS) {
    this.#addresses = addresses;
    this.#security = security;
    this.#log = log;
    this.#heard = addresses.map(() => new Heard());
    this.answerTime = answerTime(ANSWER_TIMEOUT_MS, timeout, addresses.length);
  }

  get count(): number {
    return this.#addresses.length;
  }

  /** The index of the server to use now. */
  get preferred(): number {
    return this.#preferred;
  }

  /** The addresses, as people write them. */
  get names(): string[] {
    return this.#addresses.map(({ text }) => text);
  }

  /** Moves on from a server that failed, unless another call has done so already. A used-up quota is no failure. */
  failed(index: number, failure: Failure): void {
    if (!failure.sent && !failure.isUnsentInTime) this.#troubles[index] = failure;
    if (failure.isOverQuota) return;
    if (index === this.#preferred) this.#preferred = (index + 1) % this.count;
    if (this.#failing.has(index)) return;
    this.#failing.add(index);
    const [server, next] = [this.#name(index), this.#name(this.#preferred)];
    const cause = this.explain(index, failure).diagnosis;
    this.#log.info(`server ${server} failed (${cause}), trying ${next}`, { server, cause });
  }

  /** The server has answered. */
  answered(index: number): void {
    this.#troubles[index] = undefined;
    this.#failing.delete(index);
  }

  /** The server told the id of its store. */
  toldStore(index: number, id: string): void {
    const differs = this.#stores.told(index, id);
    if (differs === undefined) return;
    const [server, other] = [this.#name(index), this.#name(differs)];
    this.#log.warn(`${server} ${OTHER_STORE.replace("{}", () => other)}`, { server, other });
  }

  /** Why the servers do not renew leases, as far as it is known. */
  get trouble(): string {
    const [failure] = this.#troubles.filter((each) => each !== undefined);
    return failure?.message ?? "no renewal arrived in time";
  }

  /** The reason of a failure: why connections with the server fail says more than that time is over. */
  explain(index: number, failure: Failure): Failure {
    if (!failure.isUnsentInTime) return failure;
    const text = "it did not answer before the time of the call was over";
    return this.#troubles[index] ?? Failure.connection(this.#name(index), { text, isLasting: false });
  }

  /** A new connection, for a session: it must not share one with waiting calls. */
  connection(index: number): Connection {
    const address = this.#addresses[index];
    if (address === undefined) throw new RangeError(`there is no server ${String(index)}`);
    const connectTime = Math.min(CONNECT_TIMEOUT_MS, this.answerTime);
    return new Connection(address, this.#security, this.#heard[index], connectTime);
  }

  /** The connection for calls. */
  shared(index: number): Connection {
    return (this.#connections[index] ??= this.connection(index));
  }

  /** Ends the connections for calls. */
  close(): void {
    for (const connection of this.#connections) connection?.close();
  }

  #name(index: number): string {
    return this.#addresses[index]?.text ?? "";
  }
}
