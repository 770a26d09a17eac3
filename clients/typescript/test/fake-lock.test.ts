/** The lock for unit tests does what a lock of a server does. */
import assert from "node:assert/strict";
import { inspect } from "node:util";
import test, { type TestContext } from "node:test";
import { type Lock, LockLost, LockWanted, type LossReason } from "../src/index.js";
import { FakeLock } from "../src/testing/index.js";
import { aborted, connect, start } from "./support/index.js";

interface Losable {
  readonly lock: Lock;
  readonly lose: () => Promise<void>;
}

const KINDS: Record<string, (t: TestContext) => Promise<Losable>> = {
  "a server's lock": async (t) => {
    const server = await start(t);
    const lock = await connect(t, server, { holder: "fake", logger: null }).lock("orders/42");
    // Once its signal has aborted, the client knows what the server has said.
    const { signal } = lock;
    return { lock, lose: async () => { await server.lose("orders/42"); await aborted(signal); } };
  },
  "a fake lock": async () => {
    const lock = new FakeLock("orders/42");
    await Promise.resolve();
    return { lock, lose: () => { lock.lose(); return Promise.resolve(); } };
  },
};

const state = (lock: Lock) => [lock.status, lock.valid(), lock.remaining() > 0, lock.signal.aborted];

function isLoss(error: unknown, reason: LossReason): true {
  assert.ok(error instanceof LockLost);
  assert.deepEqual([error.lockName, error.reason, error.successorToken], ["orders/42", reason, undefined]);
  return true;
}

for (const [kind, make] of Object.entries(KINDS)) {
  void test(`${kind} is held until it is released`, async (t) => {
    const { lock } = await make(t);
    const { name, holder, previousEnd, ttl } = lock;
    assert.deepEqual([name, holder, previousEnd, ttl], ["orders/42", "fake", "unspecified", 30_000]);
    assert.ok(lock.token > 0 && /^[0-9a-f-]{36}$/.test(lock.grantId));
    assert.deepEqual(state(lock), ["held", true, true, false]);
    lock.throwIfLost();
    assert.equal(String(lock), `orders/42 (token ${String(lock.token)}, held)`);
    assert.match(inspect(lock), /Lock orders\/42 \(token \d+, held\)$/);
    for (const _ of [1, 2]) assert.deepEqual(await lock.release(), { end: "released", successorToken: undefined });
    assert.deepEqual(state(lock), ["released", false, false, true]);
    const { isOwn, reason } = lock.signal.reason as LockLost;
    assert.deepEqual([isOwn, reason], [true, "released"]);
    const throwing = () => { lock.throwIfLost(); };
    assert.throws(throwing, (error: LockLost) => {
      assert.match(error.stack ?? "", /at throwing/);
      return isLoss(error, "released");
    });
    await lock[Symbol.asyncDispose]();
  });

  void test(`${kind} is lost once, and a release after that says so`, async (t) => {
    const { lock, lose } = await make(t);
    await lose();
    assert.deepEqual(state(lock), ["lost", false, false, true]);
    isLoss(lock.signal.reason, "revoked");
    assert.deepEqual(await lock.release(), { end: "revoked", successorToken: undefined });
    assert.deepEqual(state(lock), ["lost", false, false, true]);
  });

  void test(`the block of ${kind} ends with its loss, unless that was thrown before`, async (t) => {
    const { lock, lose } = await make(t);
    const work = async () => {
      await using _lock = lock;
      await lose();
    };
    await assert.rejects(work(), (error) => isLoss(error, "revoked"));
    assert.throws(() => { lock.throwIfLost(); }, (error) => isLoss(error, "revoked"));
    await lock[Symbol.asyncDispose]();
  });

  void test(`the block of ${kind} releases it`, async (t) => {
    const { lock } = await make(t);
    {
      await using _lock = lock;
    }
    assert.equal(lock.status, "released");
  });
}

for (const [kind, make] of Object.entries(KINDS)) {
  void test(`${kind} is converted while it is held`, async (t) => {
    const { lock, lose } = await make(t);
    const { token } = lock;
    await lock.downgrade();
    assert.deepEqual([lock.mode, lock.token], ["shared", token]);
    assert.equal(await lock.tryUpgrade(), true);
    assert.equal(lock.mode, "exclusive");
    assert.ok(lock.token > token);
    await lose();
    for (const convert of [() => lock.downgrade(), () => lock.tryUpgrade()]) {
      await assert.rejects(convert, (error) => isLoss(error, "revoked"));
    }
  });
}

for (const [kind, make] of Object.entries(KINDS)) {
  void test(`${kind} is described while it is held`, async (t) => {
    const { lock, lose } = await make(t);
    await lock.describe({ at: "10.0.0.7" });
    assert.equal(lock.holder, "fake");
    assert.equal(await lock.describe({}, "leader"), 2);
    assert.equal(lock.holder, "leader");
    await assert.rejects(lock.describe({ at: 7 as unknown as string }), TypeError);
    await lose();
    await assert.rejects(lock.describe({}), (error) => isLoss(error, "revoked"));
  });
}

void test("a test sees what a fake lock was described with, and says when it is wanted", async () => {
  const lock = new FakeLock("a");
  await lock.describe({ at: "10.0.0.7" });
  assert.deepEqual([lock.metadata, lock.isWanted, lock.wanted.aborted], [{ at: "10.0.0.7" }, false, false]);
  lock.want("shared");
  lock.want();
  const reason: unknown = lock.wanted.reason;
  assert.ok(reason instanceof LockWanted && lock.isWanted && lock.valid());
  assert.deepEqual([reason.lockName, reason.mode], ["a", "shared"]);
  const lost = new FakeLock("a");
  lost.lose();
  lost.want();
  assert.equal(lost.isWanted, false);
});

void test("a fake lock stays shared while it has other readers", async () => {
  const lock = new FakeLock("a", { token: 7, mode: "shared" });
  lock.hasOtherReaders = true;
  assert.deepEqual([await lock.tryUpgrade(), lock.mode, lock.token], [false, "shared", 7]);
  lock.hasOtherReaders = false;
  assert.deepEqual([await lock.tryUpgrade(), lock.mode, lock.token], [true, "exclusive", 8]);
});

void test("a test chooses what code reads of a fake lock, and sees its release", async () => {
  const options = { token: 7, grantId: "g", holder: "h", previousEnd: "expired", ttl: 500 } as const;
  const lock = new FakeLock("a", options);
  const { token, grantId, holder, previousEnd, ttl } = lock;
  assert.deepEqual([{ token, grantId, holder, previousEnd, ttl }, lock.remaining()], [options, 500]);
  lock.isAtRisk = true;
  assert.deepEqual([lock.status, lock.valid(), lock.isReleased], ["at-risk", true, false]);
  lock.lose("silence", 8);
  lock.lose("expired");
  const loss = lock.signal.reason as LockLost;
  assert.deepEqual([loss.reason, loss.successorToken, lock.status, lock.isReleased], ["silence", 8, "lost", false]);
  assert.equal((await lock.release()).end, "unspecified");
  assert.deepEqual([lock.status, lock.isReleased], ["lost", true]);
  const released = new FakeLock("a");
  await released.release();
  released.lose();
  assert.deepEqual([released.status, released.isReleased], ["released", true]);
});
