import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { Contended, type Lock, LockLost, TimedOut } from "../src/index.js";
import { FakeServer } from "../src/testing/index.js";
import { aborted, after, connect, hold, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

async function fake(t: TestContext): Promise<FakeServer> {
  const server = await FakeServer.start();
  after(t, () => server.stop());
  return server;
}

void test("the fake grants, queues, renews and releases", async (t) => {
  const server = await fake(t);
  const client = connect(t, server.address, { holder: "first" });
  const lock = await client.lock("a", { ttl: 3000, metadata: { job: "7" } });
  await assert.rejects(client.lock("a"), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.deepEqual([error.holders[0]?.holder, error.holders[0]?.metadata], ["first", { job: "7" }]);
    return true;
  });
  await assert.rejects(client.lock("a", { wait: 50 }), TimedOut);
  await until("the TTL is over", async () => ((await client.get("a")).holders[0]?.heldFor ?? 0) > 3500);
  assert.ok(lock.valid());
  const served: number[] = [];
  const waiting: Promise<void>[] = [];
  for (const n of [1, 2, 3]) {
    waiting.push(client.using("a", { wait: 60_000 }, () => void served.push(n)));
    await until("it waits", async () => (await client.get("a")).waiters === n);
  }
  const names: string[] = [];
  for await (const { name } of client.list("")) names.push(name);
  assert.deepEqual(names, ["a"]);
  assert.deepEqual(await client.checkToken("a", lock.token), { status: "current", newestToken: lock.token });
  assert.equal((await lock.release()).end, "released");
  await Promise.all(waiting);
  assert.deepEqual(served, [1, 2, 3]);
  assert.equal((await client.checkToken("a", lock.token)).status, "stale");
  const next = await client.lock("a", { minToken: 100 });
  assert.deepEqual([next.token, next.previousEnd], [100, "released"]);
});

void test("lose: the holder is told, and the next one gets the lock", async (t) => {
  const server = await fake(t);
  const client = connect(t, server.address);
  const lock = await client.lock("a");
  const { signal } = lock;
  const waiting = client.lock("a", { wait: 60_000 });
  await until("it waits", async () => (await client.get("a")).waiters === 1);
  server.lose("a");
  const next = await waiting;
  const loss = await aborted(signal);
  assert.ok(loss instanceof LockLost);
  assert.deepEqual([loss.reason, loss.successorToken, next.previousEnd], ["revoked", next.token, "revoked"]);
  assert.deepEqual(await lock.release(), { end: "revoked", successorToken: next.token });
  assert.throws(() => {
    server.lose("b");
  }, /nobody holds "b"/);
});

void test("dropReply: the client asks again, and what was asked is done once", async (t) => {
  const server = await fake(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  const kept = await client.lock("kept", { ttl: 4000 });
  server.dropReply();
  const lock = await client.lock("a");
  assert.equal(lock.token, kept.token + 1, "the second transmission found the grant of the first");
  assert.equal(proxy.connections, 2, "the first one broke with its answer");
  server.dropReply();
  assert.equal((await lock.release()).end, "released");
  assert.equal(proxy.connections, 3);
  await until("its TTL is over", async () => ((await client.get("kept")).holders[0]?.heldFor ?? 0) > 4500);
  assert.ok(kept.valid(), "other locks move to the next session");
});

void test("the fake sends beats while it grants one lock after another", async (t) => {
  const server = await fake(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  const kept = await client.lock("kept", { ttl: 3000 });
  const until = performance.now() + 3500;
  const others: Lock[] = [];
  while (performance.now() < until) others.push(await client.lock(`other/${String(others.length)}`, { ttl: 3000 }));
  assert.ok(kept.valid() && others.at(-1)?.valid());
  assert.equal(proxy.connections, 1, "nobody missed a renewal");
});

void test("pause: locks are lost in time, and others get them after the pause", async (t) => {
  const server = await fake(t);
  const client = connect(t, server.address);
  const lock = await client.lock("a", { ttl: 2000 });
  server.pause();
  const loss = await aborted(lock.signal);
  assert.ok(loss instanceof LockLost && loss.reason === "silence");
  server.resume();
  const next = await client.lock("a", { wait: 60_000 });
  assert.ok(next.token > lock.token && next.previousEnd === "expired");
});

void test("a cancelled wait leaves the queue", async (t) => {
  const server = await fake(t);
  const client = connect(t, server.address);
  await hold(t, client.lock("a"));
  const stop = new AbortController();
  const waiting = client.lock("a", { wait: 60_000, signal: stop.signal });
  await until("it waits", async () => (await client.get("a")).waiters === 1);
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, { message: "enough" });
  await until("it has left the queue", async () => (await client.get("a")).waiters === 0);
});
