// How to test code that holds a lock: with a server inside the process, which loses the lock on demand.
import assert from "node:assert/strict";
import test from "node:test";
import { Client, LockLost } from "@fencepost/client";
import { FakeServer } from "@fencepost/client/testing";

/** The code to test: it works until it is told to stop. */
async function work(client: Client, started: () => void): Promise<void> {
  await client.using("orders/42", async (_lock, signal) => {
    started();
    await new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  });
}

test("the worker stops when it loses its lock", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ servers: server.address });
  await assert.rejects(
    work(client, () => server.lose("orders/42")),
    (error) => error instanceof LockLost && error.reason === "revoked",
  );
});

test("the worker survives the loss of an answer", async () => {
  await using server = await FakeServer.start();
  await using client = new Client({ servers: server.address });
  server.dropReply();
  await using lock = await client.lock("orders/42");
  assert.ok(lock.valid());
});
