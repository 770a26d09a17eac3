import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { LockLost, OutcomeUnknown, Unavailable } from "../src/index.js";
import { aborted, connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

function lossOf(reason: unknown): LockLost {
  assert.ok(reason instanceof LockLost);
  return reason;
}

/** A client of a server that can be replaced by one that knows no locks. */
async function forgetful(t: TestContext) {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const forget = async () => {
    proxy.leadTo((await start(t)).address);
    await server.stop();
  };
  return { client: connect(t, proxy.address), forget };
}

function isUnserved(error: unknown): boolean {
  return error instanceof Unavailable || error instanceof OutcomeUnknown;
}

void test("the lost answer to an acquire: the same request goes on, and is granted once", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, [proxy.address, server.address]);
  await (await client.lock("warm")).release();
  const events = connect(t, server).watch("a");
  await events.next();
  proxy.dropAnswers();
  const acquiring = client.lock("a", { ttl: 60_000 });
  const granted = (await events.next()).value ?? assert.fail();
  assert.equal(granted.kind, "granted");
  proxy.cut();
  const lock = await acquiring;
  assert.deepEqual([lock.token, lock.grantId], [granted.token, granted.grantId]);
});

void test("an acquire that is given up while its answer is lost is withdrawn over the next server", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, [proxy.address, server.address]);
  await (await client.lock("warm")).release();
  const events = connect(t, server).watch("a");
  await events.next();
  proxy.dropAnswers();
  const [stop, reason] = [new AbortController(), new Error("enough")];
  const acquiring = assert.rejects(client.lock("a", { ttl: 3_600_000, signal: stop.signal }), reason);
  const granted = (await events.next()).value ?? assert.fail();
  stop.abort(reason);
  await acquiring;
  proxy.cut();
  const { kind, token } = (await events.next()).value ?? assert.fail();
  assert.deepEqual([kind, token], ["released", granted.token]);
});

void test("a grant that arrives late is renewed before it is handed out", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  await (await client.lock("warm")).release();
  const observer = connect(t, server);
  proxy.holdAnswers();
  const acquiring = client.lock("a", { ttl: 4000 });
  await until("most of it is over", async () => ((await observer.get("a")).holders[0]?.heldFor ?? 0) > 2000);
  proxy.passAnswers();
  const lock = await acquiring;
  assert.ok(lock.remaining() > 2000, `${String(lock.remaining())} ms are left`);
  assert.equal((await observer.get("a")).holders[0]?.token, lock.token);
});

void test("a grant that arrives late is handed out, too, if its maxHold leaves no more to a renewal", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  await (await client.lock("warm")).release();
  const observer = connect(t, server);
  proxy.holdAnswers();
  const acquiring = client.lock("a", { ttl: 4000, maxHold: 4000 });
  await until("most of it is over", async () => ((await observer.get("a")).holders[0]?.heldFor ?? 0) > 2000);
  proxy.passAnswers();
  const lock = await acquiring;
  assert.ok(lock.valid() && lock.remaining() < 2000, `${String(lock.remaining())} ms are left`);
});

void test("a grant that is over when it arrives is not used: the wait goes on with a new request", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  await (await client.lock("warm")).release();
  const observer = connect(t, server);
  const events = observer.watch("a");
  await events.next();
  proxy.holdAnswers();
  const acquiring = client.lock("a", { ttl: 500, wait: 60_000 });
  const granted = (await events.next()).value ?? assert.fail();
  assert.equal((await events.next()).value?.kind, "expired");
  proxy.passAnswers();
  const lock = await acquiring;
  assert.ok(lock.valid() && lock.token > granted.token);
});

void test("the lost answer to a release: the same release goes on", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, [proxy.address, server.address]);
  const lock = await client.lock("a", { ttl: 60_000 });
  const events = connect(t, server).watch("a");
  await events.next();
  proxy.dropAnswers();
  const releasing = lock.release();
  assert.equal((await events.next()).value?.kind, "released");
  proxy.cut();
  assert.equal((await releasing).end, "released");
});

void test("a lease outlives a stream that falls silent, over the next server", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, [proxy.address, server.address]);
  const lock = await client.lock("a", { ttl: 4000 });
  proxy.dropAnswers();
  const observer = connect(t, server);
  await until("the TTL is over", async () => ((await observer.get("a")).holders[0]?.heldFor ?? 0) > 5000);
  assert.ok(lock.valid());
  assert.equal((await lock.release()).end, "released");
});

