import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import test, { type TestContext } from "node:test";
import type { Client, Lock } from "../src/index.js";
import { aborted, connect, start, until } from "./support/index.js";
import { Kept } from "./support/logger.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

async function logged(t: TestContext) {
  const server = await start(t);
  const logger = new Kept();
  return { client: connect(t, server, { logger }), observer: connect(t, server), logger };
}

/** Collects garbage until a lock is free. */
async function freed(observer: Client, name: string): Promise<void> {
  await until(`${name} is free`, async () => {
    collect();
    return (await observer.get(name)).holders.length === 0;
  });
}

/** Collects garbage for longer than `freed` has ever needed. */
async function collected(): Promise<void> {
  for (let n = 0; n < 50; n += 1) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A function of its own, so that no variable of a test refers to the lock. */
async function raced(client: Client, held: Lock): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, 100, "late")));
  assert.equal(await Promise.race([client.lock("a", { ttl: 60_000, wait: 60_000 }), late]), "late");
  clearTimeout(timer);
  await held.release();
}

void test("a lock that is granted after Promise.race gave up its wait is released, with a warning", async (t) => {
  const { client, observer, logger } = await logged(t);
  await raced(client, await observer.lock("a"));
  let token = 0;
  await until("it is granted to nobody", async () => {
    token = (await observer.get("a")).holders[0]?.token ?? 0;
    return token > 0;
  });
  await freed(observer, "a");
  assert.deepEqual(logger.of("warn"), [`a (token ${String(token)}) was forgotten without a release, and is released`]);
  assert.deepEqual(logger.fields.at(-1), { lock: "a", token });
  assert.equal((await observer.lock("a")).previousEnd, "released");
});

void test("a lock is kept by itself, its signal, what is derived from that, and the body of using", async (t) => {
  const { client, observer, logger } = await logged(t);
  const lock = await client.lock("itself", { ttl: 60_000 });
  const signal = await (async () => (await client.lock("signal", { ttl: 60_000 })).signal)();
  const wanted = await (async () => (await client.lock("wanted", { ttl: 60_000 })).wanted)();
  let told = 0;
  await (async () => {
    (await client.lock("listener", { ttl: 60_000 })).signal.addEventListener("abort", () => (told += 1));
  })();
  const derived = await (async () => AbortSignal.any([(await client.lock("derived", { ttl: 60_000 })).signal]))();
  // Nothing but the client refers to what the body waits for.
  void client.using("body", { ttl: 60_000 }, () => new Promise(() => undefined));
  await until("the body runs", async () => (await observer.get("body")).holders.length === 1);
  await collected();
  for (const name of ["itself", "signal", "wanted", "listener", "derived", "body"]) {
    assert.equal((await observer.get(name)).holders.length, 1, name);
  }
  assert.deepEqual(logger.lines, []);
  assert.ok(lock.valid() && !wanted.aborted);
  await client.close();
  assert.ok((await aborted(signal)) instanceof Error && derived.aborted && told === 1);
});

void test("a lock that was released or lost is not forgotten", async (t) => {
  const { client, observer, logger } = await logged(t);
  await (async () => {
    await using lock = await client.lock("a");
    assert.ok(lock.valid());
    await client.using("b", (it) => it.token);
    void (await client.lock("c")).release();
  })();
  await freed(observer, "c");
  await collected();
  assert.deepEqual(logger.lines, []);
});
