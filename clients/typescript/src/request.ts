/** The request of an acquire, from the options of its caller. */
import { randomUUID } from "node:crypto";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  checkBoolean,
  checkDuration,
  checkFunction,
  checkMetadata,
  checkObject,
  checkSignal,
  checkText,
  checkWhole,
  mistake,
} from "./arguments.js";
import { Refused } from "./errors.js";
import { PERMITS_MAX, REQUEST_BYTES_MAX, TOKEN_MAX } from "./facts.js";
import { type AcquireRequest, AcquireRequestSchema, LockMode } from "./gen/fencepost/v1/lock_pb.js";
import type { Lock } from "./lock.js";
import { duration } from "./wire.js";

/** Options of an acquire. All durations are in milliseconds. */
export interface AcquireOptions {
  /**
   * How long the lease lasts unless it is renewed, which the client does while the process runs: 1,000 ms to 24 h
   * (a server may be configured otherwise). The lock of a process that dies is free after this time. Choose at least
   * three times the longest pause that the holder must survive. By default none is sent, and the server decides: 30,000
   * unless it is configured otherwise; `lock.ttl` has it.
   */
  readonly ttl?: number;
  /** How long to wait in the queue if the lock is held: at most 1 h, 0 by default: do not wait. */
  readonly wait?: number;
  /** Gives up the wait. The promise rejects with the signal's reason, and a lease granted meanwhile is released. */
  readonly signal?: AbortSignal;
  /** The label that others see as the holder: at most 256 bytes. Default: that of the client. */
  readonly holder?: string;
  /** Shown together with the holder: at most 4 KiB for all keys and values. */
  readonly metadata?: Readonly<Record<string, string>>;
  /**
   * A UUID that identifies this acquire across repeats; a random one by default. It belongs to one lock name and one
   * acquire, and has to be kept secret: it is enough to get the lease.
   */
  readonly requestId?: string;
  /**
   * The lowest token to accept. If the protected store has seen a higher token than the server grants, pass its highest
   * token + 1.
   */
  readonly minToken?: number;
  /**
   * The longest time to hold the lock, with all renewals: at least the TTL, at most 7 days. A bound on work that is
   * stuck while its process goes on renewing: then the lock is lost with the reason `maxHold`. By default there is no
   * bound.
   */
  readonly maxHold?: number;
  /**
   * How long the lock stays unavailable after the grant, however the lease ends, release included: at most 24 h, 0 by
   * default. For jobs that many machines start at one time by clocks that differ: the first one runs it, and the others
   * find the lock unavailable. Choose more than the clocks may differ, and less than the time between two starts. With
   * `shared` it is the place of the reader that stays unavailable, which keeps out writers; with `semaphore` the
   * permits and the slot.
   */
  readonly minHold?: number;
  /**
   * How long the lock stays unavailable after the end of the lease if the holder does not release it: at most 60,000,
   * 0 by default. For stores that cannot compare tokens, in which a holder that lost the lock may still be writing. A
   * release ends it, however late.
   */
  readonly lockDelay?: number;
  /**
   * Shares the lock with all others that ask for it so (readers), and excludes only those that do not (writers). By
   * default `false`. A reader never overtakes a writer that waits: a task that holds the lock and asks for it once more
   * while a writer waits, waits for itself until its `wait` is over. Tokens rise with each grant, of readers too:
   * readers that write next to each other must not be compared by the plain guards. All servers have to know it, as
   * they have to know `maxHold`.
   */
  readonly shared?: boolean;
  /**
   * Takes a permit of a semaphore, of which all holders together use no more than this limit: 1 to 1,000,000. Nobody
   * else holds the lock beside them, and requests are served in the order in which they came. Holders work side by
   * side, so no store can order them by their tokens; those of one {@link Lock.slot} it can. All servers have to know
   * it, as they have to know `maxHold`. Not with `shared`.
   */
  readonly semaphore?: number;
  /**
   * How many permits of the `semaphore` the lock takes, at most its limit; 1 by default. They are given back together.
   * Ask for few: permits stay unused until there are enough for the request that is next.
   */
  readonly permits?: number;
  /**
   * The version of the limit of the `semaphore`; 0 by default. Raise it with each change of the limit: the highest one
   * that a request has named is in force for as long as the semaphore is held or waited for, and a request with another
   * limit of the same version is `Refused` (PERMIT_LIMIT_MISMATCH).
   */
  readonly permitLimitVersion?: number | bigint;
  /**
   * A label of what acquires locks one after another, and waits for one while it holds others: a worker, a job, a
   * transaction. At most 128 bytes; others see it beside the holder. Requests with one owner that wait for each other
   * are a deadlock, which `fencepost deadlocks` finds. All servers have to know it, as they have to know `maxHold`; the
   * same holds for `maxWaiters` and `tellWhenWanted`.
   */
  readonly owner?: string;
  /**
   * Does not wait behind so many requests that wait already: the lock is then `Contended` at once, whatever the `wait`.
   * For work that need not be done twice. 0 by default: no bound but that of the server.
   */
  readonly maxWaiters?: number;
  /**
   * Tells when somebody waits whom this lock excludes: `lock.wanted` aborts. For holders that keep a lock while nobody
   * else wants it, and for jobs that may be interrupted. By default `false`.
   */
  readonly tellWhenWanted?: boolean;
  /** Told how many requests are ahead in the queue, at most once a second. An upper bound. */
  readonly onWaiting?: (ahead: number) => void;
  /** Told when renewals begin to fail. The lock is still held: `lock.remaining()` says for how long. */
  readonly onAtRisk?: (lock: Lock) => void;
}

