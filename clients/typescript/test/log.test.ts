import assert from "node:assert/strict";
import { inspect } from "node:util";
import test from "node:test";
import { Client, type Logger } from "../src/index.js";
import { aborted, connect, hold, start, until } from "./support/index.js";
import { Kept } from "./support/logger.js";
import { Proxy } from "./support/proxy.js";
import { redis } from "./support/redis.js";
import { granted, scripted } from "./support/scripted.js";

void test("renewals that fail and work again are told once each", async (t) => {
  const store = await redis(t);
  const logger = new Kept();
  const client = connect(t, await start(t, { arguments: ["--store", store.url] }), { logger });
  const lock = await client.lock("a", { ttl: 9000 });
  store.pause();
  await until("it is at risk", () => lock.status === "at-risk");
  store.resume();
  await until("it is held again", () => lock.status === "held");
  const [risk, ...more] = logger.of("warn");
  const expected = /^renewals of a fail, it is valid for another \d\.\d s: the store of the server cannot be reached$/;
  assert.match(risk ?? "", expected);
  assert.deepEqual([more, logger.of("info").filter((line) => line.includes("renewed"))], [[], ["a is renewed again"]]);
});

void test("a lock that is lost is told, one that is released is not", async (t) => {
  const server = await start(t);
  const logger = new Kept();
  const client = connect(t, server.address, { logger });
  const [lost, released] = [await client.lock("a"), await client.lock("b")];
  const { signal, token } = lost;
  await released.release();
  await server.lose("a");
  await aborted(signal);
  assert.deepEqual(logger.lines, [`warn a (token ${String(token)}) is lost: the lease was revoked`]);
  assert.deepEqual(logger.fields, [{ lock: "a", token }]);
});

void test("a server that fails is told once, however often it is tried", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const logger = new Kept();
  const client = connect(t, ["127.0.0.1:1", proxy.address], { logger, timeout: 2000 });
  await hold(t, client.lock("a"));
  const [name, other] = ["127.0.0.1:1", proxy.address];
  assert.deepEqual(logger.lines, [`info server ${name} failed (connection refused), trying ${other}`]);
  assert.deepEqual(logger.fields, [{ server: name, cause: "connection refused" }]);
  proxy.refuse();
  await assert.rejects(client.lock("b"));
  const lines = logger.of("info");
  assert.equal(lines.length, 2, lines.join("\n"));
  assert.match(lines[1] ?? "", new RegExp(`^server ${other} failed \\(.+\\), trying ${name}$`));
});

void test("a release that is given up in the background is told, and no lease id is in the log", async (t) => {
  const server = await scripted(t, { acquire: () => [granted("a", 7, 1500)], attach: () => ["end"] });
  const proxy = await Proxy.start(t, server);
  const logger = new Kept();
  const client = connect(t, proxy.address, { logger, timeout: 500 });
  const lock = await client.lock("a", { ttl: 1500 });
  proxy.refuse();
  await assert.rejects(lock.release());
  await until("it is given up", () => logger.of("warn").length > 0);
  const [line = ""] = logger.of("warn");
  assert.match(line, /^a could not be released in the background: .+; it is free after its TTL$/);
  assert.doesNotMatch(inspect([logger.lines, logger.fields]), /lease 7/);
});

void test("a logger that throws or rejects costs no lock", async (t) => {
  const server = await start(t);
  const fail = () => {
    throw new Error("of the logger");
  };
  const reject = () => Promise.reject(new Error("of the logger"));
  for (const log of [fail, reject]) {
    const logger: Logger = { debug: log, info: log, warn: log, error: log };
    const client = connect(t, ["127.0.0.1:1", server.address], { logger });
    const lock = await client.lock("a");
    await server.lose("a");
    await aborted(lock.signal);
    await (await client.lock("a")).release();
  }
});

void test("by default warnings go to the console, and nothing does if the logger is null", async (t) => {
  const server = await start(t);
  const seen: unknown[] = [];
  const { warn, info } = console;
  t.after(() => Object.assign(console, { warn, info }));
  const keep = (...line: unknown[]) => seen.push(line);
  Object.assign(console, { warn: keep, info: keep });
  for (const logger of [undefined, null]) {
    const client = connect(t, ["127.0.0.1:1", server.address], logger === null ? { logger } : {});
    const { signal, token } = await client.lock("a");
    await server.lose("a");
    await aborted(signal);
    const line = [`a (token ${String(token)}) is lost: the lease was revoked`, { lock: "a", token }];
    assert.deepEqual(seen.splice(0), logger === null ? [] : [line]);
  }
});

void test("what is no logger is refused", () => {
  const message = "logger must have the functions debug, info, warn and error, or be null";
  const logger = { warn: () => undefined } as unknown as Logger;
  assert.throws(() => new Client({ logger }), { name: "TypeError", message });
  assert.ok(new Client({ logger: console }));
});
