/** Open connections fall silent, and new ones work: as behind a NAT or a load balancer that lost its table. */
import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";
import { granted, scripted } from "./support/scripted.js";

async function behindProxy(t: TestContext) {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  return { server, proxy, client: connect(t, proxy.address) };
}

/** What is asked over a silent connection has to be answered by then, of the 10 s for which it is repeated. */
const SERVED_MS = 4500;

async function soon<T>(work: Promise<T>): Promise<T> {
  const began = performance.now();
  const value = await work;
  const took = performance.now() - began;
  assert.ok(took < SERVED_MS, `${String(Math.round(took))} ms`);
  return value;
}

void test("the next acquire after the connection fell silent is served over a new one", async (t) => {
  const { proxy, client } = await behindProxy(t);
  await (await client.lock("a")).release();
  proxy.silence();
  const lock = await soon(client.lock("b"));
  assert.ok(lock.valid());
});

void test("a release over a silent connection goes on over a new one", async (t) => {
  const { proxy, client } = await behindProxy(t);
  const lock = await client.lock("a", { ttl: 60_000 });
  proxy.silence();
  assert.equal((await soon(lock.release())).end, "released");
});

void test("a read over a silent connection goes on over a new one", async (t) => {
  const { proxy, client } = await behindProxy(t);
  await client.get("a");
  proxy.silence();
  assert.equal((await soon(client.get("a"))).waiters, 0);
});

void test("locks and waiters outlive a connection that falls silent, with one address", async (t) => {
  const { server, proxy, client } = await behindProxy(t);
  const locks = await Promise.all([5000, 20_000, 60_000].map((ttl) => client.lock(`a/${String(ttl)}`, { ttl })));
  const waiting = client.lock("a/5000", { ttl: 5000, wait: 60_000 });
  const observer = connect(t, server);
  await until("it waits", async () => (await observer.get("a/5000")).waiters === 1);
  proxy.silence();
  assert.ok((await soon(client.lock("b"))).valid());
  const heldFor = async () => (await observer.get("a/5000")).holders[0]?.heldFor ?? 0;
  await until("the shortest TTL is over", async () => (await heldFor()) > 9000);
  assert.deepEqual(locks.map(({ status }) => status), ["held", "held", "held"]);
  await locks[0]?.release();
  assert.ok((await waiting).valid());
});

void test("a server that answers pings and no operations: the session ends with its connection", async (t) => {
  let asked = 0;
  const ids = new Set<string | undefined>();
  const server = await scripted(t, {
    acquire({ request }) {
      asked += 1;
      ids.add(request?.requestId);
      return asked === 1 ? [] : [granted("a", 1, 60_000)];
    },
  });
  const proxy = await Proxy.start(t, server);
  const lock = await connect(t, proxy.address).lock("a", { ttl: 60_000 });
  assert.ok(lock.valid());
  assert.deepEqual([asked, ids.size, proxy.connections], [2, 1, 2]);
});
