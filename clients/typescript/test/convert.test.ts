/** Conversions of a held lock: `downgrade` and `tryUpgrade`. */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Client, LockLost, OutcomeUnknown, Refused } from "../src/index.js";
import {
  ConvertResponse_Outcome as Outcome,
  type ConvertResponseSchema,
  LeaseEnd,
  LockMode,
} from "../src/gen/fencepost/v1/lock_pb.js";
import { postgres } from "../src/guards/index.js";
import { aborted, connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

async function waiting(client: Client, name: string, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(name)).waiters === count);
}

/** Two clients of one server. */
async function two(t: TestContext): Promise<[Client, Client]> {
  const server = await start(t);
  return [connect(t, server), connect(t, server)];
}

void test("a downgrade lets a reader in at once that waits, and no writer", async (t) => {
  const [client, other] = await two(t);
  const lock = await hold(t, client.lock("a"));
  const [{ token }, wait] = [lock, PATIENCE_MS];
  const reading = other.lock("a", { shared: true, wait });
  await waiting(client, "a", 1);
  const writing = other.lock("a", { wait });
  await waiting(client, "a", 2);
  assert.equal(lock.mode, "exclusive");
  await lock.downgrade();
  const reader = await hold(t, reading);
  assert.deepEqual([lock.mode, lock.token, reader.mode], ["shared", token, "shared"]);
  const { holders, waiters } = await other.get("a");
  assert.deepEqual([holders.map(({ shared }) => shared), waiters], [[true, true], 1]);
  await lock.downgrade();
  assert.ok(lock.valid());
  await Promise.all([lock.release(), reader.release()]);
  assert.ok((await hold(t, writing)).token > reader.token);
});

void test("a reader becomes a writer once no other reader is left, with a higher token", async (t) => {
  const [client, other] = await two(t);
  const [lock, reader] = [
    await hold(t, client.lock("a", { shared: true })),
    await hold(t, other.lock("a", { shared: true })),
  ];
  const before = lock.token;
  assert.equal(await lock.tryUpgrade(), false);
  assert.deepEqual([lock.mode, lock.token, lock.valid()], ["shared", before, true]);
  await reader.release();
  assert.equal(await lock.tryUpgrade(), true);
  assert.ok(lock.token > reader.token);
  assert.equal(lock.mode, "exclusive");
  assert.deepEqual((await other.get("a")).holders.map(({ token, shared }) => [token, shared]), [[lock.token, false]]);
  const { token } = lock;
  // A downgrade that had no answer, and arrives late, finds another token.
  assert.equal(await lock.tryUpgrade(), true);
  assert.ok(lock.token > token);
  assert.equal(String(lock), `a (token ${String(lock.token)}, held)`);
});

void test("conversions of a lock are done one after another", async (t) => {
  const [client] = await two(t);
  const lock = await hold(t, client.lock("a"));
  const { token } = lock;
  await Promise.all([lock.downgrade(), lock.tryUpgrade(), lock.downgrade(), lock.tryUpgrade(), lock.tryUpgrade()]);
  assert.equal(lock.mode, "exclusive");
  assert.deepEqual((await client.get("a")).holders.map((holder) => holder.token), [lock.token]);
  assert.ok(lock.token > token);
});

void test("a conversion whose answer is lost is repeated, and answered with the token of the lock", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a", { shared: true }));
  const { token } = lock;
  await server.dropReply();
  assert.equal(await lock.tryUpgrade(), true);
  assert.ok(lock.token > token);
  assert.equal((await client.checkToken("a", lock.token)).status, "current");
});

