/** What a caller sees beside locks: arguments that are wrong, stacks, texts, the version, defaults. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { inspect } from "node:util";
import test from "node:test";
import { type AcquireOptions, Client, type ClientOptions, FencepostError, VERSION } from "../src/index.js";
import { aborted, connect, findUp, start } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

void test("an argument that is wrong is named, with its rule and its value", async () => {
  const client = new Client({ servers: "127.0.0.1:1" });
  const acquire = (options: unknown, name: unknown) => client.lock(name as string, options as AcquireOptions);
  for (const [wrong, name, message] of [
    [() => acquire({}, undefined), "TypeError", "name must be a string, not undefined"],
    [() => acquire({}, "\ud800"), "TypeError", "name must not have a lone surrogate: it is no valid Unicode"],
    [() => acquire(null, "a"), "TypeError", "options must be an object, not null"],
    [() => acquire({ wait: null }, "a"), "TypeError", /^wait must be a finite number of .*, 0 or more, not null$/],
    [() => acquire({ wait: "5s" }, "a"), "TypeError", /^wait must be a finite .*, 0 or more, not '5s'$/],
    [() => acquire({ wait: -1 }, "a"), "RangeError", "wait must be a finite number of milliseconds, 0 or more, not -1"],
    [() => acquire({ wait: Infinity }, "a"), "RangeError", /^wait must be a finite number .* not Infinity$/],
    [() => acquire({ ttl: 0 }, "a"), "RangeError", "ttl must be a finite number of milliseconds, above 0, not 0"],
    [() => acquire({ ttl: null }, "a"), "TypeError", "ttl must be a finite number of milliseconds, above 0, not null"],
    [() => acquire({ minHold: -1 }, "a"), "RangeError", /^minHold must be a finite number of .*, 0 or more, not -1$/],
    [() => acquire({ lockDelay: "5s" }, "a"), "TypeError", /^lockDelay must be a finite .*, 0 or more, not '5s'$/],
    [() => acquire({ shared: "no" }, "a"), "TypeError", "shared must be a boolean, not 'no'"],
    [() => acquire({ semaphore: 0 }, "a"), "RangeError", "semaphore must be a whole number from 1 to 1000000, not 0"],
    [() => acquire({ semaphore: "5" }, "a"), "TypeError", /^semaphore must be a whole number .*, not '5'$/],
    [() => acquire({ semaphore: 2, permits: 3 }, "a"), "RangeError", /^permits must be .* from 1 to 2, not 3$/],
    [() => acquire({ semaphore: 2, permitLimitVersion: -1 }, "a"), "RangeError", /^permitLimitVersion .*, not -1$/],
    [() => acquire({ semaphore: 2, permitLimitVersion: -1n }, "a"), "RangeError", /^permitLimitVersion .*, not -1n$/],
    [() => acquire({ semaphore: 2, permitLimitVersion: 2n ** 64n }, "a"), "RangeError", /below 2\^64, not 18\d+n$/],
    [() => acquire({ semaphore: 2, shared: true }, "a"), "TypeError", /^a lock is either shared or a /],
    [() => acquire({ permits: 1 }, "a"), "TypeError", /^permits and permitLimitVersion are those of a semaphore: /],
    [() => acquire({ permitLimitVersion: 1n }, "a"), "TypeError", /^permits and permitLimitVersion are those of a /],
    [() => acquire({ minToken: 1.5 }, "a"), "RangeError", /^minToken must be a whole number from 0 to \d+, not 1.5$/],
    [() => acquire({ holder: 7 }, "a"), "TypeError", "holder must be a string, not 7"],
    [() => acquire({ metadata: null }, "a"), "TypeError", "metadata must be an object, not null"],
    [() => acquire({ metadata: { job: 7 } }, "a"), "TypeError", 'metadata["job"] must be a string, not 7'],
    [() => acquire({ owner: 7 }, "a"), "TypeError", "owner must be a string, not 7"],
    [() => acquire({ maxWaiters: -1 }, "a"), "RangeError", /^maxWaiters must be a whole number from 0 to .*, not -1$/],
    [() => acquire({ tellWhenWanted: "a" }, "a"), "TypeError", "tellWhenWanted must be a boolean, not 'a'"],
    [() => acquire({ signal: {} }, "a"), "TypeError", "signal must be an AbortSignal, not {}"],
    [() => acquire({ onAtRisk: 7 }, "a"), "TypeError", "onAtRisk must be a function, not 7"],
    [() => acquire({ requestId: ["secret"] }, "a"), "TypeError", "requestId must be a string, not object"],
    [() => client.using("a", undefined as never), "TypeError", "body must be a function, not undefined"],
    [() => client.lead("a", undefined as never), "TypeError", "body must be a function, not undefined"],
    [() => client.lead("a", null as never, () => 7), "TypeError", "options must be an object, not null"],
    [() => client.lead("a", { signal: 7 as never }, () => 7), "TypeError", "signal must be an AbortSignal, not 7"],
    [() => client.lead("a", { minHold: -1 }, () => 7), "RangeError", /^minHold must be a finite number .*, not -1$/],
    [() => client.get(undefined as never), "TypeError", "name must be a string, not undefined"],
    [() => client.get("a", { signal: 7 as never }), "TypeError", "signal must be an AbortSignal, not 7"],
    [() => client.list(7 as never).next(), "TypeError", "prefix must be a string, not 7"],
    [() => client.waiters(7 as never).next(), "TypeError", "name must be a string, not 7"],
    [() => client.observe(7 as never).next(), "TypeError", "name must be a string, not 7"],
    [() => client.checkToken("a", 0), "RangeError", "token must be a whole number from 1 to 9007199254740991, not 0"],
  ] as const) {
    await assert.rejects(async () => { await wrong(); }, { name, message });
  }
  for (const [options, message] of [
    [null, "options must be an object, not null"],
    [{ servers: 7 }, "servers must be a string or a list of strings, not 7"],
    [{ timeout: "1s" }, "timeout must be a finite number of milliseconds above 0, not '1s'"],
    [{ holder: 7 }, "holder must be a string, not 7"],
    [{ tls: "ca.pem" }, "tls must be an object, not 'ca.pem'"],
  ] as const) {
    assert.throws(() => new Client(options as unknown as ClientOptions), { name: "TypeError", message });
  }
});

/** Runs a function of this file, and returns the stack of its error. */
async function stackOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof FencepostError, String(error));
    return error.stack ?? "";
  }
  return assert.fail("it did not fail");
}

