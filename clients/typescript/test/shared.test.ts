/** Locks that readers share: `shared`. */
import assert from "node:assert/strict";
import test from "node:test";
import { type Client, Contended, type LockHolder, TimedOut } from "../src/index.js";
import { LockMode } from "../src/gen/fencepost/v1/lock_pb.js";
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
