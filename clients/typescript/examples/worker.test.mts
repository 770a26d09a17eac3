// How to test code that holds a lock: without a server, and with one that loses the lock on demand.
import assert from "node:assert/strict";
import test from "node:test";
import { Client, type Lock, LockLost } from "@fencepost/client";
import { FakeLock, Server } from "@fencepost/client/testing";

/** The code to test: it works until it is told to stop. */
async function work(lock: Lock): Promise<void> {
  await new Promise((_, reject) => {
    lock.signal.addEventListener("abort", () => reject(lock.signal.reason));
  });
}

const isRevoked = (error: unknown) => error instanceof LockLost && error.reason === "revoked";

test("the work stops when its lock is lost", async () => {
  const lock = new FakeLock("orders/42", { token: 7 });
  const working = work(lock);
  lock.lose();
  await assert.rejects(working, isRevoked);
});

test("the worker stops when a server takes its lock", async () => {
  await using server = await Server.start();
  await using client = new Client({ servers: server.address, logger: null });
  const working = client.using("orders/42", async (lock) => {
    await Promise.all([work(lock), server.lose("orders/42")]);
  });
  await assert.rejects(working, isRevoked);
});

test("the worker survives the loss of a reply", async () => {
  await using server = await Server.start();
  await using client = new Client({ servers: server.address });
  await server.dropReply();
  await using lock = await client.lock("orders/42");
  assert.ok(lock.valid());
});