void test("the stack of an error has the line of its caller", async (t) => {
  const server = await start(t);
  const client = connect(t, server.address, { timeout: 500, logger: null });
  const nowhere = connect(t, "127.0.0.1:1", { timeout: 100 });
  const closed = new Client({ servers: server.address });
  await closed.close();
  const held = await client.lock("held");
  const lost = await client.lock("lost");
  const { signal } = lost;
  await server.lose("lost");
  await aborted(signal);
  // Each is a function with a name, which the stack has to have.
  const calls: Record<string, () => Promise<unknown>> = {
    async contendedByCaller() { await client.lock("held"); },
    async timedOutByCaller() { await client.lock("held", { wait: 50 }); },
    async closedByCaller() { await closed.lock("a"); },
    async unavailableByCaller() { await nowhere.lock("a"); },
    async triedByCaller() { await nowhere.tryLock("a"); },
    async usedByCaller() { await client.using("held", () => undefined); },
    async ledByCaller() { await client.lead("", () => undefined); },
    async readByCaller() { await nowhere.get("a"); },
    async checkedByCaller() { await nowhere.checkToken("a", 7); },
    async listedByCaller() { for await (const _ of nowhere.list()) break; },
    async watchedByCaller() { for await (const _ of nowhere.watch()) break; },
    async observedByCaller() { for await (const _ of closed.observe("a")) break; },
    async queuedByCaller() { for await (const _ of nowhere.waiters("a")) break; },
    async convertedByCaller() { await lost.downgrade(); },
    async describedByCaller() { await lost.describe({}); },
    async awaitedByCaller() { await Promise.all([client.lock("held")]); },
    async disposedByCaller() { await lost[Symbol.asyncDispose](); },
    // eslint-disable-next-line @typescript-eslint/require-await -- it throws
    async lostByCaller() { lost.throwIfLost(); },
    async lostInsideByCaller() {
      await client.using("mine", async (lock) => {
        const { signal } = lock;
        await server.lose("mine");
        await aborted(signal);
      });
    },
  };
  for (const [name, call] of Object.entries(calls)) {
    const stack = await stackOf(call);
    assert.match(stack, new RegExp(`at (async )?.*${name}.*surface\\.test`), stack);
    assert.match(stack.split("\n")[0] ?? "", /^(Contended|TimedOut|ClientClosed|Unavailable|LockLost|Refused): ./);
  }
  server.pause();
  const releasedByCaller = async () => { await held.release(); };
  assert.match(await stackOf(releasedByCaller), /^OutcomeUnknown: .*at (async )?releasedByCaller.*surface\.test/s);
});

void test("locks and clients can be printed, without what is secret", async (t) => {
  const server = await scripted(t, { acquire: () => [granted("orders/42", 7, 60_000)] });
  const client = connect(t, server, { holder: "me", token: "hush" });
  const lock = await client.lock("orders/42");
  assert.equal(String(lock), "orders/42 (token 7, held)");
  assert.equal(inspect({ lock }), "{ lock: Lock orders/42 (token 7, held) }");
  assert.equal(String(client), `Client of ${server} (holder me, 1 lock)`);
  assert.equal(inspect(client, { depth: 10, showHidden: true }), String(client));
  await lock.release();
  assert.equal(String(lock), "orders/42 (token 7, released)");
  await client.close();
  assert.equal(String(client), `Client of ${server} (holder me, closed)`);
  for (const text of [inspect(lock, { depth: 10, showHidden: true }), JSON.stringify([lock, client])]) {
    assert.doesNotMatch(text, /lease 7|hush/);
  }
});

void test("the version is that of the package", () => {
  const file = findUp("clients/typescript/package.json") ?? assert.fail();
  const { version } = JSON.parse(readFileSync(file, "utf8")) as { version: string };
  assert.equal(VERSION, version);
});

void test("defaults are within the bounds of a server, whatever they are", async (t) => {
  const server = await start(t, { arguments: ["--ttl-max", "10s", "--wait-max", "1s"] });
  const client = connect(t, server);
  const lock = await client.lock("a");
  assert.equal(lock.ttl, 10_000);
  assert.ok(lock.remaining() < 10_000);
  assert.equal(await client.tryLock("a"), null);
  await lock.release();
  assert.equal(await client.using("a", (held) => held.ttl), 10_000);
  assert.equal((await connect(t, await start(t)).lock("a")).ttl, 30_000);
});

void test("without a ttl none is sent", async (t) => {
  const sent: unknown[] = [];
  const server = await scripted(t, {
    acquire({ request }) {
      sent.push(request?.ttl, request?.waitTimeout);
      return [granted("a", 1, 12_000)];
    },
  });
  const lock = await connect(t, server).lock("a");
  assert.deepEqual([lock.ttl, sent], [12_000, [undefined, undefined]]);
});
