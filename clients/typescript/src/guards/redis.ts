/**
 * The guard for Redis, with `redis` or `ioredis`.
 *
 * Redis has no transaction that can be rolled back, so the guard and the write are one script.
 */
import { StaleToken } from "../errors.js";
import { GUARD_REDIS_CHECK_SHARED, GUARD_REDIS_RAISE, GUARD_REDIS_RAISE_SHARED } from "../facts.js";
import { type Fenced, fenceKey, reader, refused } from "./fenced.js";

/** A client or a cluster of `redis`. */
export interface NodeRedis {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
}

/** A client or a cluster of `ioredis`. */
export interface IoRedis {
  eval(script: string, keys: number, ...more: string[]): Promise<unknown>;
  defineCommand(name: string, definition: { lua: string }): unknown;
}

/** A script that writes. */
export interface Write {
  /**
   * The key of the fence: a hash with the highest token. In a cluster, its hash tag has to be that of the data, for
   * example `{orders/42}:fence`. All writers of the lock use the same key. For one permit of a semaphore, `#SLOT` is
   * appended.
   */
  readonly fence: string;
  /** The script in Lua. Its keys begin at `KEYS[2]`, its arguments at `ARGV[3]`. */
  readonly script: string;
  /** The keys of the script. */
  readonly keys?: readonly string[];
  /** The arguments of the script. */
  readonly arguments?: readonly (string | number)[];
}

/**
 * Raises the fence of the lock and runs the script that writes, in one step. Resolves with what the script returns.
 *
 * @throws StaleToken if the store has seen a newer token; then nothing was written. Other errors are the driver's.
 */
export async function write(client: NodeRedis | IoRedis, lock: Fenced, write: Write): Promise<unknown> {
  try {
    const fence = fenceKey(lock, write.fence);
    return await run(client, lock, `${GUARD_REDIS_RAISE}\n${write.script}`, { ...write, fence });
  } catch (error) {
    const newest = newestOf(error);
    throw newest === undefined ? error : new StaleToken(lock.name, lock.token, newest);
  }
}

/**
 * Raises the token of a shared lock, once after the grant. `fence` is the key of the fence.
 *
 * @throws StaleToken if a later writer has raised the fence. Other errors are the driver's.
 */
export async function raiseShared(client: NodeRedis | IoRedis, lock: Fenced, fence: string): Promise<void> {
  try {
    await run(client, reader(lock), GUARD_REDIS_RAISE_SHARED, { fence });
  } catch (error) {
    const newest = newestOf(error);
    throw newest === undefined ? error : refused(lock, newest);
  }
}

/**
 * Checks the token of a shared lock and runs the script of its holder, in one step. Resolves with what the script
 * returns.
 *
 * @throws StaleToken if a later writer has raised the fence; then the script did not run
 * @throws TypeError if `raiseShared` was not called. Other errors are the driver's.
 */
export async function checkShared(client: NodeRedis | IoRedis, lock: Fenced, write: Write): Promise<unknown> {
  try {
    return await run(client, reader(lock), `${GUARD_REDIS_CHECK_SHARED}\n${write.script}`, write);
  } catch (error) {
    const newest = newestOf(error);
    throw newest === undefined ? error : refused(lock, newest);
  }
}

function run(client: NodeRedis | IoRedis, lock: Fenced, script: string, write: Omit<Write, "script">) {
  const keys = [write.fence, ...(write.keys ?? [])];
  const values = [String(lock.token), lock.grantId, ...(write.arguments ?? []).map(String)];
  if ("defineCommand" in client) return client.eval(script, keys.length, ...keys, ...values);
  return client.eval(script, { keys, arguments: values });
}

/** The highest token that the store has seen, if the guard refused. */
function newestOf(error: unknown): number | undefined {
  const newest = error instanceof Error ? /^STALE (\d+)/.exec(error.message)?.[1] : undefined;
  return newest === undefined ? undefined : Number(newest);
}
