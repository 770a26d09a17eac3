/** Several locks at once: their order, their one wait, and what is given back. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Client, ClientClosed, Contended, LockLost, NotAllAcquired, Refused, TimedOut } from "../src/index.js";
import { ordered } from "../src/together.js";
import { aborted, connect, hold, start, until } from "./support/index.js";

const ABC = ["a", "b", "c"];

/** Whether the lock was given back: long before its TTL, and by a release. */
async function isFree(client: Client, name: string): Promise<boolean> {
  const { holders, previousEnd } = await client.get(name);
  return holders.length === 0 && previousEnd === "released";
}

async function waits(client: Client, name: string, count: number): Promise<void> {
  await until(`requests wait for ${name}`, async () => (await client.get(name)).waiters === count);
}

async function failure(work: Promise<unknown>): Promise<NotAllAcquired> {
  const error: unknown = await work.then(
    () => assert.fail("it does not fail"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof NotAllAcquired, String(error));
  return error;
}

void test("names are sorted by the bytes of UTF-8, and each is there once", () => {
  const names = ["\u{10000}", "b", "\uff5e", "a", "b"];
  assert.deepEqual(ordered(names).map(({ name }) => name), ["a", "b", "\uff5e", "\u{10000}"]);
  assert.deepEqual([...new Set(names)].sort(), ["a", "b", "\u{10000}", "\uff5e"], "that is another order");
  for (const [wrong, message] of [
    ["orders", "names must be a list of strings, not 'orders'"],
    [undefined, "names must be a list of strings, not undefined"],
    [[7], "a name must be a string, not 7"],
    [[null], "a name must be a string, not null"],
    [[{ shared: true }], "a name must be a string, not undefined"],
    [[{ name: "a", shared: 1 }], "shared of a must be a boolean, not 1"],
    [["a", "b", { name: "a", shared: true }], "a is asked for twice: shared, and not"],
    [["\ud800"], "a name must not have a lone surrogate: it is no valid Unicode"],
    [[], "names must be 1 to 64 different names, not 0"],
    [Array.from({ length: 65 }, (_, n) => String(n)), "names must be 1 to 64 different names, not 65"],
  ] as const) {
    assert.throws(() => ordered(wrong as unknown as string[]), { message });
  }
});

void test("the same name with one mode is one lock", () => {
  const reader = { name: "a", shared: true };
  assert.deepEqual(ordered([reader, { ...reader }]), [reader]);
  assert.deepEqual(ordered(["a", { name: "a" }, { name: "a", shared: false }]), [{ name: "a", shared: false }]);
});

void test("a set holds the parents of its leaf with others, and the leaf alone", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const under = (leaf: string) => [leaf, { name: "fs", shared: true }, { name: "fs/etc", shared: true }];
  const locks = await client.lockAll(under("fs/etc/hosts"));
  assert.deepEqual([...locks].map(({ name, mode }) => [name, mode]), [
    ["fs", "shared"],
    ["fs/etc", "shared"],
    ["fs/etc/hosts", "exclusive"],
  ]);
  const beside = (await other.tryAll(under("fs/etc/motd"))) ?? assert.fail("the parents are not shared");
  assert.deepEqual(beside.names, ["fs", "fs/etc", "fs/etc/motd"]);
  assert.equal(await other.tryAll(under("fs/etc/hosts")), null);
  assert.equal(await other.tryAll(["fs/etc"]), null);
  await Promise.all([locks.release(), beside.release()]);
  assert.equal(await other.usingAll(["fs/etc"], (all) => all.get("fs/etc").mode), "exclusive");
});

void test("a name with two modes sends nothing", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const events = connect(t, server).watch();
  await events.next();
  await assert.rejects(client.lockAll(["a", "b", { name: "b", shared: true }]), TypeError);
  await (await client.lock("c")).release();
  for await (const { name } of events) {
    assert.equal(name, "c");
    break;
  }
});

void test("all locks are held until their one release", async (t) => {
  const client = connect(t, await start(t));
  const events = client.watch();
  await events.next();
  const locks = await client.lockAll(new Set(["c", "a", "b"]), { ttl: 1000, metadata: { job: "7" } });
  assert.deepEqual(locks.names, ABC);
  for (const lock of locks) {
    const { holders, newestToken } = await client.get(lock.name);
    assert.equal(newestToken, lock.token);
    assert.equal(locks.tokens.get(lock.name), lock.token);
    assert.deepEqual(holders[0]?.metadata, { job: "7" });
    assert.equal(locks.get(lock.name), lock);
  }
  assert.throws(() => locks.get("d"), { name: "RangeError", message: "name must be one of a, b, c, not 'd'" });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.ok(locks.valid() && locks.remaining() > 0 && !locks.signal.aborted, "all are renewed");
  locks.throwIfLost();
  assert.equal((await locks.release()).end, "released");
  assert.equal((await locks.release()).end, "released");
  assert.deepEqual([locks.valid(), locks.remaining()], [false, 0]);
  assert.equal((locks.signal.reason as LockLost).reason, "released");
  const seen: string[] = [];
  for await (const { kind, name } of events) if (seen.push(`${kind} ${name}`) === 6) break;
  const [granted, released] = [ABC.map((name) => `granted ${name}`), ABC.map((name) => `released ${name}`)];
  assert.deepEqual(seen, [...granted, ...released.reverse()]);
});

