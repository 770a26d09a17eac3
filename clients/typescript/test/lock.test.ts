import assert from "node:assert/strict";
import { inspect } from "node:util";
import test from "node:test";
import { Client, Contended, ClientClosed, type Lock, LockLost, Refused, TimedOut } from "../src/index.js";
import { connect, hold, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

void test("a lock is held past its TTL, and released once", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { holder: "me" });
  const lock = await client.lock("orders/42", { ttl: 3000, metadata: { job: "7" } });
  assert.deepEqual([lock.name, lock.holder, lock.previousEnd, lock.ttl], ["orders/42", "me", "unspecified", 3000]);
  assert.ok(Number.isSafeInteger(lock.token) && lock.token > 0);
  const { expiresIn, heldFor, ...holder } = (await client.get("orders/42")).holders[0] ?? assert.fail();
  const { token, grantId } = lock;
  const mode = { shared: false, permits: 0, slot: undefined };
  const who = { holder: "me", owner: "", identity: "", description: 0, metadata: { job: "7" } };
  assert.deepEqual(holder, { ...who, grantId, token, ttl: 3000, ...mode });
  assert.deepEqual([lock.permits, lock.slot], [0, undefined]);
  assert.ok(expiresIn > 0 && heldFor >= 0);
  await until("the first TTL is over", async () => ((await client.get("orders/42")).holders[0]?.heldFor ?? 0) > 3500);
  assert.ok(lock.valid() && lock.remaining() > 0 && lock.status === "held");
  assert.equal((await client.checkToken("orders/42", token)).status, "current");
  assert.deepEqual(await lock.release(), { end: "released", successorToken: undefined });
  assert.deepEqual(await lock.release(), { end: "released", successorToken: undefined });
  assert.deepEqual([lock.valid(), lock.remaining(), lock.status], [false, 0, "released"]);
  assert.equal((lock.signal.reason as LockLost).reason, "released");
  const next = await client.lock("orders/42");
  assert.ok(next.token > token);
  assert.equal(next.previousEnd, "released");
});

void test("a lock that is not free", async (t) => {
  const client = connect(t, await start(t), { holder: "first" });
  await hold(t, client.lock("a"));
  await assert.rejects(client.lock("a"), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.deepEqual([error.lockName, error.holders[0]?.holder, error.waiters], ["a", "first", 0]);
    assert.equal(error.message, "a is held by first, 0 waiting");
    return true;
  });
  assert.equal(await client.tryLock("a"), null);
  await assert.rejects(client.lock("a", { wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof TimedOut && error.holders[0]?.holder === "first");
    assert.equal(error.message, "timed out waiting for a: it is held by first, 0 waiting");
    return true;
  });
});

