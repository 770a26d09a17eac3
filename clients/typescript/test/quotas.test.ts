/** What a client does when its quota on a server is used up, or the server has no room for a stream. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { Code, ConnectError } from "@connectrpc/connect";
import { WatchResponse_Kind } from "../src/gen/fencepost/v1/lock_pb.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { ERROR_DOMAIN } from "../src/facts.js";
import type { Server } from "../src/testing/index.js";
import { duration } from "../src/wire.js";
import { folderOf } from "./support/certificates.js";
import { connect, hold, start, until } from "./support/index.js";
import { Kept } from "./support/logger.js";
import { failed, granted, scripted } from "./support/scripted.js";

/** A server that allows each address so much. */
function limited(t: TestContext, limits: string): Promise<Server> {
  const access = join(folderOf(t), "access.toml");
  writeFileSync(access, `mode = "open"\n[[quota]]\neach_address = true\n${limits}\n`);
  return start(t, { arguments: ["--access", access] });
}

const refused = (reason: string) => ({ name: "Refused", code: "RESOURCE_EXHAUSTED", reason });
const exceeded = refused("QUOTA_EXCEEDED");

/** What refuses a stream. */
function noRoom(reason: string): ConnectError {
  return new ConnectError("no room", Code.ResourceExhausted, undefined, [
    { desc: ErrorInfoSchema, value: { domain: ERROR_DOMAIN, reason } },
    { desc: RetryInfoSchema, value: { retryDelay: duration(100) } },
  ]);
}

void test("an acquire above the rate is repeated on the same server while it waits, and a try is not", async (t) => {
  const rate = "acquires_per_second = 4\nburst = 2";
  const [first, second] = [await limited(t, rate), await limited(t, rate)];
  const logger = new Kept();
  const client = connect(t, [first.address, second.address], { logger });
  let held = 0;
  const fill = async () => {
    for (;;) {
      await hold(t, client.lock(`a/${String(held)}`));
      held += 1;
    }
  };
  await assert.rejects(fill(), exceeded);
  await hold(t, client.lock("a/waits", { wait: 10_000 }));
  assert.equal(await client.lead("b", ({ name }) => name), "b");
  // They share no store, so each server tells what has reached it.
  for (const [server, count] of [[first, held + 1], [second, 0]] as const) {
    const locks = [];
    for await (const { name } of connect(t, server).list("a/")) locks.push(name);
    assert.equal(locks.length, count);
  }
  assert.deepEqual(logger.lines, []);
});

void test("an acquire that is given up while it waits for its repeat is not sent again", async (t) => {
  const attempts: number[] = [];
  const ids = new Set<string | undefined>();
  const server = await scripted(t, {
    acquire: ({ request }) => {
      attempts.push(request?.attempt ?? 0);
      ids.add(request?.requestId);
      return [failed(8, "QUOTA_EXCEEDED", attempts.length < 3 ? 10 : 60_000)];
    },
  });
  const client = connect(t, server);
  const [stop, reason] = [new AbortController(), new Error("enough")];
  const waiting = assert.rejects(client.lock("a", { wait: 600_000, signal: stop.signal }), reason);
  await until("it was refused three times", () => attempts.length === 3);
  stop.abort(reason);
  await waiting;
  await assert.rejects(client.lock("b", { wait: 1000 }), exceeded, "no repeat fits into the wait");
  await client.close();
  assert.deepEqual(attempts, [1, 2, 3, 1], "nor is what was never taken withdrawn");
  assert.equal(ids.size, 2);
});

void test("a session above the quota is opened on the same server once another stream is closed", async (t) => {
  const [server, other] = [await limited(t, "streams = 1"), await start(t)];
  const first = connect(t, server);
  await hold(t, first.lock("a/1"));
  const logger = new Kept();
  const client = connect(t, [server.address, other.address], { logger });
  const waiting = hold(t, client.lock("a/2"));
  const hasty = connect(t, [server.address, other.address], { timeout: 200, logger });
  await assert.rejects(hasty.lock("a/3"), exceeded);
  await assert.rejects(hasty.watch("a/").next(), exceeded);
  const states = client.observe("a/1");
  await first.close();
  await waiting;
  assert.equal((await connect(t, other).get("a/2")).holders.length, 0);
  const state = states.next();
  await client.close();
  await assert.rejects(state, { name: "ClientClosed" });
  assert.deepEqual(logger.lines, []);
});

void test("a session that fell silent makes room for the next one, or goes on", async (t) => {
  const server = await limited(t, "streams = 1");
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a/1", { ttl: 1500 }));
  server.pause();
  await until("a session without answers is left", () => lock.status === "at-risk");
  server.resume();
  await until("it is renewed again", () => lock.status === "held");
  await hold(t, client.lock("a/2"));
  assert.equal((await lock.release()).end, "released");
});

void test("a server without room for a stream is asked again", async (t) => {
  const refusals = { session: 2, watch: 2, observe: 2 };
  const room = (stream: keyof typeof refusals, reason: string) => {
    if ((refusals[stream] -= 1) >= 0) throw noRoom(reason);
  };
  const server = await scripted(t, {
    opens: () => { room("session", "SERVER_FULL"); },
    acquire: () => [granted("a", 7, 60_000)],
    calls: {
      async *watch() {
        room("watch", "WATCHERS_FULL");
        yield* await Promise.resolve([{ kind: WatchResponse_Kind.STARTED }]);
      },
      async *observe({ lockName }) {
        room("observe", "QUOTA_EXCEEDED");
        yield* await Promise.resolve([{ lock: { lockName } }]);
      },
    },
  });
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a", { ttl: 60_000 }));
  assert.equal(lock.token, 7);
  assert.equal((await client.watch().next()).value?.kind, "started");
  assert.equal((await client.observe("a").next()).value?.name, "a");
  assert.deepEqual(refusals, { session: -1, watch: -1, observe: -1 });
  refusals.watch = Infinity;
  await assert.rejects(connect(t, server, { timeout: 50, logger: null }).watch().next(), refused("WATCHERS_FULL"));
});
