/** Locks that nobody gets for a time after their last lease: `minHold` and `lockDelay`. */
import assert from "node:assert/strict";
import test from "node:test";
import { type AcquireOptions, type Client, Contended, LockLost, NotAllAcquired, TimedOut } from "../src/index.js";
import { LeaseEnd } from "../src/gen/fencepost/v1/lock_pb.js";
import { milliseconds } from "../src/wire.js";
import { aborted, connect, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

async function contended(client: Client, name: string): Promise<Contended> {
  const error: unknown = await client.lock(name).catch((reason: unknown) => reason);
  assert.ok(error instanceof Contended, String(error));
  return error;
}

void test("a lock with a minHold that is released at once stays unavailable", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server, { holder: "worker-7" }), connect(t, server)];
  const { token } = await client.using("a", { minHold: 60_000 }, (lock) => lock);
  const { holders, waiters, delay = assert.fail("there is no delay"), message } = await contended(other, "a");
  assert.deepEqual([holders, waiters, delay.holder, delay.token], [[], 0, "worker-7", token]);
  assert.ok(delay.remaining > 30_000 && delay.remaining <= 60_000, `${String(delay.remaining)} ms`);
  assert.match(message, /^a is unavailable for another (60\.0|[345]\d\.\d) s \(delay after worker-7\), 0 waiting$/);
  assert.equal(await other.tryLock("a"), null);
  await assert.rejects(other.lock("a", { wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof TimedOut && error.delay?.token === token);
    assert.match(error.message, /^timed out waiting for a: it is unavailable for another .+ \(delay after worker-7\)/);
    return true;
  });
  const info = await other.get("a");
  assert.deepEqual([info.holders, info.delay?.holder, info.delay?.token], [[], "worker-7", token]);
  for await (const { name, delay } of other.list()) assert.deepEqual([name, delay?.token], ["a", token]);
});

void test("after its minHold, another caller gets the lock", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  await other.get("a");
  const begun = performance.now();
  await (await client.lock("a", { minHold: 1500 })).release();
  const next = await other.lock("a", { wait: 20_000 });
  const passed = performance.now() - begun;
  assert.ok(passed >= 1490, `${String(passed)} ms`);
  assert.equal(next.previousEnd, "released");
  assert.equal((await contended(client, "a")).delay, undefined, "it is held");
});

void test("a minHold holds for each lock of a set", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server, { holder: "worker-7" }), connect(t, server)];
  await client.usingAll(["a", "b"], { minHold: 60_000 }, () => undefined);
  for (const name of ["a", "b"]) assert.equal((await contended(other, name)).delay?.holder, "worker-7");
  assert.equal(await other.tryAll(["a", "b"], { minHold: 1, lockDelay: 1 }), null);
  await assert.rejects(other.lockAll(["b", "c"], { wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof NotAllAcquired && error.cause instanceof TimedOut);
    return error.cause.delay?.holder === "worker-7";
  });
});

void test("a lock that was lost is unavailable for its lockDelay, which a late release ends", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { holder: "worker-7", logger: null });
  const other = connect(t, server);
  const lock = await client.lock("a", { ttl: 1000, maxHold: 1000, lockDelay: 60_000 });
  assert.ok((await aborted(lock.signal)) instanceof LockLost);
  await until("the server ends the lease", async () => (await other.get("a")).holders.length === 0);
  const { delay } = await contended(other, "a");
  assert.deepEqual([delay?.holder, delay?.token], ["worker-7", lock.token]);
  await lock.release();
  const next = await other.lock("a", { wait: 20_000 });
  assert.ok(next.token > lock.token && next.previousEnd === "expired");
});

void test("a released lock has no lockDelay", async (t) => {
  const client = connect(t, await start(t));
  await (await client.lock("a", { lockDelay: 60_000 })).release();
  await (await client.lock("a")).release();
});

void test("a lock that the server reports as expired is released to end its lockDelay", async (t) => {
  const released: string[] = [];
  let token = 0;
  const server = await scripted(t, {
    acquire: ({ handle }) => {
      token += 1;
      const lost = { message: { case: "lost" as const, value: { handle, end: LeaseEnd.EXPIRED } } };
      return [granted("a", token, 60_000), lost];
    },
    released: (leaseId) => released.push(leaseId),
  });
  const client = connect(t, server, { logger: null });
  const lose = async (options: AcquireOptions) => {
    const lock = await client.lock("a", options);
    assert.equal(((await aborted(lock.signal)) as LockLost).reason, "expired");
    assert.equal((await lock.release()).end, "expired");
    assert.equal(lock.status, "lost");
  };
  await lose({});
  await lose({ lockDelay: 5000 });
  await until("the second one is released", () => released.length > 0);
  assert.deepEqual(released, ["lease 2"], "the first one has no delay to end");
});

void test("a time of 0 is not sent, and a fraction of a millisecond is", async (t) => {
  const sent: unknown[] = [];
  const server = await scripted(t, {
    acquire: ({ request }) => {
      sent.push(request?.minHold, request?.lockDelay);
      return [granted("a", 1, 60_000)];
    },
  });
  const client = connect(t, server);
  await client.lock("a");
  await client.lock("a", { minHold: 0, lockDelay: 0 });
  assert.deepEqual(sent.splice(0), [undefined, undefined, undefined, undefined]);
  await client.lock("a", { minHold: 1500.5, lockDelay: 250 });
  assert.deepEqual(sent.map((each) => milliseconds(each as Parameters<typeof milliseconds>[0])), [1500.5, 250]);
});

void test("the message of a delay names its holder, if that has a label", () => {
  const delay = { remaining: 24_000, holder: "worker-7", token: 7 };
  const text = new Contended("a", [], 0, 2, delay).message;
  assert.equal(text, "a is unavailable for another 24.0 s (delay after worker-7), 2 waiting");
  const unnamed = new TimedOut("a", [], 0, 0, { ...delay, holder: "" }).message;
  assert.match(unnamed, /it is unavailable for another 24.0 s \(delay after its last lease\), 0 waiting$/);
});
