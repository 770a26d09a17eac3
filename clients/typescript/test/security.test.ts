import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { Client, Refused } from "../src/index.js";
import { after, connect, start } from "./support/index.js";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "fencepost-tls-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** An authority, and certificates of it for a server on this machine and for a client. */
function certificates(folder: string): void {
  const openssl = (...more: string[]) => execFileSync("openssl", more, { cwd: folder, stdio: "ignore" });
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  openssl("req", "-x509", ...curve, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem");
  for (const name of ["server", "client"]) {
    const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
    const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"];
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
  const tls = { caFile: file("ca.pem"), certFile: file("client.pem"), keyFile: file("client.key") };
  const client = connect(t, address, { tls, token: () => Promise.resolve("secret") });
  const lock = await client.lock("a");
  assert.equal((await client.get("a")).holders[0]?.token, lock.token);

  const known = ["FENCEPOST_CA", "FENCEPOST_CERT", "FENCEPOST_KEY"] as const;
  t.after(() => {
    for (const name of known) Reflect.deleteProperty(process.env, name);
  });
  [process.env["FENCEPOST_CA"], process.env["FENCEPOST_CERT"], process.env["FENCEPOST_KEY"]] = [
    tls.caFile,
    tls.certFile,
    tls.keyFile,
  ];
  await (await connect(t, address).lock("b")).release();
  for (const name of known) Reflect.deleteProperty(process.env, name);

  const stranger = connect(t, address, { timeout: 3000 });
  await assert.rejects(stranger.lock("c"), (error: unknown) => {
    assert.ok(error instanceof Refused);
    assert.match(error.message, /no server could be reached: https:.*certificate/);
    return true;
  });
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
  const token = () => Promise.reject(new Error("no token today"));
  const client = new Client({ servers: server.address, token, timeout: 300 });
  after(t, () => client.close());
  await assert.rejects(client.lock("a"), /no token today/);
  await assert.rejects(client.get("a"), /no token today/);
});
