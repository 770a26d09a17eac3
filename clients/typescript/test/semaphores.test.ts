/** Semaphores: `semaphore`, `permits` and `permitLimitVersion`. */
import assert from "node:assert/strict";
import test from "node:test";
import { type AcquireOptions, type Client, Contended, Refused, TimedOut } from "../src/index.js";
import type { Lock, LockHolder } from "../src/index.js";
import { LockMode } from "../src/gen/fencepost/v1/lock_pb.js";
import { connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

const seen = (holders: readonly LockHolder[]) => holders.map(({ token, permits, slot }) => [token, permits, slot]);
const has = ({ permits, slot }: Lock) => [permits, slot];

async function waiting(client: Client, name: string, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(name)).waiters === count);
}

function refusal(reason: string, text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.code, error.reason], ["FAILED_PRECONDITION", reason]);
    assert.match(error.message, text);
    return true;
  };
}

void test("holders of a semaphore have slots, and the next one gets the free slot", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const first = await hold(t, client.lock("a", { semaphore: 2, holder: "first" }));
  const second = await hold(t, other.lock("a", { semaphore: 2, holder: "second" }));
  assert.deepEqual([has(first), has(second)], [[1, 1], [1, 2]]);
  assert.equal(await client.tryLock("a", { semaphore: 2 }), null);
  const both = [[first.token, 1, 1], [second.token, 1, 2]];
  await assert.rejects(client.lock("a", { semaphore: 2, wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof TimedOut);
    assert.deepEqual(seen(error.holders), both);
    assert.deepEqual(error.semaphore, { permitsUsed: 2, permitLimit: 2, permitLimitVersion: 0n });
    assert.match(error.message, /: it is held by first and second, 0 waiting$/);
    return true;
  });
  const { holders, holderCount } = await other.get("a");
  assert.deepEqual([seen(holders), holderCount], [both, 2]);
  const third = client.lock("a", { semaphore: 2, wait: PATIENCE_MS });
  await waiting(other, "a", 1);
  await first.release();
  const lock = await third;
  assert.deepEqual(has(lock), [1, 1]);
  await Promise.all([lock.release(), second.release()]);
  assert.deepEqual(has(await hold(t, other.lock("a"))), [0, undefined]);
});

void test("several permits are one lock without a slot", async (t) => {
  const client = connect(t, await start(t));
  const two = await hold(t, client.lock("a", { semaphore: 3, permits: 2 }));
  assert.deepEqual(has(two), [2, undefined]);
  assert.deepEqual(seen((await client.get("a")).holders), [[two.token, 2, undefined]]);
  await assert.rejects(client.lock("a", { semaphore: 3, permits: 2 }), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.equal(error.semaphore?.permitsUsed, 2);
    return true;
  });
  assert.deepEqual(has(await hold(t, client.lock("a", { semaphore: 3 }))), [1, 1]);
});

void test("a changed limit needs a higher version", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const wait = PATIENCE_MS;
  await hold(t, client.lock("a", { semaphore: 1 }));
  const mismatch = refusal("PERMIT_LIMIT_MISMATCH", /limit 1 of version 0 is in force/);
  await assert.rejects(other.lock("a", { semaphore: 2, wait }), mismatch);
  const second = other.lock("a", { semaphore: 1, wait });
  await waiting(client, "a", 1);
  // The new limit has room for the waiter and for the request that names it.
  const third = await hold(t, client.lock("a", { semaphore: 3, permitLimitVersion: 1n, wait }));
  assert.deepEqual([(await second).slot, third.slot].sort(), [2, 3]);
  const semaphore = { permitsUsed: 3, permitLimit: 3, permitLimitVersion: 1n };
  assert.deepEqual((await client.get("a")).semaphore, semaphore);
  for await (const info of client.list("a")) assert.deepEqual(info.semaphore, semaphore);
  const more = refusal("PERMIT_LIMIT_MISMATCH", /limit 3 of version 1 is in force/);
  await assert.rejects(other.lock("a", { semaphore: 4, permitLimitVersion: 1 }), more);
});

void test("a lock is either shared or a semaphore", async (t) => {
  const client = connect(t, await start(t));
  const modes: AcquireOptions[] = [{ shared: true }, { semaphore: 2 }];
  for (const [n, held] of modes.entries()) {
    await hold(t, client.lock(String(n), held));
    const asked = client.lock(String(n), { ...modes[1 - n], wait: PATIENCE_MS });
    await assert.rejects(asked, refusal("MODE_MISMATCH", /./));
  }
});

void test("permits stay used for the min_hold of a lease", async (t) => {
  const client = connect(t, await start(t));
  const gone = await client.lock("a", { semaphore: 1, minHold: 60_000 });
  await gone.release();
  await assert.rejects(client.lock("a", { semaphore: 1 }), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.deepEqual([error.holders, error.delay?.token], [[], gone.token]);
    return true;
  });
});

void test("what is sent of a semaphore", async (t) => {
  const sent: unknown[] = [];
  const server = await scripted(t, {
    acquire: ({ request }) => {
      sent.push([request?.mode, request?.permitLimit, request?.permits, request?.permitLimitVersion]);
      return [granted("a", 1, 60_000)];
    },
  });
  const client = connect(t, server);
  const two = await client.lock("a", { semaphore: 5, permits: 2, permitLimitVersion: 2n ** 64n - 1n });
  assert.deepEqual(has(two), [2, undefined]);
  const others: AcquireOptions[] = [{ semaphore: 5 }, { semaphore: 5, permitLimitVersion: 7 }, {}];
  for (const options of others) await client.lock("a", options);
  assert.deepEqual(sent, [
    [LockMode.SEMAPHORE, 5, 2, 2n ** 64n - 1n],
    [LockMode.SEMAPHORE, 5, 1, 0n],
    [LockMode.SEMAPHORE, 5, 1, 7n],
    [LockMode.UNSPECIFIED, 0, 0, 0n],
  ]);
});
