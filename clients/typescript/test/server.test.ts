/** The server that the testing package starts: what it loses on demand, and how it is started. */
import assert from "node:assert/strict";
import http from "node:http";
import test from "node:test";
import { LockLost } from "../src/index.js";
import { Server } from "../src/testing/index.js";
import { aborted, binary, connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";
import { redis } from "./support/redis.js";

void test("lose: the holder is told, and the next one gets the lock", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const lock = await client.lock("Äpfel/🍏");
  const { signal } = lock;
  const waiting = client.lock("Äpfel/🍏", { wait: 60_000 });
  await until("it waits", async () => (await client.get("Äpfel/🍏")).waiters === 1);
  await server.lose("Äpfel/🍏");
  const next = await waiting;
  const loss = await aborted(signal);
  assert.ok(loss instanceof LockLost);
  assert.deepEqual([loss.reason, next.previousEnd], ["revoked", "revoked"]);
  assert.ok(next.token > lock.token && next.valid());
  assert.equal((await lock.release()).end, "revoked");
});

void test("lose: a lock that nobody holds is an error of the caller", async (t) => {
  const server = await start(t);
  await assert.rejects(async function byCaller() { await server.lose("b"); }, (error: unknown) => {
    assert.ok(error instanceof Error);
    assert.equal(error.message, 'nobody holds lock "b"');
    assert.match(error.stack ?? "", /at async byCaller.*server\.test/);
    return true;
  });
  await assert.rejects(server.lose("a\nb"), { name: "Error", message: /control/ });
});

void test("dropReply: the client asks again, and what was asked is done once", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const client = connect(t, proxy.address);
  const kept = await client.lock("kept", { ttl: 4000 });
  const before = await client.lock("a");
  await before.release();
  await server.dropReply();
  const lock = await client.lock("a");
  assert.equal(lock.token, before.token + 1, "the second transmission found the grant of the first");
  assert.equal(proxy.connections, 2, "the first one broke with its answer");
  await server.dropReply();
  assert.equal((await lock.release()).end, "released");
  assert.equal(proxy.connections, 3);
  await until("its TTL is over", async () => ((await client.get("kept")).holders[0]?.heldFor ?? 0) > 4500);
  assert.ok(kept.valid(), "other locks move to the next session");
});

void test("pause: locks are lost in time, others get them after the pause, and orders have an end", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const lock = await client.lock("a", { ttl: 2000 });
  server.pause();
  const loss = await aborted(lock.signal);
  assert.ok(loss instanceof LockLost && loss.reason === "silence");
  await assert.rejects(server.lose("a"), { message: /^the server did not answer http:\S+\/lose within 10 s$/ });
  server.resume();
  const next = await client.lock("a", { wait: 60_000 });
  assert.ok(next.token > lock.token && next.previousEnd === "expired");
});

void test("orders go to the port itself, whatever agent the program has set for its requests", async (t) => {
  const server = await start(t);
  const { globalAgent } = http;
  t.after(() => (http.globalAgent = globalAgent));
  http.globalAgent = new http.Agent();
  http.globalAgent.createConnection = () => assert.fail("a request over the agent");
  assert.throws(() => http.get(`http://${server.address}`), /over the agent/);
  await server.dropReply();
});

void test("the store is the memory store, and one with another store loses nothing", async (t) => {
  t.after(() => Reflect.deleteProperty(process.env, "FENCEPOST_STORE"));
  process.env["FENCEPOST_STORE"] = "redis://127.0.0.1:1";
  await (await connect(t, await start(t)).lock("a")).release();
  const named = await start(t, { arguments: ["--store", "memory:"] });
  await named.dropReply();
  const { url } = await redis(t);
  for (const store of [["--store", url], [`--store=${url}`]]) {
    const server = await start(t, { arguments: store });
    const message = "only a server with the memory store loses locks and replies";
    await assert.rejects(server.lose("a"), { message });
    await assert.rejects(server.dropReply(), { message });
  }
});

void test("a server that does not start says why", async () => {
  const mistake = Server.start({ binary: binary(), arguments: ["--ttl-min", "soon"] });
  await assert.rejects(mistake, /^Error: the server .* did not start: .*--ttl-min/s);
  await assert.rejects(Server.start({ binary: "/nowhere" }), (error: unknown) => {
    assert.ok(error instanceof Error);
    assert.match(error.message, /^the server \/nowhere did not start/);
    assert.equal((error.cause as NodeJS.ErrnoException).code, "ENOENT");
    return true;
  });
});
