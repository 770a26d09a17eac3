import assert from "node:assert/strict";
import { join } from "node:path";
import { inspect } from "node:util";
import test from "node:test";
import * as facts from "../src/facts.js";
import { Client, ClientClosed, type TlsOptions } from "../src/index.js";
import { certificates, folderOf } from "./support/certificates.js";
import { connect, start, until } from "./support/index.js";

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
    [{}, facts.TLS_UNTRUSTED],
    [{ ...good, caFile: file("other.pem") }, facts.TLS_UNTRUSTED],
    [{ caFile: good.caFile }, facts.TLS_CLIENT_CERTIFICATE_MISSING],
    [
      { ...good, certFile: file("stranger.pem"), keyFile: file("stranger.key") },
      `${facts.TLS_CLIENT_CERTIFICATE_REFUSED} (TLS alert unknown ca)`,
    ],
  ] as const) {
    const client = connect(t, address, { tls, timeout });
    const unavailable = { name: "Unavailable", message: `no server could be reached: ${address}: ${message}` };
    await assert.rejects(client.lock("c"), unavailable);
    await assert.rejects(client.get("c"), unavailable);
  }
  const plain = await start(t);
  await (await connect(t, [address, plain.address], { timeout }).lock("c")).release();
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
  const server = await start(t);
  let [asked, isDown] = [0, false];
  const token = () => {
    asked += 1;
    if (isDown) throw new Error("no token today");
    return "secret";
  };
  const client = connect(t, server.address, { token });
  const lock = await client.lock("a", { ttl: 3000 });
  isDown = true;
  await server.dropReply();
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
  const late = { name: "Refused", message: /no bearer token: its function did not settle within 450 ms/ };
  const began = performance.now();
  await assert.rejects(client.get("a"), late);
  await assert.rejects(client.watch("a").next(), late);
  await assert.rejects(client.lock("a"), late);
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
