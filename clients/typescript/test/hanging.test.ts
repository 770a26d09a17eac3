import assert from "node:assert/strict";
import { once } from "node:events";
import * as net from "node:net";
import test, { type TestContext } from "node:test";
import { Acquiring } from "../src/acquiring.js";
import { addresses } from "../src/address.js";
import { Connection } from "../src/connection.js";
import { Core } from "../src/core.js";
import { request } from "../src/request.js";
import { Tls } from "../src/security.js";
import { Servers } from "../src/servers.js";
import { after, connect, start, until } from "./support/index.js";

/** A server that accepts connections and never says anything. */
async function hanging(t: TestContext) {
  let [connected, closed] = [0, 0];
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    connected += 1;
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

  constructor(list: readonly string[]) {
    super(addresses(list), { tls: new Tls(), tokens: undefined });
    this.#list = list;
  }

  override connection(index: number): Connection {
    const address = addresses(this.#list)[index] ?? assert.fail();
    return new Connection(address, { tls: new Tls(), tokens: undefined }, { pingIntervalMs: 100, pingTimeoutMs: 100 });
  }
}

/** An error event without a listener would be an uncaught exception, and fail the test. */
void test("a server that never answers a ping does not end the process, nor a lock over the next one", async (t) => {
  const server = await start(t);
  const { address, isGivenUp } = await hanging(t);
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