void test("waiters are served in order, and learn their place", async (t) => {
  const client = connect(t, await start(t));
  const first = await client.lock("a");
  const served: number[] = [];
  const ahead: number[] = [];
  const waiting: Promise<unknown>[] = [];
  for (let n = 0; n < 8; n += 1) {
    const onWaiting = (count: number) => (ahead[n] ??= count);
    waiting.push(
      client.using("a", { wait: 60_000, onWaiting }, () => {
        served.push(n);
      }),
    );
    await until("the waiter is queued", () => ahead[n] !== undefined);
  }
  await first.release();
  await Promise.all(waiting);
  assert.deepEqual(served, [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(ahead, [0, 1, 2, 3, 4, 5, 6, 7]);
});

void test("await using releases at the end of the block, whatever ends it", async (t) => {
  const client = connect(t, await start(t));
  let seen: Lock | undefined;
  {
    await using lock = await client.lock("a");
    seen = lock;
    assert.ok(lock.valid());
  }
  assert.ok(!seen.valid());
  const failing = async () => {
    await using _lock = await client.lock("a");
    throw new Error("of the body");
  };
  await assert.rejects(failing(), { message: "of the body" });
  assert.notEqual(await client.tryLock("a"), null);
});

void test("using returns the body's value, and passes its error on", async (t) => {
  const client = connect(t, await start(t));
  assert.equal(await client.using("a", (lock) => lock.token > 0), true);
  await assert.rejects(client.using("a", { ttl: 1000 }, () => Promise.reject(new Error("of the body"))), {
    message: "of the body",
  });
  const stop = new AbortController();
  const stopped = client.using("a", { signal: stop.signal }, async (_, signal) => {
    stop.abort(new Error("enough"));
    await new Promise((_, reject) => {
      if (signal.aborted) reject(signal.reason as Error);
    });
  });
  await assert.rejects(stopped, { message: "enough" });
  assert.deepEqual((await client.get("a")).holders, []);
});

void test("an acquire that is given up leaves nothing behind", async (t) => {
  const client = connect(t, await start(t));
  const reason = new Error("enough");
  await assert.rejects(client.lock("a", { signal: AbortSignal.abort(reason) }), reason);
  const held = await client.lock("a");
  const stop = new AbortController();
  const waiting = client.lock("a", { wait: 60_000, signal: stop.signal });
  await until("it waits", async () => (await client.get("a")).waiters === 1);
  stop.abort(reason);
  await assert.rejects(waiting, reason);
  await until("it has left the queue", async () => (await client.get("a")).waiters === 0);
  await held.release();
  // Given up at the very moment of the grant: held for no longer than the cleanup takes.
  for (let n = 0; n < 30; n += 1) {
    const late = new AbortController();
    const acquire = client.lock("b", { ttl: 60_000, signal: late.signal });
    setImmediate(() => {
      late.abort(reason);
    });
    await acquire.then((lock) => lock.release()).catch(() => undefined);
    await until("nobody holds it", async () => (await client.get("b")).holders.length === 0);
  }
});

void test("mistakes in options are errors at once", async (t) => {
  const client = connect(t, await start(t));
  await assert.rejects(client.lock("a", { ttl: Number.NaN }), RangeError);
  for (const ttl of [0, -1, 1e300, Infinity]) await assert.rejects(client.lock("a", { ttl }), RangeError);
  for (const wait of [-1, 1e300]) await assert.rejects(client.lock("a", { wait }), RangeError);
  const lone = "a\ud800";
  const texts = [{ holder: lone }, { requestId: lone }, { metadata: { [lone]: "" } }, { metadata: { a: lone } }];
  for (const options of texts) await assert.rejects(client.lock("a", options), TypeError);
  const calls = [client.lock(lone), client.get(lone), client.checkToken(lone, 1), client.watch(lone).next()];
  for (const call of [...calls, client.list(lone).next()]) await assert.rejects(call, { message: /lone surrogate/ });
  assert.throws(() => new Client({ holder: lone }), TypeError);
  await assert.rejects(client.lock("a", { minToken: 1.5 }), RangeError);
  await assert.rejects(client.checkToken("a", 0), RangeError);
  await assert.rejects(client.lock(undefined as unknown as string), TypeError);
  assert.throws(() => new Client({ timeout: 0 }), RangeError);
  assert.throws(() => new Client({ servers: "locks.internal", token: "t" }), /in plain text/);
  assert.throws(() => new Client({ tls: { certFile: "a" } }), /needs both files/);
  assert.throws(() => new Client({ servers: "https://a", tls: { caFile: "/nonexistent" } }), { code: "ENOENT" });
  await assert.rejects(client.lock(""), (error: unknown) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.code, error.reason], ["INVALID_ARGUMENT", "INVALID_FIELD"]);
    assert.deepEqual(error.violations, [{ field: "lock_name", description: "must not be empty" }]);
    return true;
  });
  const metadata = { large: "x".repeat(70_000) };
  await assert.rejects(client.lock("a", { metadata }), { name: "Refused", message: /the maximum is/ });
});

void test("a minimum token is respected", async (t) => {
  const client = connect(t, await start(t));
  const { token } = await client.lock("a");
  const lock = await client.lock("b", { minToken: token + 5_000_000 });
  assert.ok(lock.token >= token + 5_000_000);
});