const COMMON = [
  "ttl",
  "signal",
  "holder",
  "metadata",
  "owner",
  "maxHold",
  "minHold",
  "lockDelay",
  "tellWhenWanted",
] as const;

/** The options of an acquire that other calls have too. */
type CommonOptions = Pick<AcquireOptions, (typeof COMMON)[number]>;

/** Those of them that are given. */
export function common(options: CommonOptions): CommonOptions {
  const given = COMMON.map((name) => [name, options[name]] as const);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

/**
 * Options of a leader election: those of its lock. `maxHold` is the longest term. When `signal` aborts, the election
 * ends: a campaign is given up, and a leader resigns once its body has settled. All durations are in milliseconds.
 */
export type LeadOptions = CommonOptions;

/** Options of an acquire of several locks: those of each lock, but for the wait. All durations are in milliseconds. */
export interface AcquireAllOptions extends CommonOptions {
  /** How long to wait for all of the locks in sum: at most 1 h, 0 by default: do not wait. */
  readonly wait?: number;
}

/** One of several locks, with its mode. */
export interface LockInSet {
  readonly name: string;
  /** As in {@link AcquireOptions}. For the parents of a leaf that is not shared. By default `false`. */
  readonly shared?: boolean;
}

/** The highest bound for those who wait: the field has 32 bits. */
const WAITERS_MAX = 2 ** 32 - 1;

/** The most bytes that a request may have: the message around it takes up to 25. */
const BYTES_MAX = REQUEST_BYTES_MAX - 32;

export interface Request {
  readonly message: AcquireRequest;
  /** How long to wait, in milliseconds. */
  readonly wait: number;
  /** Whether this package chose the request id. */
  readonly choseId: boolean;
}

/**
 * @throws TypeError or RangeError for an option that is not what it has to be.
 * @throws Refused for a request that is too large to be sent. The servers check the other rules.
 */
export function request(name: string, options: AcquireOptions, holder: string): Request {
  checkText("name", name);
  checkObject("options", options);
  const { ttl, wait = 0, metadata = {}, minToken = 0, requestId = randomUUID() } = options;
  const { maxHold, minHold = 0, lockDelay = 0, shared = false } = options;
  const { owner = "", maxWaiters = 0, tellWhenWanted = false } = options;
  checkText("holder", options.holder ?? holder);
  checkText("requestId", requestId, true);
  checkMetadata(metadata);
  checkText("owner", owner);
  checkWhole("maxWaiters", maxWaiters, 0, WAITERS_MAX);
  checkBoolean("tellWhenWanted", tellWhenWanted);
  if (ttl !== undefined) checkDuration("ttl", ttl, "above 0");
  checkDuration("wait", wait, "0 or more");
  if (maxHold !== undefined) checkDuration("maxHold", maxHold, "above 0");
  checkDuration("minHold", minHold, "0 or more");
  checkDuration("lockDelay", lockDelay, "0 or more");
  checkBoolean("shared", shared);
  const semaphore = semaphoreOf(options);
  checkWhole("minToken", minToken, 0, TOKEN_MAX);
  checkSignal(options.signal);
  checkFunction("onWaiting", options.onWaiting);
  checkFunction("onAtRisk", options.onAtRisk);
  const message = create(AcquireRequestSchema, {
    lockName: name,
    holder: options.holder ?? holder,
    requestId,
    metadata: { ...metadata },
    minToken: BigInt(minToken),
    ...{ owner, maxWaiters, tellWhenWanted },
    ...(ttl !== undefined && { ttl: duration(ttl) }),
    ...(maxHold !== undefined && { maxHold: duration(maxHold) }),
    ...(minHold > 0 && { minHold: duration(minHold) }),
    ...(lockDelay > 0 && { lockDelay: duration(lockDelay) }),
    ...(shared && { mode: LockMode.SHARED }),
    ...semaphore,
    ...(wait > 0 && { waitTimeout: duration(wait) }),
  });
  const bytes = toBinary(AcquireRequestSchema, message).length;
  if (bytes > BYTES_MAX) {
    const text = `the request has ${String(bytes)} bytes, the maximum is ${String(BYTES_MAX)}: shorten its fields`;
    throw new Refused(text, "INVALID_ARGUMENT");
  }
  return { message, wait, choseId: options.requestId === undefined };
}

/** The fields of a semaphore, if one is asked for. */
function semaphoreOf(options: AcquireOptions): MessageInitShape<typeof AcquireRequestSchema> {
  const { semaphore, permits = 1, permitLimitVersion = 0 } = options;
  if (semaphore === undefined) {
    if (options.permits === undefined && options.permitLimitVersion === undefined) return {};
    throw new TypeError("permits and permitLimitVersion are those of a semaphore: name its limit with semaphore");
  }
  if (options.shared === true) throw new TypeError("a lock is either shared or a semaphore, not both");
  checkWhole("semaphore", semaphore, 1, PERMITS_MAX);
  checkWhole("permits", permits, 1, semaphore);
  if (typeof permitLimitVersion !== "bigint") checkWhole("permitLimitVersion", permitLimitVersion, 0, TOKEN_MAX);
  else if (BigInt.asUintN(64, permitLimitVersion) !== permitLimitVersion) {
    throw mistake("permitLimitVersion", "a whole number below 2^64", permitLimitVersion, "bigint");
  }
  const version = BigInt(permitLimitVersion);
  return { mode: LockMode.SEMAPHORE, permitLimit: semaphore, permits, permitLimitVersion: version };
}

/** The same request with a new id. */
export function restarted({ message, wait }: Request): Request {
  return { message: create(AcquireRequestSchema, { ...message, requestId: randomUUID() }), wait, choseId: true };
}

/** One transmission of a request, which waits for the rest of the time. */
export function transmission({ message }: Request, attempt: number, wait: number): AcquireRequest {
  const { waitTimeout: _, ...rest } = message;
  return create(AcquireRequestSchema, { ...rest, attempt, ...(wait > 0 && { waitTimeout: duration(wait) }) });
}
