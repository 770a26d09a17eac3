/** What is at an address that is not that of a server is said in the message, at once if it stays. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as http from "node:http";
import * as http2 from "node:http2";
import * as net from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { type TestContext } from "node:test";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import * as facts from "../src/facts.js";
import { type ClientOptions, Refused, Unavailable } from "../src/index.js";
import { certificates, folderOf } from "./support/certificates.js";
import { after, binary, connect, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";
import { redis } from "./support/redis.js";

/** Far beyond the time of a test: a call that is repeated for that long does not end in it. */
const LASTING_MS = 3_600_000;

async function listening(t: TestContext, server: net.Server): Promise<string> {
  const sockets = new Set<net.Socket>();
  server.on("connection", (socket: net.Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  after(t, () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    return Promise.resolve();
  });
  return `127.0.0.1:${String((server.address() as net.AddressInfo).port)}`;
}

/** A call and an acquire both say so. With {@link LASTING_MS} they say it at once, although they could wait. */
async function says(t: TestContext, address: string, diagnosis: string, options: ClientOptions): Promise<void> {
  const client = connect(t, address, options);
  const unavailable = { name: "Unavailable", message: `no server could be reached: ${diagnosis}`, reason: undefined };
  await assert.rejects(client.lock("a", { wait: options.timeout === LASTING_MS ? 60_000 : 0 }), unavailable);
  await assert.rejects(client.get("a"), unavailable);
}

void test("nothing listens", async (t) => {
  const closed = connect(t, "127.0.0.1:1", { timeout: 500 });
  const isUnavailable = (error: unknown) => error instanceof Unavailable && !(error instanceof Refused);
  await assert.rejects(closed.watch("a").next(), isUnavailable);
  await says(t, "127.0.0.1:1", "127.0.0.1:1: connection refused", { timeout: 500 });
  await says(t, "unix:/nowhere", "unix:/nowhere: no such file or directory", { timeout: 500 });
  await says(t, "nowhere.invalid:1", "nowhere.invalid:1: the host name is not known (ENOTFOUND)", { timeout: 500 });
});

void test("a web server", async (t) => {
  const address = await listening(t, http.createServer());
  const text = `${address} does not speak gRPC (it sent "HTTP/1.1 400 Bad Request")`;
  await says(t, address, text, { timeout: LASTING_MS });
});

void test("a Redis", async (t) => {
  const { url } = await redis(t);
  const address = url.replace("redis://", "");
  const client = connect(t, address, { timeout: LASTING_MS });
  const message = new RegExp(`^no server could be reached: ${address} does not speak gRPC \\(it sent "-ERR .*\\)$`);
  await assert.rejects(client.lock("a"), { name: "Unavailable", message });
  await assert.rejects(client.get("a"), { name: "Unavailable", message });
});

void test("bytes of another protocol", async (t) => {
  const address = await listening(t, net.createServer((socket) => socket.write(Buffer.alloc(20, 9))));
  const text = `${address} ${facts.NOT_GRPC_OTHER.replace("{}", facts.NOT_GRPC_BYTES)}`;
  await says(t, address, text, { timeout: LASTING_MS });
});

void test("a port that accepts connections and closes them, or says nothing", async (t) => {
  const closing = await listening(t, net.createServer((socket) => socket.end()));
  await says(t, closing, `${closing} ${facts.NOT_GRPC_CLOSED_PLAIN}`, { timeout: 500 });
  const silent = await listening(t, net.createServer());
  await says(t, silent, `${silent} ${facts.NOT_GRPC_SILENT}`, { timeout: 3000 });
});

void test("plain text to a port with TLS, and TLS to a port without", async (t) => {
  const folder = folderOf(t);
  certificates(folder);
  const [caFile, cert, key] = ["ca.pem", "server.pem", "server.key"].map((name) => join(folder, name));
  const secure = await start(t, { arguments: ["--tls-cert", cert ?? "", "--tls-key", key ?? ""] });
  const plain = await start(t);
  const options = { tls: { caFile: caFile ?? "" }, timeout: LASTING_MS };
  const address = secure.address.replace("https://", "");
  await says(t, address, `${address} ${facts.NOT_GRPC_CLOSED_PLAIN}`, options);
  await says(t, `https://${plain.address}`, `https://${plain.address}: ${facts.TLS_NOT_TLS}`, options);
  const web = `https://${await listening(t, http.createServer())}`;
  await says(t, web, `${web}: ${facts.TLS_NOT_TLS}`, options);
  const [closing, silent] = [net.createServer((socket) => socket.end()), net.createServer()];
  const ends = `https://${await listening(t, closing)}`;
  await says(t, ends, `${ends} ${facts.NOT_GRPC_CLOSED}`, { ...options, timeout: 500 });
  const hangs = `https://${await listening(t, silent)}`;
  await says(t, hangs, `${hangs} ${facts.NOT_GRPC_SILENT}`, { ...options, timeout: 3000 });
});

void test("a TLS alert as the answer to plain text", async (t) => {
  const alert = Buffer.from([0x15, 0x03, 0x03, 0, 2, 2, 70]);
  const address = await listening(t, net.createServer((socket) => socket.end(alert)));
  await says(t, address, `${address} ${facts.NOT_GRPC_TLS_ALERT}`, { timeout: LASTING_MS });
});

void test("a certificate of another name", async (t) => {
  const folder = folderOf(t);
  certificates(folder);
  const file = (name: string) => join(folder, name);
  const files = ["--tls-cert", file("server.pem"), "--tls-key", file("server.key")];
  const { address } = await start(t, { listen: "127.0.0.2:0", arguments: files });
  const options = { tls: { caFile: file("ca.pem") }, timeout: LASTING_MS };
  const secure = `https://${address.replace("https://", "")}`;
  await says(t, secure, `${secure}: ${facts.TLS_WRONG_NAME}, only for localhost, 127.0.0.1`, options);
});

/** The address of the admin port of a server of its own. */
async function admin(t: TestContext): Promise<string> {
  const ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
  const child = spawn(binary(), ["serve", ...ports], { stdio: ["ignore", "ignore", "pipe"] });
  after(t, () => {
    child.kill("SIGKILL");
    return Promise.resolve();
  });
  for await (const line of createInterface({ input: child.stderr })) {
    const [, address] = /admin port open addr=(\S+)/.exec(line) ?? [];
    if (address !== undefined) return address;
  }
  return assert.fail("the server did not start");
}

void test("gRPC without the service: the admin port, another server", async (t) => {
  const other = await listening(t, http2.createServer(connectNodeAdapter({ routes: () => undefined })));
  const server = await start(t);
  for (const address of [other, await admin(t)]) {
    const client = connect(t, address, { timeout: LASTING_MS });
    const refused = { name: "Refused", code: "UNIMPLEMENTED", message: `${address} ${facts.NOT_FENCEPOST}` };
    await assert.rejects(client.lock("a", { wait: 60_000 }), refused);
    await assert.rejects(client.get("a"), refused);
    await assert.rejects(client.watch("a").next(), refused);
    // Another server serves.
    const both = connect(t, [address, server.address], { timeout: LASTING_MS });
    await (await both.lock("a")).release();
    assert.equal((await connect(t, [address, server.address]).get("a")).waiters, 0);
  }
});

void test("a server that has spoken before and closes connections is not taken for another one", async (t) => {
  const server = await start(t);
  let closes = false;
  const [host = "", port = ""] = server.address.split(":");
  const address = await listening(t, net.createServer((socket) => {
    if (closes) {
      socket.end();
      return;
    }
    const there = net.connect({ host, port: Number(port) });
    there.on("error", () => socket.destroy());
    socket.pipe(there).pipe(socket);
  }));
  const client = connect(t, address, { timeout: 500 });
  const lock = await client.lock("a", { ttl: 60_000 });
  await client.get("a");
  closes = true;
  await server.stop();
  await assert.rejects(client.get("b"), (error: Error) => {
    assert.match(error.message, /^(no server could be reached|outcome unknown): /);
    assert.doesNotMatch(error.message, /gRPC/);
    return true;
  });
  assert.ok(lock.valid());
});

void test("what stays costs no lock: it is renewed over what is open, and moves when it can", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const web = await listening(t, http.createServer());
  const client = connect(t, proxy.address, { timeout: LASTING_MS });
  const observer = connect(t, server);
  const lock = await client.lock("a", { ttl: 3000 });
  const heldFor = (ms: number) => until("it is held for so long", async () => {
    return ((await observer.get("a")).holders[0]?.heldFor ?? 0) > ms;
  });
  proxy.leadTo(web);
  await assert.rejects(client.get("a"), { name: "Unavailable", message: /does not speak gRPC/ });
  await heldFor(4000);
  proxy.cut();
  await assert.rejects(client.get("a"), { name: "Unavailable", message: /does not speak gRPC/ });
  assert.ok(lock.valid());
  proxy.leadTo(server.address);
  await heldFor(9000);
  assert.ok(lock.valid());
});
