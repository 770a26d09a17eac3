import assert from "node:assert/strict";
import test from "node:test";
import { connect, start, until } from "./support/index.js";
import { redis } from "./support/redis.js";

void test("kill -9 of the server in use: the next one keeps the locks and the queue", async (t) => {
  const store = await redis(t);
  const [first, second] = await Promise.all([
    start(t, { arguments: ["--store", store] }),
    start(t, { arguments: ["--store", store] }),
  ]);
  const client = connect(t, [first.address, second.address]);
  const locks = await Promise.all(Array.from({ length: 50 }, (_, n) => client.lock(`a/${String(n)}`, { ttl: 6000 })));
  const waiting = client.lock("a/0", { wait: 60_000 });
  await until("it waits", async () => (await client.get("a/0")).waiters === 1);
  await first.stop();
  const observer = connect(t, second);
  await until("the TTL is over", async () => ((await observer.get("a/1")).holders[0]?.heldFor ?? 0) > 7000);
  assert.ok(locks.every((lock) => lock.valid()));
  const ends = await Promise.all(locks.map((lock) => lock.release()));
  assert.ok(ends.every(({ end }) => end === "released"));
  const next = await waiting;
  assert.ok(next.valid() && next.token > (locks[0]?.token ?? Infinity));
});
