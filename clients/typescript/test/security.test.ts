import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import test, { type TestContext } from "node:test";
import { Client, ClientClosed, type TlsOptions } from "../src/index.js";
import { FakeServer } from "../src/testing/index.js";
import { after, connect, start, until } from "./support/index.js";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "fencepost-tls-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Two authorities, certificates of the first for a server on this machine and a client, and one of the second. */
function certificates(folder: string): void {
  const openssl = (...more: string[]) => execFileSync("openssl", more, { cwd: folder, stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  for (const name of ["ca", "other"]) {
    openssl("req", "-x509", ...curve, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.pem`);
  }
  for (const [name, authority] of [["server", "ca"], ["client", "ca"], ["stranger", "other"]] as const) {
    const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    const by = ["-CA", `${authority}.pem`, "-CAkey", `${authority}.key`];
    const signed = [...by, "-addext", "basicConstraints=CA:FALSE"];
    openssl("req", "-x509", ...curve, ...subject, ...signed, "-keyout", `${name}.key`, "-out", `${name}.pem`);
  }
}

void test("TLS with certificates on both sides, from options and from the environment", async (t) => {
  const folder = folderOf(t);
  certificates(folder);
  const file = (name: string) => join(folder, name);
  const server = await start(t, {
    arguments: [
      ...["--tls-cert", file("server.pem"), "--tls-key", file("server.key")],
      ...["--tls-client-ca", file("ca.pem")],
    ],
  });
  const address = `https://${server.address.replace(/^https:\/\//, "")}`;
  const good = { caFile: file("ca.pem"), certFile: file("client.pem"), keyFile: file("client.key") };
  const client = connect(t, address, { tls: good, token: () => Promise.resolve("secret") });
  const lock = await client.lock("a");
  assert.equal((await client.get("a")).holders[0]?.token, lock.token);

  const known = ["FENCEPOST_CA", "FENCEPOST_CERT", "FENCEPOST_KEY"] as const;
  t.after(() => {
    for (const name of known) Reflect.deleteProperty(process.env, name);
  });
  [process.env["FENCEPOST_CA"], process.env["FENCEPOST_CERT"], process.env["FENCEPOST_KEY"]] = [
    good.caFile,
    good.certFile,
    good.keyFile,
  ];
  await (await connect(t, address).lock("b")).release();
  for (const name of known) Reflect.deleteProperty(process.env, name);

  // The timeout is far beyond that of the test: no certificate changes meanwhile, so the refusal is told at once.
  const timeout = 3_600_000;
  for (const [tls, message] of [
    [{}, /no server could be reached: https:.* the server's certificate is not accepted: /],
    [{ ...good, caFile: file("other.pem") }, /the server's certificate is not accepted: /],
    [{ caFile: good.caFile }, /no server could be reached: https:.* the server refuses TLS with this client: cert/],
    [{ ...good, certFile: file("stranger.pem"), keyFile: file("stranger.key") }, /the server refuses TLS with this/],
  ] as const) {
    const client = connect(t, address, { tls, timeout });
    const refused = { name: "Refused", code: "UNAVAILABLE", message };
    await assert.rejects(client.lock("c"), refused);
    await assert.rejects(client.get("c"), refused);
  }
  const plain = await start(t);
  await (await connect(t, [address, plain.address], { timeout }).lock("c")).release();
});

void test("TLS on one side only is named", async (t) => {
  const folder = folderOf(t);
  certificates(folder);
  const file = (name: string) => join(folder, name);
  const secure = await start(t, { arguments: ["--tls-cert", file("server.pem"), "--tls-key", file("server.key")] });
  const plain = await start(t);
  const silent = net.createServer((socket) => socket.end()).listen(0, "127.0.0.1");
  await once(silent, "listening");
  t.after(() => silent.close());
  const port = String((silent.address() as net.AddressInfo).port);
  for (const [address, message] of [
    [secure.address.replace("https://", "http://"), /ended before the server said anything .*write https:\/\//],
    [`https://${plain.address}`, /(ended before the server said anything|does not use TLS).*write http:\/\//],
    [`http://127.0.0.1:${port}`, /ended before the server said anything .*write https:\/\//],
  ] as const) {
    const client = connect(t, address, { tls: { caFile: file("ca.pem") }, timeout: 500 });
    const refused = { name: "Refused", code: "UNAVAILABLE", message };
    await assert.rejects(client.lock("c"), refused);
    await assert.rejects(client.get("c"), refused);
  }
});

void test("mistakes in the files of TLS are errors of the constructor", (t) => {
  const folder = folderOf(t);
  certificates(folder);
  const file = (name: string) => join(folder, name);
  const pair = { certFile: file("client.pem"), keyFile: file("client.key") };
  const make = (tls: TlsOptions) => new Client({ servers: "https://localhost", tls });
  assert.ok(make({ ...pair, caFile: file("ca.pem") }));
  assert.throws(() => make({ caFile: file("none.pem") }), { code: "ENOENT" });
  assert.throws(() => make({ caFile: pair.keyFile }), { name: "TypeError", message: /no PEM certificate in .*key/ });
  assert.throws(() => make({ ...pair, keyFile: file("server.key") }), { name: "TypeError", message: /and its key/ });
});

void test("a Unix socket", async (t) => {
  const address = `unix:${join(folderOf(t), "socket")}`;
  await start(t, { listen: address });
  const client = connect(t, address, { token: "secret" });
  await (await client.lock("a")).release();
});

void test("an IPv6 address", async (t) => {
  const server = await start(t, { listen: "[::1]:0" });
  await (await connect(t, server).lock("a")).release();
});

void test("a token that cannot be had is an error of the call", async (t) => {
  const server = await start(t);
  let asked = 0;
  const token = () => {
    asked += 1;
    return Promise.reject(new Error("no token today"));
  };
  const client = connect(t, server, { token });
  // Nothing was sent, so the error does not name the server.
  const message = "no bearer token: no token today";
  const refused = { name: "Refused", code: "UNAUTHENTICATED", message };
  await assert.rejects(client.lock("a"), refused);
  await assert.rejects(client.get("a"), refused);
  await assert.rejects(client.watch("a").next(), refused);
  assert.equal(asked, 3, "once for each call");
});

void test("a token that cannot be had for a moment costs no lock", async (t) => {
  const server = await FakeServer.start();
  after(t, () => server.stop());
  let [asked, isDown] = [0, false];
  const token = () => {
    asked += 1;
    if (isDown) throw new Error("no token today");
    return "secret";
  };
  const client = connect(t, server.address, { token });
  const lock = await client.lock("a", { ttl: 3000 });
  isDown = true;
  server.dropReply();
  await assert.rejects(client.tryLock("b"), { name: "Refused", code: "UNAUTHENTICATED", message: /no token today/ });
  const tries = asked;
  await until("the session asks again, for the lock", () => asked > tries);
  isDown = false;
  await new Promise((resolve) => setTimeout(resolve, 3500));
  assert.ok(lock.valid());
});

void test("a token that never comes holds up no call beyond its time, and none beyond close", async (t) => {
  const server = await start(t);
  const token = () => new Promise<string>(() => undefined);
  const client = connect(t, server, { token, timeout: 500 });
  const late = { name: "Refused", message: /no bearer token: its function did not settle within 500 ms/ };
  const began = performance.now();
  await assert.rejects(client.get("a"), late);
  await assert.rejects(client.watch("a").next(), late);
  await assert.rejects(client.lock("a"), { name: "Refused" });
  assert.ok(performance.now() - began < 4000);

  const patient = connect(t, server, { token });
  const calls = [patient.get("a"), patient.lock("a"), patient.watch("a").next()];
  const ended = Promise.all(calls.map((each) => assert.rejects(each, ClientClosed)));
  await new Promise((resolve) => setTimeout(resolve, 200));
  const closing = performance.now();
  await patient.close();
  await ended;
  assert.ok(performance.now() - closing < 2000);
});

void test("a token that cannot be sent is refused, and not shown", async (t) => {
  const server = await start(t);
  const isHidden = (error: unknown) => {
    const text = inspect(error, { depth: 10 });
    assert.match(text, /the token (has|is) /);
    assert.doesNotMatch(text, /hush/);
    return true;
  };
  for (const token of ["hush\nhush", "hush\r\nhush", "hush\0", "hush \u20ac", "", "\n"]) {
    assert.throws(() => new Client({ servers: server.address, token }), isHidden);
    const client = connect(t, server, { token: () => token });
    await assert.rejects(client.get("a"), isHidden);
    await assert.rejects(client.lock("a"), isHidden);
  }
  // The token of a file that was read whole.
  await (await connect(t, server, { token: "secret\n" }).lock("a")).release();
});
