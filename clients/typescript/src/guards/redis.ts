/**
 * The guard for Redis, with `redis` or `ioredis`.
 *
 * Redis has no transaction that can be rolled back, so the guard and the write are one script.
 */
import { StaleToken } from "../errors.js";
import { GUARD_REDIS_RAISE } from "../facts.js";
import type { Fenced } from "./fenced.js";

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
   * example `{orders/42}:fence`. All writers of the lock use the same key.
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
  const script = `${GUARD_REDIS_RAISE}\n${write.script}`;
  const keys = [write.fence, ...(write.keys ?? [])];
  const values = [String(lock.token), lock.grantId, ...(write.arguments ?? []).map(String)];
  try {
    if ("defineCommand" in client) return await client.eval(script, keys.length, ...keys, ...values);
    return await client.eval(script, { keys, arguments: values });
  } catch (error) {
    const newest = error instanceof Error ? /^STALE (\d+)/.exec(error.message)?.[1] : undefined;
    throw newest === undefined ? error : new StaleToken(lock.name, lock.token, Number(newest));
  }
}
