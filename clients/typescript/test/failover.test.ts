import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { connect, start, until } from "./support/index.js";
import { redis } from "./support/redis.js";

/** Two servers that share a Redis. */
async function replicas(t: TestContext) {
  const store = await redis(t);
  const [first, second] = await Promise.all([
    start(t, { arguments: ["--store", store.url] }),
    start(t, { arguments: ["--store", store.url] }),
  ]);
  return { store, first, second };
}

void test("kill -9 of the server in use: the next one keeps the locks and the queue", async (t) => {
  const { first, second } = await replicas(t);
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

void test("a server that drains: its locks and its waiters move to the next one, at no risk", async (t) => {
  const { first, second } = await replicas(t);
  const client = connect(t, [first.address, second.address]);
  let risks = 0;
  const locks = await Promise.all(
    Array.from({ length: 20 }, (_, n) => client.lock(`a/${String(n)}`, { ttl: 6000, onAtRisk: () => (risks += 1) })),
  );
  const waiting = client.lock("a/0", { wait: 60_000 });
  const observer = connect(t, second);
  await until("it waits", async () => (await observer.get("a/0")).waiters === 1);
  first.drain();
  await until("the first server has ended", () => first.hasExited);
  await until("the TTL is over", async () => ((await observer.get("a/1")).holders[0]?.heldFor ?? 0) > 7000);
  assert.deepEqual([risks, locks.filter((lock) => lock.status !== "held")], [0, []]);
  assert.equal((await locks[0]?.release())?.end, "released");
  assert.ok((await waiting).valid());
  assert.equal((await client.lock("b")).previousEnd, "unspecified");
});

void test("a store that cannot be reached is a risk, until it is back", async (t) => {
  const { store, first } = await replicas(t);
  const client = connect(t, first);
  const risks: number[] = [];
  const lock = await client.lock("a", { ttl: 9000, onAtRisk: (lock) => risks.push(lock.remaining()) });
  store.pause();
  await until("it is told", () => risks.length > 0);
  assert.equal(lock.status, "at-risk");
  assert.ok(lock.valid());
  // The server said so: by its own rule the client would wait until 7/20 of the TTL are left.
  assert.ok((risks[0] ?? 0) > (9000 * 7) / 20, String(risks));
  store.resume();
  await until("it is held again", () => lock.status === "held");
  assert.equal(risks.length, 1);
  assert.equal((await lock.release()).end, "released");
});
