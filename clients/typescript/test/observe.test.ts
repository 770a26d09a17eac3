/** Observers of a lock: `observe`. */
import assert from "node:assert/strict";
import test from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { ClientClosed, type LockInfo } from "../src/index.js";
import { connect, hold, start, until } from "./support/index.js";
import { Proxy } from "./support/proxy.js";
import { scripted } from "./support/scripted.js";

/** The next state: the token of the holder, its mode and what it says of itself. */
async function next(states: AsyncGenerator<LockInfo, void, void>): Promise<unknown[]> {
  const { name, holders } = (await states.next()).value ?? assert.fail("it has ended");
  assert.equal(name, "a");
  return holders.flatMap(({ token, shared, metadata }) => [token, shared, metadata["at"]]);
}

void test("an observer sees the state of a lock, and each one after it", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const states = other.observe("a");
  assert.deepEqual(await next(states), []);
  const lock = await hold(t, client.lock("a"));
  const { token } = lock;
  assert.deepEqual(await next(states), [token, false, undefined]);
  // A lock whose name begins with that of the other is another one.
  await hold(t, client.lock("a/b"));
  await lock.describe({ at: "10.0.0.7" });
  assert.deepEqual(await next(states), [token, false, "10.0.0.7"]);
  await lock.downgrade();
  assert.deepEqual(await next(states), [token, true, "10.0.0.7"]);
  await lock.release();
  assert.deepEqual(await next(states), []);
  const late = other.observe("a");
  assert.deepEqual(await next(late), []);
});

void test("an observer sees the state again after an interruption", async (t) => {
  const server = await start(t);
  const proxy = await Proxy.start(t, server.address);
  const lock = await hold(t, connect(t, server).lock("a"));
  const states = connect(t, proxy.address, { logger: null }).observe("a");
  assert.deepEqual(await next(states), [lock.token, false, undefined]);
  const again = next(states);
  proxy.cut();
  assert.deepEqual(await again, [lock.token, false, undefined]);
  await lock.describe({ at: "b" });
  assert.deepEqual(await next(states), [lock.token, false, "b"]);
});

void test("an observer outlasts any time without a state, until a server refuses it", async (t) => {
  let tries = 0;
  const server = await scripted(t, {
    acquire: () => [],
    calls: {
      async *observe({ lockName }) {
        tries += 1;
        if (tries === 5) throw new ConnectError("too many", Code.ResourceExhausted);
        if (tries !== 4) throw new ConnectError("the state cannot be read", Code.Unavailable);
        yield* await Promise.resolve([{ lock: { lockName } }]);
      },
    },
  });
  const began = performance.now();
  const states = connect(t, server, { timeout: 50, logger: null }).observe("a");
  assert.deepEqual(await next(states), []);
  assert.ok(performance.now() - began > 50, "longer than a call is repeated");
  await assert.rejects(states.next(), { name: "Refused", code: "RESOURCE_EXHAUSTED" });
  assert.deepEqual([tries, (await states.next()).done], [5, true]);
});

void test("an observer ends when its caller ends it", async (t) => {
  let open = 0;
  const server = await scripted(t, {
    acquire: () => [],
    calls: {
      async *observe({ lockName }, { signal }) {
        open += 1;
        signal.addEventListener("abort", () => (open -= 1));
        yield { lock: { lockName } };
        await new Promise((resolve) => {
          signal.addEventListener("abort", resolve);
        });
      },
    },
  });
  const client = connect(t, server, { logger: null });
  for await (const { holders } of client.observe("a")) {
    assert.deepEqual([holders, open], [[], 1]);
    break;
  }
  await until("the stream has ended", () => open === 0);

  const [stop, reason] = [new AbortController(), new Error("enough")];
  const states = client.observe("a", { signal: stop.signal });
  assert.deepEqual(await next(states), []);
  const given = assert.rejects(states.next(), reason);
  stop.abort(reason);
  await given;
  await until("the stream has ended", () => open === 0);

  const others = client.observe("a");
  assert.deepEqual(await next(others), []);
  const closed = assert.rejects(others.next(), ClientClosed);
  await client.close();
  await closed;
});
