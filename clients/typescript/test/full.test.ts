import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { TimedOut } from "../src/index.js";
import { connect, hold, start, until } from "./support/index.js";

/** A server that keeps three leases on a session. */
function small(t: TestContext) {
  return start(t, { arguments: ["--leases-per-stream", "3"] });
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `a/${String(n)}`);
}

void test("more locks than a session has room for: all are kept, and later on the session", async (t) => {
  const server = await small(t);
  const client = connect(t, server);
  const locks = await Promise.all(names(9).map((name) => client.lock(name, { ttl: 3000 })));
  const held = async (name: string, ms: number) => {
    await until("some TTLs are over", async () => ((await client.get(name)).holders[0]?.heldFor ?? 0) > ms);
  };
  await held("a/8", 3500);
  assert.deepEqual(locks.filter((lock) => !lock.valid()), []);
  for (const lock of locks.slice(0, 7)) assert.equal((await lock.release()).end, "released");
  await held("a/8", 7000);
  assert.deepEqual(locks.map((lock) => lock.valid()), names(9).map((_, n) => n >= 7));
  for (const lock of locks.slice(7)) assert.equal((await lock.release()).end, "released");
});

void test("a lock for which the session has no room moves to the next server", async (t) => {
  // The servers share no store, so the second one does not know the locks: all are lost at once, not by their TTL.
  const first = await small(t);
  const client = connect(t, first);
  const locks = await Promise.all(names(5).map((name) => client.lock(name, { ttl: 60_000 })));
  await first.stop();
  await start(t, { listen: first.address });
  await until("all are lost", () => locks.every((lock) => !lock.valid()));
});

void test("waits and cancellations on a full session", async (t) => {
  const server = await small(t);
  const client = connect(t, server);
  const other = connect(t, server);
  for (const name of names(4)) await hold(t, client.lock(name));
  const held = await other.lock("b");
  await assert.rejects(client.lock("b", { wait: 100 }), TimedOut);
  const waiting = client.lock("b", { wait: 60_000 });
  await until("it waits", async () => (await other.get("b")).waiters === 1);
  await held.release();
  const lock = await waiting;
  assert.ok(lock.valid());
  const stop = new AbortController();
  const reason = new Error("enough");
  const abandoned = assert.rejects(client.lock("b", { wait: 60_000, signal: stop.signal }), reason);
  await until("it waits", async () => (await other.get("b")).waiters === 1);
  stop.abort(reason);
  await abandoned;
  await until("it has left the queue", async () => (await other.get("b")).waiters === 0);
  // Given up at any moment around the grant: held for no longer than the cleanup takes.
  for (let n = 0; n < 20; n += 1) {
    const late = new AbortController();
    const acquire = client.lock("c", { ttl: 60_000, signal: late.signal });
    setTimeout(() => { late.abort(reason); }, 180 + n * 5);
    await acquire.then((lock) => lock.release()).catch(() => undefined);
    await until("nobody holds it", async () => (await other.get("c")).holders.length === 0);
  }
});
