import assert from "node:assert/strict";
import { Client, Contended } from "@fencepost/client";
import { Server } from "@fencepost/client/testing";

const server = await Server.start();
const client = new Client({ servers: server.address });
const token = await client.using("orders/42", { ttl: 10_000 }, async (lock) => {
  await assert.rejects(client.lock("orders/42"), Contended);
  return lock.token;
});
assert.ok(token > 0);
await client.close();
await server.stop();
