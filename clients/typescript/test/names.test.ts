/** How a client gets to its servers: names are resolved for each connection, and no web proxy is obeyed. */
import assert from "node:assert/strict";
import dns from "node:dns";
import { once } from "node:events";
import * as net from "node:net";
import test, { type TestContext } from "node:test";
import { after, connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";

const NAME = "locks.test";

/** While the test runs, the name stands for the address that was chosen last. */
function resolved(t: TestContext): { lead(address: string): void } {
  let known = "127.0.0.1";
  const real = dns.lookup;
  t.after(() => (dns.lookup = real));
  const lookup = (name: string, ...rest: unknown[]) => {
    Reflect.apply(real, dns, [name === NAME ? known : name, ...rest]);
  };
  dns.lookup = lookup as typeof dns.lookup;
  return { lead: (address) => (known = address) };
}

void test("a server that moved to another address costs no lock", async (t) => {
  const server = await start(t);
  const names = resolved(t);
  const first = await Proxy.start(t, server.address);
  const port = first.address.split(":")[1] ?? "";
  const second = await Proxy.start(t, server.address, `127.0.0.2:${port}`);
  const client = connect(t, `${NAME}:${port}`);
  const lock = await client.lock("a", { ttl: 5000 });
  names.lead("127.0.0.2");
  first.refuse();
  const observer = connect(t, server);
  await until("the TTL is over", async () => ((await observer.get("a")).holders[0]?.heldFor ?? 0) > 6000);
  assert.ok(lock.valid() && second.isConnected);
});

void test("no web proxy is obeyed", async (t) => {
  const server = await start(t);
  let asked = 0;
  const proxy = net.createServer((socket) => {
    asked += 1;
    socket.destroy();
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const address = `http://127.0.0.1:${String((proxy.address() as net.AddressInfo).port)}`;
  const names = ["http_proxy", "https_proxy", "grpc_proxy", "all_proxy"].flatMap((name) => [name, name.toUpperCase()]);
  const all = [...names, "no_proxy", "NO_PROXY", "NODE_USE_ENV_PROXY"];
  const known = all.map((name) => [name, process.env[name]] as const);
  after(t, () => {
    proxy.close();
    for (const [name, value] of known) {
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    }
    return Promise.resolve();
  });
  for (const [name] of known) Reflect.deleteProperty(process.env, name);
  for (const name of names) process.env[name] = address;
  process.env["NODE_USE_ENV_PROXY"] = "1";
  const client = connect(t, server);
  await (await client.lock("a")).release();
  assert.equal((await client.get("a")).waiters, 0);
  assert.equal(asked, 0);
});
