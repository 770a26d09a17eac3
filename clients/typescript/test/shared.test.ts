/** Locks that readers share: `shared`. */
import assert from "node:assert/strict";
import test from "node:test";
import { create } from "@bufbuild/protobuf";
import { type Client, Contended, type LockHolder, NotAllAcquired, TimedOut } from "../src/index.js";
import { LockHolderSchema, LockMode } from "../src/gen/fencepost/v1/lock_pb.js";
import { holderFrom } from "../src/info.js";
import { connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

const seen = (holders: readonly LockHolder[]) => holders.map(({ holder, token, shared }) => [holder, token, shared]);

async function waiting(client: Client, name: string, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(name)).waiters === count);
}

void test("readers hold a lock together, and a writer times out", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server, { holder: "writer" })];
  const first = await client.lock("a", { shared: true, holder: "reader-1" });
  const second = (await other.tryLock("a", { shared: true, holder: "reader-2" })) ?? assert.fail("it is not shared");
  assert.ok(first.valid() && second.valid() && second.token > first.token);
  const both = [["reader-1", first.token, true], ["reader-2", second.token, true]];
  await assert.rejects(other.lock("a", { wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof TimedOut);
    assert.deepEqual(seen(error.holders), both);
    assert.match(error.message, /: it is held by reader-1 and reader-2, 0 waiting$/);
    return true;
  });
  const infos = [await other.get("a")];
  for await (const info of other.list("a")) infos.push(info);
  assert.deepEqual(infos.map(({ holders, holderCount }) => [seen(holders), holderCount]), [[both, 2], [both, 2]]);
  await Promise.all([first.release(), second.release()]);
  const writer = await other.lock("a", { shared: false });
  const { holders, holderCount } = await client.get("a");
  assert.deepEqual([seen(holders), holderCount], [[["writer", writer.token, false]], 1]);
  assert.equal((await client.get("a")).semaphore, undefined);
  assert.ok(writer.token > second.token);
});

void test("a refusal counts all readers, of which eight are shown", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  for (let n = 0; n < 10; n += 1) await hold(t, client.lock("a", { shared: true, holder: `reader-${String(n)}` }));
  const named = "reader-6 and reader-7 and 2 more, 0 waiting";
  await assert.rejects(other.lock("a"), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.deepEqual([error.holders.length, error.holderCount], [8, 10]);
    return error.message.endsWith(named);
  });
  await assert.rejects(other.lock("a", { wait: 50 }), (error: unknown) => {
    assert.ok(error instanceof TimedOut);
    return error.holderCount === 10 && error.message.endsWith(named);
  });
  // The wait of the second one is over before the turn of the lock.
  for (const wait of [50, 0.0001]) {
    await assert.rejects(other.lockAll(["a", "b"], { wait }), (error: unknown) => {
      assert.ok(error instanceof NotAllAcquired && error.cause instanceof TimedOut);
      return error.cause.holderCount === 10 && error.message.endsWith(`${named}; none was held`);
    });
  }
});

void test("a refusal names holders and counts the others", () => {
  const delay = { remaining: 24_000, holder: "c", token: 7 };
  for (const [labels, count, state, after] of [
    [[], 0, "being offered to the next waiter"],
    [[""], 1, "held"],
    [[""], 9, "held by 9 holders"],
    [["a"], 1, "held by a"],
    [["a", "b"], 2, "held by a and b"],
    [["a", "b"], 10_000, "held by a and b and 9998 more"],
    [["a", "", "b"], 3, "held by a and b and 1 more"],
    [["a"], 2, "held by a and 1 more, and a place of it is unavailable for another 24.0 s (delay after c)", delay],
  ] as const) {
    const holders = labels.map((holder) => holderFrom(create(LockHolderSchema, { holder })));
    assert.equal(new Contended("x", holders, count, 2, after).message, `x is ${state}, 2 waiting`);
    const late = new TimedOut("x", holders, count, 2, after);
    assert.equal(late.message, `timed out waiting for x: it is ${state}, 2 waiting`);
  }
});

void test("a reader waits behind a writer that waits", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const held = await hold(t, client.lock("a", { shared: true }));
  const writing = other.lock("a", { wait: PATIENCE_MS });
  await waiting(client, "a", 1);
  await assert.rejects(client.lock("a", { shared: true }), Contended);
  const reading = client.lock("a", { shared: true, wait: PATIENCE_MS });
  await waiting(client, "a", 2);
  await held.release();
  const writer = await writing;
  await waiting(client, "a", 1);
  await writer.release();
  assert.ok((await reading).token > writer.token && writer.token > held.token);
});

void test("a reader that is gone keeps writers out for its min_hold, and no readers", async (t) => {
  const client = connect(t, await start(t));
  await (await client.lock("a", { shared: true, minHold: 60_000 })).release();
  await hold(t, client.lock("a", { shared: true }));
  await assert.rejects(client.lock("a"), Contended);
});

void test("a mode that is not asked for is not sent", async (t) => {
  const sent: unknown[] = [];
  const server = await scripted(t, {
    acquire: ({ request }) => {
      sent.push(request?.mode);
      return [granted("a", 1, 60_000)];
    },
  });
  const client = connect(t, server);
  for (const options of [{}, { shared: false }, { shared: true }]) await client.lock("a", options);
  assert.deepEqual(sent, [LockMode.UNSPECIFIED, LockMode.UNSPECIFIED, LockMode.SHARED]);
});