void test("list and watch", async (t) => {
  const client = connect(t, await start(t));
  const names = Array.from({ length: 250 }, (_, n) => `many/${String(n).padStart(3, "0")}`);
  const events = client.watch("many/00");
  assert.equal((await events.next()).value?.kind, "started");
  const locks = await Promise.all(names.map((name) => client.lock(name)));
  const listed: string[] = [];
  for await (const { name } of client.list("many/")) listed.push(name);
  assert.deepEqual(listed.sort(), names);
  await Promise.all(locks.map((lock) => lock.release()));
  const seen = new Map<string, number>();
  while (seen.get("granted") !== 10 || seen.get("released") !== 10) {
    const event = (await events.next()).value ?? assert.fail();
    assert.ok(event.name.startsWith("many/00") && event.token > 0);
    seen.set(event.kind, (seen.get(event.kind) ?? 0) + 1);
  }
  await events.return();
  const stop = new AbortController();
  const stopped = client.watch("", { signal: stop.signal });
  await stopped.next();
  stop.abort(new Error("enough"));
  await assert.rejects(stopped.next(), { message: "enough" });
});

void test("after close nothing of the client is in a queue", async (t) => {
  const server = await start(t);
  const [holder, client] = [connect(t, server), connect(t, server)];
  await hold(t, holder.lock("a"));
  const waiting = Array.from({ length: 50 }, () => client.lock("a", { wait: 60_000 }));
  const ended = Promise.all(waiting.map((each) => assert.rejects(each, ClientClosed)));
  await until("all wait", async () => (await holder.get("a")).waiters === waiting.length);
  await client.close();
  assert.equal((await holder.get("a")).waiters, 0);
  await ended;
});

void test("an acquire that has just begun is withdrawn when close resolves", async (t) => {
  const server = await start(t);
  const [observer, client] = [connect(t, server), connect(t, server)];
  await (await client.lock("warm")).release();
  const begun = assert.rejects(client.lock("a", { ttl: 60_000 }), ClientClosed);
  await client.close();
  assert.equal((await observer.get("a")).holders.length, 0);
  await begun;
});

void test("close releases what is held, and ends what waits", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const lock = await client.lock("a");
  const { signal } = lock;
  const waiting = assert.rejects(client.lock("a", { wait: 60_000 }), ClientClosed);
  const watching = client.watch();
  await watching.next();
  await client.close();
  await waiting;
  await assert.rejects(watching.next(), ClientClosed);
  assert.equal((signal.reason as LockLost).reason, "closed");
  assert.deepEqual(await lock.release(), { end: "released", successorToken: undefined });
  const late = [client.lock("a"), client.get("a"), client.watch().next()];
  for (const call of late) await assert.rejects(call, ClientClosed);
  await client.close();
  const [locks] = [await connect(t, server).get("a")];
  assert.deepEqual([locks.holders, locks.waiters], [[], 0]);
});

void test("a lock is renewed while others are acquired one after another", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  const kept = await client.lock("kept", { ttl: 3000 });
  const until = performance.now() + 3500;
  const others: Lock[] = [];
  while (performance.now() < until) others.push(await client.lock(`other/${String(others.length)}`, { ttl: 3000 }));
  assert.ok(kept.valid() && others.at(-1)?.valid());
  assert.equal(proxy.connections, 1, "nobody missed a renewal");
});

void test("a thousand locks on one client", async (t) => {
  const client = connect(t, await start(t), { timeout: 60_000 });
  const names = Array.from({ length: 1000 }, (_, n) => `a/${String(n)}`);
  const locks = await Promise.all(names.map((name) => client.lock(name, { ttl: 10_000 })));
  await until("the first TTL is over", async () => ((await client.get("a/0")).holders[0]?.heldFor ?? 0) > 10_500);
  assert.ok(locks.every((lock) => lock.valid()));
  const released = await Promise.all(locks.map((lock) => lock.release()));
  assert.ok(released.every(({ end }) => end === "released"));
});

void test("the secret of a lease is not shown", async (t) => {
  const lock = await connect(t, await start(t)).lock("a");
  assert.ok(!/[0-9a-f]{8}-[0-9a-f]{4}/.test(inspect(lock, { depth: 10, showHidden: true })));
});
