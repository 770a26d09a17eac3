/** The queue of a lock: `waiters`, `owner` and `maxWaiters`. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Client, Contended, type Lock, type LockWaiter, TimedOut } from "../src/index.js";
import { LockMode } from "../src/gen/fencepost/v1/lock_pb.js";
import { connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

const wait = PATIENCE_MS;

async function all(client: Client, name: string): Promise<LockWaiter[]> {
  const found: LockWaiter[] = [];
  for await (const waiter of client.waiters(name)) found.push(waiter);
  return found;
}

async function waiting(client: Client, name: string, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(name)).waiters === count);
}

void test("those who wait are listed in the order in which they get the lock", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  assert.deepEqual(await all(client, "a"), []);
  const held = await hold(t, client.lock("a", { semaphore: 3, permits: 3, owner: "job-0" }));
  assert.equal((await other.get("a")).holders[0]?.owner, "job-0");
  const asked = [
    { semaphore: 3, permits: 2, holder: "x", owner: "job-1" },
    { holder: "y" },
    { semaphore: 3, holder: "z", owner: "job-2" },
  ];
  const waits: Promise<Lock>[] = [];
  for (const [n, options] of asked.entries()) {
    waits.push(other.lock("a", { ...options, wait }));
    await waiting(client, "a", n + 1);
  }
  const found = await all(client, "a");
  assert.deepEqual(
    found.map(({ holder, owner, mode, permits, skipped }) => [holder, owner, mode, permits, skipped]),
    [["x", "job-1", "semaphore", 2, false], ["y", "", "exclusive", 0, false], ["z", "job-2", "semaphore", 1, false]],
  );
  assert.equal(new Set(found.map(({ waiterId }) => waiterId)).size, 3);
  for (const { waitingFor, identity } of found) assert.ok(waitingFor >= 0 && waitingFor < wait && identity === "");
  await held.release();
  await (await waits[0])?.release();
  await waiting(client, "a", 1);
  assert.deepEqual((await all(client, "a")).map(({ waiterId }) => waiterId), [found[2]?.waiterId]);
  for (const each of waits.slice(1)) await (await each).release();
});

void test("the pages of a queue are one list", async (t) => {
  const asked: string[] = [];
  const server = await scripted(t, {
    acquire: () => [],
    calls: {
      listWaiters: ({ lockName, pageToken }) => {
        asked.push(pageToken);
        const waiter = { holder: `${lockName} ${pageToken}`, identity: "i", mode: LockMode.SHARED, skipped: true };
        return { waiters: pageToken === "2" ? [] : [waiter], nextPageToken: { "": "2", "2": "3" }[pageToken] ?? "" };
      },
    },
  });
  const found = await all(connect(t, server), "a");
  const seen = found.map(({ holder, identity, mode, skipped }) => [holder, identity, mode, skipped]);
  assert.deepEqual(seen, [["a ", "i", "shared", true], ["a 3", "i", "shared", true]]);
  assert.deepEqual(asked, ["", "2", "3"]);
});

void test("behind too many who wait a lock is contended at once", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const held = await hold(t, client.lock("a", { holder: "h" }));
  const first = other.lock("a", { wait, maxWaiters: 1 });
  await waiting(client, "a", 1);
  await assert.rejects(client.lock("a", { wait, maxWaiters: 1 }), (error: unknown) => {
    assert.ok(error instanceof Contended);
    assert.deepEqual([error.waiters, error.message], [1, "a is held by h, 1 waiting"]);
    return true;
  });
  await assert.rejects(client.lock("a", { wait: 50, maxWaiters: 2 }), TimedOut);
  await held.release();
  await (await first).release();
});

void test("what is sent of the queue", async (t) => {
  const sent: unknown[] = [];
  const server = await scripted(t, {
    acquire: ({ request }) => {
      sent.push([request?.owner, request?.maxWaiters, request?.tellWhenWanted]);
      return [granted(request?.lockName ?? "", 1, 60_000)];
    },
  });
  const client = connect(t, server);
  await client.lock("a", { owner: "job", maxWaiters: 2 ** 32 - 1, wait, tellWhenWanted: true });
  await client.lock("a");
  await client.lockAll(["a"], { owner: "job", tellWhenWanted: true });
  await client.lead("a", { owner: "job" }, () => undefined);
  assert.deepEqual(sent, [["job", 2 ** 32 - 1, true], ["", 0, false], ["job", 0, true], ["job", 0, false]]);
});