void test("a conversion without an answer says so, and is asked for again", async (t) => {
  const asked: [bigint, LockMode][] = [];
  let answer = (): MessageInitShape<typeof ConvertResponseSchema> => {
    throw new ConnectError("no answer", Code.Unavailable);
  };
  const server = await scripted(t, {
    acquire: () => [granted("a", 7, 60_000)],
    calls: {
      convert: (request) => {
        asked.push([request.fencingToken, request.mode]);
        return answer();
      },
    },
  });
  const lock = await hold(t, connect(t, server, { timeout: 200, logger: null }).lock("a", { shared: true }));
  await assert.rejects(lock.tryUpgrade(), OutcomeUnknown);
  assert.ok(asked.length > 1, "it is repeated");
  assert.deepEqual([lock.token, lock.mode, lock.valid()], [7, "shared", true]);
  answer = () => ({ outcome: Outcome.CONVERTED, fencingToken: 9n });
  assert.equal(await lock.tryUpgrade(), true);
  for (const each of asked) assert.deepEqual(each, [7n, LockMode.EXCLUSIVE]);
  await lock.downgrade();
  assert.deepEqual([asked.at(-1), lock.token, lock.mode], [[9n, LockMode.SHARED], 9, "shared"]);
});

void test("a lock that ends while it is converted is not converted", async (t) => {
  let answer: (() => void) | undefined;
  const outcomes = [Outcome.LOST, Outcome.CONVERTED];
  const server = await scripted(t, {
    acquire: () => [granted("a", 7, 60_000)],
    calls: {
      convert: async () => {
        const outcome = outcomes.shift() ?? Outcome.UNSPECIFIED;
        if (outcome === Outcome.CONVERTED) await new Promise<void>((resolve) => (answer = resolve));
        return { outcome, fencingToken: 9n, end: LeaseEnd.EXPIRED, successorToken: 8n };
      },
    },
  });
  const client = connect(t, server, { logger: null });
  const lost = await hold(t, client.lock("a", { shared: true }));
  await assert.rejects(lost.tryUpgrade(), { name: "LockLost", reason: "expired", successorToken: 8, isOwn: false });
  assert.deepEqual([lost.status, lost.signal.aborted], ["lost", true]);
  const released = await hold(t, client.lock("a", { shared: true }));
  const refused = [released.tryUpgrade(), released.downgrade()].map((converting) =>
    assert.rejects(converting, { name: "LockLost", reason: "released", isOwn: true }),
  );
  await until("it is asked for", () => answer !== undefined);
  await released.release();
  await Promise.all(refused);
  assert.deepEqual([released.mode, released.token, outcomes], ["shared", 7, []]);
  answer?.();
});

void test("a guard reads the token at each use, also in a transaction that began before", async (t) => {
  const [client] = await two(t);
  const lock = await hold(t, client.lock("a", { shared: true }));
  const raised: unknown[] = [];
  const transaction = {
    query: (_: string, values: unknown[]) => {
      raised.push(values[1]);
      return Promise.resolve({ rows: [{}] });
    },
  };
  const before = lock.token;
  await postgres.raise(transaction, lock);
  await lock.tryUpgrade();
  await postgres.raise(transaction, lock);
  assert.deepEqual(raised, [before, lock.token]);
  assert.ok(lock.token > before);
});

void test("a lock that is not held is not converted", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { logger: null });
  const [lost, ended, released] = [
    await hold(t, client.lock("lost")),
    await hold(t, client.lock("ended", { shared: true })),
    await hold(t, client.lock("released")),
  ];
  const { signal } = lost;
  await server.lose("lost");
  await aborted(signal);
  await released.release();
  await server.lose("ended");
  for (const [lock, reason] of [[lost, "revoked"], [ended, "revoked"], [released, "released"]] as const) {
    for (const convert of [() => lock.downgrade(), () => lock.tryUpgrade()]) {
      await assert.rejects(convert, (error: unknown) => error instanceof LockLost && error.reason === reason);
    }
    assert.equal(lock.valid(), false);
  }
});

void test("what a conversion is refused for", async (t) => {
  const client = connect(t, await start(t));
  const permit = await hold(t, client.lock("a", { semaphore: 2 }));
  for (const convert of [() => permit.downgrade(), () => permit.tryUpgrade()]) {
    await assert.rejects(convert, (error: unknown) => {
      assert.ok(error instanceof Refused);
      assert.deepEqual([error.code, error.reason], ["FAILED_PRECONDITION", "NOT_CONVERTIBLE"]);
      return true;
    });
  }
  assert.equal(permit.mode, "semaphore");
  assert.ok(permit.valid());
});
