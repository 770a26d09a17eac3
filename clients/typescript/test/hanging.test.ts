import assert from "node:assert/strict";
import { once } from "node:events";
import * as net from "node:net";
import test, { type TestContext } from "node:test";
import { Acquiring } from "../src/acquiring.js";
import { addresses } from "../src/address.js";
import { call } from "../src/calls.js";
import { Connection, Heard } from "../src/connection.js";
import { Core } from "../src/core.js";
import { NOT_GRPC_SILENT } from "../src/facts.js";
import { request } from "../src/request.js";
import { Tls } from "../src/security.js";
import { Servers } from "../src/servers.js";
import { after, connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

/** The settings of HTTP/2, with which a server begins. */
const SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

/** A server that accepts connections, says this, and never anything more. */
async function hanging(t: TestContext, greeting = Buffer.alloc(0)) {
  let [connected, closed] = [0, 0];
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    connected += 1;
    socket.write(greeting);
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => (closed += 1));
    socket.resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = `127.0.0.1:${String((server.address() as net.AddressInfo).port)}`;
  const isGivenUp = () => connected > 0 && closed === connected;
  const say = (text: string) => {
    for (const socket of sockets) socket.write(text);
  };
  return { address, isGivenUp, say };
}

/** The servers of a client that soon misses an answer to a ping. */
class Impatient extends Servers {
  readonly #list: readonly string[];
  readonly #timeout: number;

  constructor(list: readonly string[], timeout = 100) {
    super(addresses(list), { tls: new Tls(), tokens: undefined });
    this.#list = list;
    this.#timeout = timeout;
  }

  override connection(index: number): Connection {
    const address = addresses(this.#list)[index] ?? assert.fail();
    const pings = { interval: 100, timeout: this.#timeout, unanswered: 60_000 };
    return new Connection(address, { tls: new Tls(), tokens: undefined }, new Heard(), undefined, pings);
  }
}

/** An error event without a listener would be an uncaught exception, and fail the test. */
void test("a server that never answers a ping does not end the process, nor a lock over the next one", async (t) => {
  const server = await start(t);
  const { address, isGivenUp } = await hanging(t, SETTINGS);
  const core = new Core(new Impatient([address, server.address]), "holder", 10_000);
  after(t, () => {
    core.keeper.close();
    core.servers.close();
    return Promise.resolve();
  });
  const acquiring = new Acquiring(core, request("a", { ttl: 10_000 }, "holder"));
  const lease = await core.awake.during(() => acquiring.run());
  await until("the hanging connection is given up", isGivenUp);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(lease.loss(performance.now()), undefined);
  assert.equal((await connect(t, server).get("a")).holders.length, 1);
});

void test("a server that says what is not HTTP/2 does not end the process", async (t) => {
  const server = await start(t);
  const { address, isGivenUp, say } = await hanging(t);
  const client = connect(t, [address, server.address]);
  const acquiring = client.lock("a", { ttl: 10_000 });
  const timer = setInterval(() => { say("no frame of HTTP/2\r\n".repeat(10)); }, 10);
  const lock = await acquiring;
  clearInterval(timer);
  await until("the broken connection is given up", isGivenUp);
  assert.ok(lock.valid());
});

void test("a server that says nothing is left before anything is sent to it", async (t) => {
  const server = await start(t);
  const { address, isGivenUp } = await hanging(t);
  // An operation that was sent would have 5 s for its answer.
  const client = connect(t, [address, server.address], { timeout: 4500 });
  const lock = await client.lock("a", { ttl: 10_000 });
  assert.ok(lock.valid() && isGivenUp());

  const unserved = connect(t, address, { timeout: 3000 });
  const unavailable = { name: "Unavailable", message: `no server could be reached: ${address} ${NOT_GRPC_SILENT}` };
  await assert.rejects(unserved.tryLock("a"), unavailable);
  await assert.rejects(unserved.get("a"), unavailable);
});

void test("a connection that was idle is checked before a call is sent over it", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const core = new Core(new Impatient([proxy.address, server.address], 60_000), "holder", 4500);
  after(t, () => {
    core.servers.close();
    return Promise.resolve();
  });
  const get = () => call(core, undefined, (service, options) => service.get({ lockName: "a" }, options));
  await get();
  const idle = performance.now();
  await until("it was idle for the interval of pings", () => performance.now() - idle > 150);
  proxy.dropAnswers();
  // A call that was sent would have 5 s for its answer.
  await get();
});

void test("a call does not wait as long for a ping as a check in the background does", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const address = addresses([proxy.address])[0] ?? assert.fail();
  const pings = { interval: 100, timeout: 60_000, unanswered: 60_000 };
  const connection = new Connection(address, { tls: new Tls(), tokens: undefined }, new Heard(), undefined, pings);
  after(t, () => {
    connection.close();
    return Promise.resolve();
  });
  assert.equal(await connection.open(), undefined);
  proxy.dropAnswers();
  // While this call is open, the connection is checked in the background.
  const unanswered = assert.rejects(connection.client.get({ lockName: "a" }));
  const sent = performance.now();
  await until("the check in the background has begun", () => performance.now() - sent > 500);
  const opening = performance.now();
  assert.notEqual(await connection.open(), undefined);
  assert.ok(performance.now() - opening < 10_000, "the check in the background has 60 s");
  await unanswered;
});