void test("with every server silent, the lock is lost in time, and nothing is thrown", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  let risks = 0;
  const lock = await client.lock("a", { ttl: 3000, onAtRisk: () => (risks += 1) });
  proxy.holdAnswers();
  const loss = lossOf(await aborted(lock.signal));
  assert.deepEqual([loss.reason, loss.token, loss.lockName], ["silence", lock.token, "a"]);
  assert.deepEqual([lock.valid(), lock.status, lock.remaining()], [false, "lost", 0]);
  assert.throws(() => {
    lock.throwIfLost();
  }, loss);
  assert.equal(risks, 1);
  // Nobody waits for the release: the server is still silent.
  assert.deepEqual(await lock.release(), { end: "unspecified", successorToken: undefined });
  proxy.passAnswers();
});

void test("a watch that was quiet for longer than the timeout goes on after an interruption", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const timeout = 3000;
  const events = connect(t, proxy.address, { timeout }).watch("a");
  assert.equal((await events.next()).value?.kind, "started");
  const next = events.next();
  const quiet = performance.now();
  await until("the timeout is over", () => performance.now() - quiet > timeout + 100);
  proxy.cut();
  assert.equal((await next).value?.kind, "missed");
});

void test("no server: nothing was done, and tries are few", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address, { timeout: 1500 });
  const { signal } = await client.lock("a", { ttl: 500 });
  await server.stop();
  const before = proxy.connections;
  assert.equal(lossOf(await aborted(signal)).reason, "silence");
  await assert.rejects(client.lock("b"), isUnserved);
  // Some 16 sessions of the lease and five tries of the call, 50 ms and more apart, and two probes of two connections.
  assert.ok(proxy.connections - before < 40, `${String(proxy.connections - before)} connections`);
  const nowhere = connect(t, "127.0.0.1:1", { timeout: 1000 });
  const message = "no server could be reached: 127.0.0.1:1: connection refused";
  await assert.rejects(nowhere.lock("a"), { name: "Unavailable", message, reason: undefined });
  const both = connect(t, ["127.0.0.1:1", "127.0.0.1:2"], { timeout: 1000 });
  await assert.rejects(both.lock("a"), { name: "Unavailable", message: `${message}; 127.0.0.1:2: connection refused` });
});

void test("a client that was idle goes on with the server that it used", async (t) => {
  const server = await start(t);
  const [first, second] = [await Proxy.start(t, server.address), await Proxy.start(t, server.address)];
  const client = connect(t, [first.address, second.address]);
  await (await client.lock("a")).release();
  await until("the stream has ended", () => !first.isConnected);
  await (await client.lock("a")).release();
  assert.deepEqual([first.connections, second.connections], [2, 0]);
});

void test("a server that forgot the lock says so", async (t) => {
  const { client, forget } = await forgetful(t);
  const lock = await client.lock("a", { ttl: 10_000 });
  const { signal } = lock;
  await forget();
  assert.equal(lossOf(await aborted(signal)).reason, "unknown");
});

void test("a lost lock is an error at the end of the block", async (t) => {
  const { client, forget } = await forgetful(t);
  const lose = async () => {
    await using lock = await client.lock("a", { ttl: 10_000 });
    await forget();
    await aborted(lock.signal);
  };
  await assert.rejects(lose(), LockLost);
});

void test("using reports the loss, with the body's error as its cause", async (t) => {
  const { client, forget } = await forgetful(t);
  const stopped = new Error("stopped");
  const using = client.using("a", { ttl: 10_000 }, async (_, signal) => {
    await forget();
    assert.ok((await aborted(signal)) instanceof LockLost);
    throw stopped;
  });
  await assert.rejects(using, (error: unknown) => {
    const loss = lossOf(error);
    return loss.reason === "unknown" && loss.cause === stopped;
  });
});

void test("a blocked event loop: the lock is not valid before any callback says so", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const lock = await client.lock("a", { ttl: 2000 });
  const { signal } = lock;
  const end = performance.now() + 2100;
  while (performance.now() < end);
  assert.equal(signal.aborted, false, "nothing could run meanwhile");
  assert.equal(lock.valid(), false);
  assert.equal(signal.aborted, true, "reading the clock tells everybody");
  assert.equal(lossOf(signal.reason).reason, "silence");
  const next = await client.lock("a", { wait: 60_000 });
  assert.ok(next.token > lock.token);
});

void test("the only server, when it drains, serves its stream until its grace is over", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, [proxy.address]);
  const lock = await client.lock("a", { ttl: 60_000 });
  server.drain();
  const other = connect(t, server, { timeout: 300 });
  const isRefused = () => other.lock("b").then((lock) => lock.release().then(() => false), isUnserved);
  await until("the server drains", isRefused);
  assert.ok(lock.valid(), "the only server serves the stream until its grace is over");
  assert.equal((await lock.release()).end, "released");
});
