/** Holders that are told when somebody waits for their lock: `tellWhenWanted`. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Client, type Lock, LockWanted } from "../src/index.js";
import { LockMode } from "../src/gen/fencepost/v1/lock_pb.js";
import { aborted, connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

const wait = PATIENCE_MS;

async function waiting(client: Client, name: string, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(name)).waiters === count);
}

async function isWanted({ wanted }: Lock, mode: string): Promise<void> {
  const reason = await aborted(wanted);
  assert.ok(reason instanceof LockWanted);
  assert.deepEqual([reason.lockName, reason.mode], ["a", mode]);
}

void test("a holder is told when a request queues that its lock excludes", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const lock = await hold(t, client.lock("a", { tellWhenWanted: true }));
  await assert.rejects(other.lock("a"), { name: "Contended" });
  assert.deepEqual([lock.isWanted, lock.wanted.aborted], [false, false]);
  const writing = other.lock("a", { wait });
  await isWanted(lock, "exclusive");
  assert.deepEqual([lock.isWanted, lock.valid(), lock.signal.aborted], [true, true, false]);
  await lock.release();
  const next = await hold(t, writing);
  assert.deepEqual([next.isWanted, next.wanted.aborted], [false, false]);
});

void test("a lock is wanted from its grant on if another request waits", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const held = await hold(t, other.lock("a"));
  const acquiring = client.lock("a", { wait, tellWhenWanted: true, shared: true });
  await waiting(other, "a", 1);
  const writing = other.lock("a", { wait });
  await waiting(other, "a", 2);
  await held.release();
  const lock = await hold(t, acquiring);
  await until("it is wanted", () => lock.isWanted);
  await isWanted(lock, "exclusive");
  await lock.release();
  await (await writing).release();
});

void test("a holder that did not ask for it is not told, nor a reader of other readers", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const quiet = await hold(t, client.lock("a"));
  const reader = await hold(t, client.lock("b", { shared: true, tellWhenWanted: true }));
  const writing = other.lock("a", { wait });
  await waiting(client, "a", 1);
  const beside = await hold(t, other.lock("b", { shared: true, wait }));
  // The answer comes after all that the server has told this client until then.
  await (await client.lock("c")).release();
  assert.deepEqual([quiet.isWanted, quiet.wanted.aborted, reader.isWanted], [false, false, false]);
  assert.ok(beside.valid());
  await quiet.release();
  await (await writing).release();
});

void test("a lock is wanted once, and no more when it is not held", async (t) => {
  const wanted = (mode: LockMode) => ({ message: { case: "wanted" as const, value: { handle: 1, mode } } });
  let told = 0;
  const server = await scripted(t, {
    acquire: ({ handle, request }) => {
      assert.equal(handle, (told += 1));
      return [
        granted(request?.lockName ?? "", told, 60_000),
        ...[wanted(LockMode.SHARED), wanted(LockMode.EXCLUSIVE), wanted(LockMode.UNSPECIFIED)],
      ];
    },
  });
  const client = connect(t, server);
  const lock = await hold(t, client.lock("a"));
  // What the server sends for another lock is not for this one.
  const other = await hold(t, client.lock("b"));
  await isWanted(lock, "shared");
  assert.equal(other.isWanted, false);
  await lock.release();
  assert.deepEqual([lock.isWanted, lock.wanted.aborted], [true, true]);
});
