/** The file of a bearer token: `credentials` and `FENCEPOST_CREDENTIALS`. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import test, { type TestContext } from "node:test";
import { ENVIRONMENT_CREDENTIALS } from "../src/facts.js";
import { Client, type ClientOptions } from "../src/index.js";
import { folderOf } from "./support/certificates.js";
import { connect, hold, PATIENCE_MS, start, until } from "./support/index.js";
import { Kept } from "./support/logger.js";

/** A folder, in which a file is replaced as one step. */
function filesOf(t: TestContext): (name: string, text: string) => string {
  const folder = folderOf(t);
  return (name, text) => {
    writeFileSync(join(folder, "new"), text);
    renameSync(join(folder, "new"), join(folder, name));
    return join(folder, name);
  };
}

/** A server that knows `app` by these secrets, each with its end if it has one. */
async function guarded(t: TestContext, secrets: Record<string, Date | undefined>): Promise<string> {
  const tokens = Object.entries(secrets).map(([secret, expires]) => {
    const sha256 = createHash("sha256").update(secret).digest("hex");
    const end = expires === undefined ? "" : `expires = ${expires.toISOString()}\n`;
    return `[[token]]\nname = "app"\nsha256 = "${sha256}"\n${end}`;
  });
  const rule = '[[rule]]\nwho = ["app"]\nmay = ["acquire", "read"]\nlocks = [""]\n';
  const access = filesOf(t)("access.toml", ['mode = "enforce"\n', ...tokens, rule].join("\n"));
  return (await start(t, { arguments: ["--access", access] })).address;
}

const refused = (reason?: string) => ({ name: "Refused", code: "UNAUTHENTICATED", reason });

void test("the token of a file that is replaced is sent with the next call", async (t) => {
  const server = await guarded(t, { "secret-1": undefined, "secret-2": undefined });
  const replace = filesOf(t);
  const client = connect(t, server, { credentials: replace("token", "secret-0"), logger: null });
  await assert.rejects(client.lock("a"), refused("CREDENTIALS_INVALID"));
  await assert.rejects(client.get("a"), refused("CREDENTIALS_INVALID"));
  replace("token", "secret-1\n");
  const lock = await hold(t, client.lock("a"));
  assert.equal((await client.get("a")).holders[0]?.identity, "app");
  await lock.describe({ at: "b" });
  replace("token", "secret-0");
  await assert.rejects(client.get("a"), refused("CREDENTIALS_INVALID"));
  replace("token", "secret-2");
  assert.deepEqual((await client.get("a")).holders[0]?.metadata, { at: "b" });
});

void test("the environment names the file, unless there is a token", async (t) => {
  const server = await guarded(t, { secret: undefined });
  t.after(() => Reflect.deleteProperty(process.env, ENVIRONMENT_CREDENTIALS));
  process.env[ENVIRONMENT_CREDENTIALS] = filesOf(t)("token", "secret");
  assert.equal((await connect(t, server).get("a")).waiters, 0);
  await assert.rejects(connect(t, server, { token: "other" }).get("a"), refused("CREDENTIALS_INVALID"));
  const message = /^the token would be sent to 10\.0\.0\.7:7420 in plain text: /;
  assert.throws(() => new Client({ servers: "10.0.0.7" }), { name: "TypeError", message });
  process.env[ENVIRONMENT_CREDENTIALS] = "";
  await assert.rejects(connect(t, server).get("a"), refused("CREDENTIALS_MISSING"));
});

void test("no lock is lost when the token of its stream expires, and another one is there", async (t) => {
  const server = await guarded(t, { short: new Date(Date.now() + 1000), long: undefined });
  const replace = filesOf(t);
  const logger = new Kept();
  const client = connect(t, server, { credentials: replace("token", "short"), logger });
  const lock = await hold(t, client.lock("a", { ttl: 6000 }));
  const waiting = client.lock("a", { wait: PATIENCE_MS });
  await until("it waits", async () => (await client.get("a")).waiters === 1);
  replace("token", "long");
  await until("the stream ends", () => logger.of("info").some((line) => line.includes("expired")));
  await until("the lock is renewed on another stream", () => lock.remaining() > 5500);
  assert.equal((await lock.release()).end, "released");
  assert.ok((await waiting).token > lock.token);
});

void test("a file without a token is named, and what it has is not shown", async (t) => {
  const server = await start(t);
  const replace = filesOf(t);
  const file = replace("token", "");
  const client = connect(t, server, { credentials: file });
  const why = async () => {
    const error: unknown = await client.get("a").catch((reason: unknown) => reason);
    assert.doesNotMatch(inspect(error, { depth: 10 }), /hush/);
    assert.ok(error instanceof Error && error.name === "Refused");
    return error.message.replace(file, "FILE");
  };
  assert.equal(await why(), "no bearer token: credentials names FILE: it is empty");
  replace("token", " \n");
  assert.equal(await why(), "no bearer token: credentials names FILE: it is empty");
  replace("token", "hush\nhush");
  assert.equal(await why(), "no bearer token: the token has a line end inside");
  replace("token", "hush".repeat(5000));
  assert.equal(await why(), "no bearer token: credentials names FILE: it has 20000 bytes, the maximum is 16384");
  replace("token", "hush");
  assert.equal((await client.get("a")).waiters, 0);
  const none = connect(t, server, { credentials: `${file}.none` });
  await assert.rejects(none.lock("a"), { message: /^no bearer token: credentials names .*\.none: ENOENT/ });
});

void test("options of credentials that are wrong", () => {
  for (const [options, message] of [
    [{ credentials: 7 }, "credentials must be a string, not 7"],
    [{ credentials: "file", token: "secret" }, "give either token or credentials, not both"],
    [{ credentials: "file", servers: "10.0.0.7" }, /^the token would be sent to .* in plain text: use https/],
  ] as const) {
    assert.throws(() => new Client(options as unknown as ClientOptions), { name: "TypeError", message });
  }
});
