/** The client. */
import { hostname, userInfo } from "node:os";
import { inspect } from "node:util";
import { create } from "@bufbuild/protobuf";
import { Acquiring } from "./acquiring.js";
import { addresses } from "./address.js";
import { checkObject, checkText, checkWhole, mistake } from "./arguments.js";
import { type Body, type SetBody, under } from "./body.js";
import { call, list, waiters } from "./calls.js";
import { now } from "./clock.js";
import { Core } from "./core.js";
import { tokenSource } from "./credentials.js";
import { Election } from "./election.js";
import { ClientClosed, Contended, type LockLost } from "./errors.js";
import { HOLDER_BYTES_MAX, RETRY_FOR_MS, TOKEN_MAX } from "./facts.js";
import { LockInfoSchema } from "./gen/fencepost/v1/lock_pb.js";
import { HeldLock } from "./held.js";
import { infoFrom, type LockInfo, type LockWaiter } from "./info.js";
import { type TokenStatus, tokenStatusFrom, type WatchEvent } from "./info.js";
import type { Lock } from "./lock.js";
import type { LockSet } from "./lock-set.js";
import { Log, type Logger } from "./log.js";
import { ANSWER_TIMEOUT_MS } from "./operation.js";
import { release } from "./releasing.js";
import {
  type AcquireAllOptions,
  type AcquireOptions,
  common,
  type LeadOptions,
  type LockInSet,
  request,
} from "./request.js";
import { checkToken, Tls, type TlsOptions, Tokens, type TokenSource } from "./security.js";
import { Servers } from "./servers.js";
import { observe, watch } from "./streams.js";
import { answerTime } from "./timing.js";
import { Together } from "./together.js";
import { traced } from "./traced.js";

/** Options of a client. */
export interface ClientOptions {
  /**
   * The servers: `host:port`, `host`, `http://host:port`, `https://host:port` for TLS, or `unix:/path`; a list, or a
   * text with commas. All of them must share one store. Default: the environment variable `FENCEPOST_SERVER`, else
   * `127.0.0.1:7420`.
   */
  readonly servers?: string | readonly string[];
  /** The label that others see as the holder of locks: at most 256 bytes. Default: `user@host:pid`. */
  readonly holder?: string;
  /** The files for TLS. Default: the environment variables `FENCEPOST_CA`, `FENCEPOST_CERT` and `FENCEPOST_KEY`. */
  readonly tls?: TlsOptions;
  /** A bearer token, or a function that is asked for one before each call. Never sent in plain text over a network. */
  readonly token?: TokenSource;
  /**
   * The file with a bearer token alone, in place of `token`. It is read again when it has changed. Default: the
   * environment variable `FENCEPOST_CREDENTIALS`, unless there is a `token`.
   */
  readonly credentials?: string;
  /** How long a call is repeated while no server answers it, beyond its wait, in milliseconds: 10,000 by default. */
  readonly timeout?: number;
  /**
   * Told when renewals begin to fail or work again, when a lock is lost, when a server fails, when two servers have
   * different stores, and when a lock was forgotten. Default: the console, for warnings and errors only. `null` is
   * silent.
   */
  readonly logger?: Logger | null;
}

/** Options of a call that changes nothing. */
export interface CallOptions {
  /** Gives up the call. */
  readonly signal?: AbortSignal;
}

/**
 * A client of Fencepost. Create one for each process and share it: one stream carries all of its locks.
 *
 * It connects with the first call. It keeps the process alive only while a promise of it is pending.
 *
 * ```ts
 * const client = new Client();
 * await client.using("orders/42", { ttl: 10_000, wait: 30_000 }, async (lock, signal) => {
 *   await store.write(order, lock.token, { signal });
 * });
 * await client.close();
 * ```
 */
export class Client implements AsyncDisposable {
  readonly #core: Core;

