/**
 * How many locks one client acquires and releases in a second, and how much memory it needs for each lock that it
 * holds. Starts a server with the memory store on this machine, so both share its processors. The README has the
 * command.
 */
import { Client } from "../src/index.js";
import { Server } from "../src/testing/index.js";

/** Tasks that acquire and release side by side, and for how many milliseconds, after some to warm up. */
const TASKS = 64;
const MEASURED_MS = 5000;
const WARM_UP_MS = 2000;
/** The locks that are held at once, and their TTL in milliseconds. */
const HELD = 10_000;
const TTL_MS = 60_000;

async function pairs(client: Client, ms: number): Promise<number> {
  const end = performance.now() + ms;
  let count = 0;
  const task = async (n: number) => {
    while (performance.now() < end) {
      const lock = await client.lock(`pairs/${String(n)}`, { ttl: TTL_MS });
      await lock.release();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: TASKS }, (_, n) => task(n)));
  return count / (ms / 1000);
}

/** The used heap, and all memory of the process, in bytes. */
async function memory(): Promise<{ heap: number; rss: number }> {
  // What ended last is garbage only when its callbacks have run.
  for (const _ of [1, 2]) {
    await new Promise(setImmediate);
    globalThis.gc?.();
  }
  const { heapUsed: heap, rss } = process.memoryUsage();
  return { heap, rss };
}

async function main(): Promise<void> {
  if (globalThis.gc === undefined) throw new Error("start it with node --expose-gc: the memory is measured");
  await using server = await Server.start();
  await using client = new Client({ servers: server.address });
  // What a client needs before it holds many locks, its stream and its compiled code, does not count.
  await pairs(client, WARM_UP_MS);
  const before = await memory();
  const locks = await Promise.all(
    Array.from({ length: HELD }, (_, n) => client.lock(`held/${String(n)}`, { ttl: TTL_MS })),
  );
  const after = await memory();
  const kib = (bytes: number) => (bytes / HELD / 1024).toFixed(1);
  console.log(`${String(HELD)} held locks: ${kib(after.heap - before.heap)} KiB of heap each,`);
  console.log(`  ${kib(after.rss - before.rss)} KiB of resident memory each`);
  await Promise.all(locks.map((lock) => lock.release()));
  console.log(`${(await pairs(client, MEASURED_MS)).toFixed(0)} pairs a second with ${String(TASKS)} tasks`);
}

void main();
