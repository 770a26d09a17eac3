const assert = require("node:assert/strict");
const { Client, TimedOut } = require("@fencepost/client");
const { Server } = require("@fencepost/client/testing");

async function main() {
  const server = await Server.start();
  const client = new Client({ servers: server.address });
  const lock = await client.lock("orders/42");
  await assert.rejects(client.lock("orders/42", { wait: 10 }), TimedOut);
  await lock.release();
  await client.close();
  await server.stop();
}

main();