  /** @throws TypeError or RangeError for options that cannot work, and the error of a file that cannot be read. */
  constructor(options: ClientOptions = {}) {
    checkObject("options", options);
    const { timeout = RETRY_FOR_MS } = options;
    const token = tokenSource(options.token, options.credentials);
    const servers = addresses(options.servers);
    for (const address of servers) checkToken(address, token);
    if (!Number.isFinite(timeout) || timeout <= 0) {
      throw mistake("timeout", "a finite number of milliseconds above 0", timeout, "number");
    }
    const holder = options.holder ?? defaultHolder();
    checkText("holder", holder);
    if (options.tls !== undefined) checkObject("tls", options.tls);
    const tls = new Tls(options.tls);
    if (servers.some((address) => address.tls)) tls.check();
    const time = Math.min(timeout, answerTime(ANSWER_TIMEOUT_MS, timeout, servers.length));
    const tokens = token === undefined ? undefined : new Tokens(token, time);
    const log = new Log(options.logger);
    this.#core = new Core(new Servers(servers, { tls, tokens }, log, timeout), holder, timeout, log);
  }

  /**
   * Acquires a lock. `await using lock = await client.lock(name)` releases it at the end of the block.
   *
   * @throws Contended if the lock is not free, or TimedOut when the wait is over
   * @throws OutcomeUnknown if no answer arrived in time; a lease granted meanwhile is released in the background
   * @throws Unavailable if no server can be reached, or each one that answers did nothing
   * @throws Refused if the servers refuse the request
   * @throws LockLost if the lock was granted, and the lease was over when the answer arrived
   * @throws ClientClosed if the client is closed, and the reason of `options.signal` when that aborts
   */
  lock(name: string, options: AcquireOptions = {}): Promise<Lock> {
    return traced(() => this.#acquire(name, options));
  }

  async #acquire(name: string, options: AcquireOptions, told: Told = {}): Promise<Lock> {
    const core = this.#core;
    const asked = request(name, options, core.holder);
    const { signal, onWaiting, onAtRisk } = options;
    if (core.isClosed) throw new ClientClosed();
    signal?.throwIfAborted();
    const waiting = onWaiting && ((ahead: number) => void setImmediate(onWaiting, ahead));
    const acquiring = new Acquiring(core, asked, waiting, told.onFailure);
    const stop = () => {
      acquiring.abandon(signal?.aborted === true ? signal.reason : new ClientClosed());
    };
    core.onClose.add(stop);
    signal?.addEventListener("abort", stop);
    try {
      const acquired = core.awake.during(() => acquiring.run());
      core.acquiring(acquired);
      return new HeldLock(core, await acquired, onAtRisk, told.onEnd);
    } finally {
      core.onClose.delete(stop);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Acquires a lock, or resolves with `null` if it is not free. @throws the other errors of {@link lock} */
  async tryLock(name: string, options: Omit<AcquireOptions, WaitOptions> = {}): Promise<Lock | null> {
    try {
      return await this.lock(name, options);
    } catch (error) {
      if (error instanceof Contended) return null;
      throw error;
    }
  }

  /**
   * Acquires a lock, runs the body, and releases the lock.
   *
   * The body's signal aborts when the lock is lost, with a {@link LockLost} as its reason, and when `options.signal`
   * aborts. Pass it to whatever the body waits for. This promise settles when the body's does.
   *
   * @throws LockLost if the lock was lost while the body ran, whatever the body's outcome; an error of the body is its
   * `cause`. The other errors of {@link lock}, before the body runs; and the errors of the body.
   */
  using<T>(name: string, body: Body<T>): Promise<T>;
  using<T>(name: string, options: AcquireOptions, body: Body<T>): Promise<T>;
  async using<T>(name: string, ...rest: [Body<T>] | [AcquireOptions, Body<T>]): Promise<T> {
    const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (typeof body !== "function") throw mistake("body", "a function", body, "");
    return under(await this.lock(name, options), options.signal, body);
  }

  /**
   * Leader election: waits until this process is the leader, runs the body, and resigns. When it loses the lock, it
   * campaigns again, and runs the body again when it is elected again, with a higher `lock.token`: the term.
   *
   * The body's signal aborts when the lock is lost, and when `options.signal` aborts. Stop the work then: no campaign,
   * and no release, begins before the body has settled. What it says after a loss is dropped; an error of its own goes
   * to the log. When the body ends while it leads, this promise settles as the body's does.
   *
   * A campaign goes on while servers cannot be reached or are full. A leader that was paused does no harm only if every
   * write carries the token: pass it to a guard.
   *
   * @throws the reason of `options.signal` when that aborts, once the body has settled and the lock is released
   * @throws Refused if the servers refuse the request, and Unavailable if that `isLasting`
   * @throws ClientClosed if the client is closed; and the errors of the body
   */
  lead<T>(name: string, body: Body<T>): Promise<T>;
  lead<T>(name: string, options: LeadOptions, body: Body<T>): Promise<T>;
  async lead<T>(name: string, ...rest: [Body<T>] | [LeadOptions, Body<T>]): Promise<T> {
    const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (typeof body !== "function") throw mistake("body", "a function", body, "");
    checkObject("options", options);
    const campaign = (one: AcquireOptions, onFailure: (cause: string) => void) =>
      traced(() => this.#acquire(name, one, { onFailure }));
    // Awaited here, so that the stacks of errors have the caller.
    return await new Election(this.#core, name, common(options), campaign, body).lead();
  }

  /**
   * Acquires several locks together: all of them, or none. `await using locks = await client.lockAll(names)` releases
   * them at the end of the block.
   *
   * The locks are acquired one after another, in the order of the bytes of their names, in which all clients acquire
   * them: so no two calls wait for each other in a circle. It is not one step: others see that some are held, and those
   * are held while later ones are waited for. {@link tryAll} does not do that.
   *
   * It fails, and gives back what it has, when one is not acquired, when one is lost while later ones are waited for,
   * and when `options.signal` aborts.
   *
   * @param names 1 to 64 names, as in `["a", { name: "b", shared: true }]`. One that is given twice counts once, and is
   * a `TypeError` if it is to be both shared and not
   * @throws NotAllAcquired with the name of the lock, what was given back, and an error of {@link lock} as its `cause`
   * @throws ClientClosed if the client is closed, and the reason of `options.signal` when that aborts
   */
  lockAll(names: Iterable<string | LockInSet>, options: AcquireAllOptions = {}): Promise<LockSet> {
    return traced(async () => this.#together(names, options).all());
  }

  /**
   * Acquires several locks together when all of them are free at the same moment; resolves with `null` if they were not
   * within `options.wait`. It never waits for one lock while it holds another: it tries to acquire all, and if one is
   * not free it gives back what it has and tries again after a random pause of up to a second. So it holds up nobody,
   * and it may come too late again and again if the locks are rarely free. @throws the other errors of {@link lockAll}
   */
  tryAll(names: Iterable<string | LockInSet>, options: AcquireAllOptions = {}): Promise<LockSet | null> {
    return traced(async () => this.#together(names, options).tries());
  }

  /**
   * Acquires several locks as {@link lockAll} does, runs the body, and releases the locks.
   *
   * The body's signal aborts when one of the locks is lost, and when `options.signal` aborts.
   *
   * @throws LockLost if a lock was lost while the body ran, whatever the body's outcome; an error of the body is its
   * `cause`. The other errors of {@link lockAll}, before the body runs; and the errors of the body.
   */
  usingAll<T>(names: Iterable<string | LockInSet>, body: SetBody<T>): Promise<T>;
  usingAll<T>(names: Iterable<string | LockInSet>, options: AcquireAllOptions, body: SetBody<T>): Promise<T>;
  async usingAll<T>(
    names: Iterable<string | LockInSet>,
    ...rest: [SetBody<T>] | [AcquireAllOptions, SetBody<T>]
  ): Promise<T> {
    const [options, body] = rest.length === 1 ? [{}, rest[0]] : rest;
    if (typeof body !== "function") throw mistake("body", "a function", body, "");
    return under(await this.lockAll(names, options), options.signal, body);
  }

  #together(names: Iterable<string | LockInSet>, options: AcquireAllOptions): Together {
    checkObject("options", options);
    const { wait } = options;
    const known = { ...common(options), ...(wait !== undefined && { wait }) };
    return new Together(this.#core, names, known, (name, one, onEnd) => this.#acquire(name, one, { onEnd }));
  }

  /** Reads the state of one lock: a snapshot for people, not to decide whether to write. */
  async get(name: string, options: CallOptions = {}): Promise<LockInfo> {
    checkText("name", name);
    const request = { lockName: name };
    const { lock } = await call(this.#core, options.signal, (service, more) => service.get(request, more));
    return infoFrom(lock ?? create(LockInfoSchema, { lockName: name }));
  }

  /** Lists the locks that are held or waited for whose names begin with the prefix, in no particular order. */
  list(prefix = "", options: CallOptions = {}): AsyncGenerator<LockInfo, void, void> {
    return list(this.#core, prefix, options.signal);
  }

  /** Lists the requests that wait for a lock, the next one first. They may join and leave meanwhile. */
  waiters(name: string, options: CallOptions = {}): AsyncGenerator<LockWaiter, void, void> {
    return waiters(this.#core, name, options.signal);
  }

  /**
   * Observes one lock: its state now, and each that it has after a grant, a conversion, a description or the end of a
   * lease. Who leads an election, and what the leader says of itself. A state without holders says that nobody has the
   * lock. One who reads slowly gets the newest state, and misses those between.
   *
   * It goes on until the caller ends the loop. After an interruption the state is told again; until then the last one
   * may be out of date.
   *
   * @throws Refused if a server refuses, and Unavailable if none can be called and that `isLasting`
   */
  observe(name: string, options: CallOptions = {}): AsyncGenerator<LockInfo, void, void> {
    return observe(this.#core, name, options.signal);
  }

  /**
   * Watches the locks whose names begin with the prefix. The first event is `started`. After an interruption the next
   * one is `missed`: list the locks again.
   *
   * @throws Refused if a server refuses, and Unavailable if none can be reached for the client's timeout
   */
  watch(prefix = "", options: CallOptions = {}): AsyncGenerator<WatchEvent, void, void> {
    return watch(this.#core, prefix, options.signal);
  }

  /**
   * Checks whether a token is that of a current lease, for stores that cannot keep the highest token themselves. The
   * answer may be out of date when it arrives: only a comparison inside the store has no such gap.
   */
  async checkToken(name: string, token: number, options: CallOptions = {}): Promise<TokenStatus> {
    checkText("name", name);
    checkWhole("token", token, 1, TOKEN_MAX);
    const request = { lockName: name, fencingToken: BigInt(token) };
    const answer = await call(this.#core, options.signal, (service, more) => service.checkToken(request, more));
    return { status: tokenStatusFrom(answer.status), newestToken: Number(answer.newestToken) };
  }

  /**
   * Closes the client: pending calls reject with {@link ClientClosed}, the signals of held locks abort, and the locks
   * are released. Resolves when the servers have confirmed that, or after the client's timeout. Never rejects.
   */
  async close(): Promise<void> {
    const core = this.#core;
    core.isClosed = true;
    for (const stop of [...core.onClose]) stop();
    for (const lease of [...core.keeper.leases]) {
      if (lease.loss(now()) === undefined) lease.giveUp("closed");
      release(core, lease, "nobody").catch(() => undefined);
    }
    await core.awake.during(() => core.flushed(core.timeout));
    core.keeper.close();
    core.servers.close();
  }

  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Such as `Client of 127.0.0.1:7420 (holder me@host:1, 2 locks)`. */
  toString(): string {
    const { servers, holder, keeper, isClosed } = this.#core;
    const locks = [...keeper.leases].length;
    const state = isClosed ? "closed" : `${String(locks)} ${locks === 1 ? "lock" : "locks"}`;
    return `Client of ${servers.names.join(", ")} (holder ${holder}, ${state})`;
  }

  /** For `console.log`. */
  [inspect.custom](): string {
    return this.toString();
  }
}

/** The options of a wait. */
type WaitOptions = "wait" | "maxWaiters" | "onWaiting";

/** Who is told about an acquire beside its caller. */
interface Told {
  /** The lease has ended. */
  readonly onEnd?: (loss: LockLost) => void;
  /** A transmission failed, for this cause. */
  readonly onFailure?: (cause: string) => void;
}

/** `user@host:pid`, within the bound of labels and without control characters. */
function defaultHolder(): string {
  let user = "";
  try {
    user = `${userInfo().username}@`;
  } catch {
    // The user of a container may have no name.
  }
  const label = `${user}${hostname()}:${String(process.pid)}`.replace(/\p{Cc}/gu, "?");
  return Buffer.byteLength(label) <= HOLDER_BYTES_MAX ? label : `pid ${String(process.pid)}`;
}
