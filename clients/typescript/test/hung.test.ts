/**
 * Servers that hang, as a stopped process does: it accepts connections and says nothing, or has an open one and answers
 * no call on it. Each of them must leave time for the next server.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import * as http2 from "node:http2";
import * as net from "node:net";
import test, { type TestContext } from "node:test";
import type { Client } from "../src/index.js";
import { answerTime } from "../src/timing.js";
import { after, connect, start, until } from "./support/index.js";

/** Listens with a server whose connections say no more than it does by itself. Returns its address. */
async function listening(t: TestContext, server: net.Server | http2.Http2Server): Promise<string> {
  const sockets = new Set<net.Socket>();
  server.on("connection", (socket: net.Socket) => sockets.add(socket.on("error", () => undefined)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(t, async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return `127.0.0.1:${String((server.address() as net.AddressInfo).port)}`;
}

const HUNG = {
  "say nothing": () => net.createServer(),
  "greet and answer no call": () => http2.createServer().on("stream", (stream) => stream.on("error", () => undefined)),
};

const CALLS: Record<string, (client: Client) => Promise<unknown>> = {
  get: (client) => client.get("a"),
  "check a token": (client) => client.checkToken("a", 1),
  list: (client) => client.list("none/").next(),
  watch: (client) => client.watch("").next(),
  observe: (client) => client.observe("a").next(),
  "acquire, keep and release": async (client) => {
    const lock = await client.lock("a", { ttl: 1000 });
    const began = performance.now();
    await until("its TTL is over", () => performance.now() - began > 1500);
    assert.equal((await lock.release()).end, "released");
  },
  "acquire with a wait": async (client) => (await client.lock("b", { wait: 1000 })).release(),
};

for (const [how, hung] of Object.entries(HUNG)) {
  void test(`servers that ${how} leave time for the next one`, { concurrency: true }, async (t) => {
    const servers = [await listening(t, hung()), await listening(t, hung()), (await start(t)).address];
    const calls = Object.entries(CALLS).map(([name, call]) =>
      t.test(name, async (t) => {
        await call(connect(t, servers));
      }),
    );
    await Promise.all(calls);
  });
}

void test("each of several servers has a part of the time", () => {
  const of = (servers: number) => answerTime(5000, 9000, servers);
  assert.deepEqual([of(1), of(2), of(3), of(100)], [5000, 4500, 3000, 500]);
  assert.equal(answerTime(20, 9000, 2), 20);
});