void test("one that is held gives back the others", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server, { holder: "other" })];
  await hold(t, other.lock("c"));
  const error = await failure(client.lockAll(ABC));
  assert.ok(error.cause instanceof Contended);
  assert.deepEqual([error.lockName, error.count, error.givenBack], ["c", 3, ["b", "a"]]);
  const message = "the 3 locks were not acquired, because of c: c is held by other, 0 waiting; given back: b, a";
  assert.equal(error.message, message);
  assert.ok((await isFree(other, "a")) && (await isFree(other, "b")));
  const refused = await failure(client.lockAll(["\n"]));
  assert.ok(refused.cause instanceof Refused && refused.message.endsWith("; none was held"), refused.message);
  await assert.rejects(client.lockAll(ABC, { wait: -1 }), RangeError);
});

void test("all locks share one wait", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const first = await other.lock("a");
  await hold(t, other.lock("c"));
  const begun = Date.now();
  const failing = failure(client.lockAll(ABC, { wait: 1000 }));
  await waits(other, "a", 1);
  await new Promise((resolve) => setTimeout(resolve, 500));
  await first.release();
  assert.ok((await failing).cause instanceof TimedOut);
  assert.ok(Date.now() - begun >= 999);
  assert.ok((await isFree(other, "a")) && (await isFree(other, "b")));
});

void test("a call that is given up leaves nothing", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  await hold(t, other.lock("c"));
  const reason = new Error("enough");
  // At each turn of the event loop, and once while it waits.
  for (let turns = 0; turns < 20; turns += 1) {
    const stop = new AbortController();
    const acquiring = client.lockAll(ABC, { wait: 60_000, signal: stop.signal });
    for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    if (turns === 19) await waits(other, "c", 1);
    stop.abort(reason);
    await assert.rejects(acquiring, reason);
  }
  await until("the others are free", async () => (await isFree(other, "a")) && (await isFree(other, "b")));
  await waits(other, "c", 0);
});

void test("a loss while later locks are waited for ends the call", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  await hold(t, other.lock("c"));
  const failing = failure(client.lockAll(ABC, { wait: 600_000 }));
  await waits(other, "c", 1);
  await server.lose("a");
  const { cause, lockName, givenBack } = await failing;
  assert.ok(cause instanceof LockLost && cause.reason === "revoked");
  assert.deepEqual([cause.lockName, lockName, givenBack], ["a", "a", ["b"]]);
  assert.ok(await isFree(other, "b"));
  await waits(other, "c", 0);
});

void test("a set is lost with one lock, and the others are given back when the body ends", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const failed = new Error("of the body");
  const using = client.usingAll(ABC, async (locks, signal) => {
    await server.lose("b");
    assert.equal(((await aborted(signal)) as LockLost).lockName, "b");
    assert.deepEqual([locks.valid(), locks.remaining(), locks.get("a").valid()], [false, 0, true]);
    throw failed;
  });
  await assert.rejects(using, (error: unknown) => {
    assert.ok(error instanceof LockLost);
    assert.deepEqual([error.lockName, error.reason, error.cause], ["b", "revoked", failed]);
    return true;
  });
  assert.ok((await isFree(client, "a")) && (await isFree(client, "c")));
  assert.equal(await client.usingAll(ABC, { wait: 1000 }, (locks) => locks.names.length), 3);
  const held = await client.lockAll(ABC);
  await server.lose("c");
  await aborted(held.signal);
  assert.equal((await held.release()).end, "revoked");
});

void test("tries hold nothing while they wait", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const held = await other.lock("c");
  assert.equal(await client.tryAll(ABC), null);
  assert.equal(await client.tryAll(ABC, { wait: 300 }), null);
  assert.ok(await isFree(other, "a"));
  const trying = client.tryAll(ABC, { wait: 60_000 });
  for (let n = 0; n < 3; n += 1) await other.using("a", { wait: 20_000 }, () => undefined);
  await waits(other, "c", 0);
  await held.release();
  const locks = (await trying) ?? assert.fail("the locks were free");
  assert.ok(locks.valid());
  await locks.release();
});

void test("a client that is closed under a body is a loss, also if a lock was released before", async (t) => {
  const server = await start(t);
  const other = connect(t, server);
  const isClosed = { name: "LockLost", reason: "closed" };
  let client = connect(t, server);
  await assert.rejects(client.usingAll(ABC, () => client.close()), { ...isClosed, lockName: "a" });
  client = connect(t, server);
  const block = async () => {
    await using locks = await client.lockAll(ABC);
    await locks.get("a").release();
    await client.close();
  };
  await assert.rejects(block(), { ...isClosed, lockName: "b" });
  client = connect(t, server);
  await client.usingAll(ABC, async (locks) => {
    await locks.release();
    await client.close();
  });
  for (const name of ABC) assert.ok(await isFree(other, name));
});

void test("a closed client ends the call", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  await hold(t, other.lock("c"));
  const acquiring = client.lockAll(ABC, { wait: 60_000 });
  acquiring.catch(() => undefined);
  await waits(other, "c", 1);
  await client.close();
  await assert.rejects(acquiring, ClientClosed);
  assert.ok((await isFree(other, "a")) && (await isFree(other, "b")));
});
