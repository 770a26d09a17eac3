/** Descriptions of a held lock: `describe`. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import test from "node:test";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { type Client, LockLost, OutcomeUnknown, Refused } from "../src/index.js";
import {
  DescribeResponse_Outcome as Outcome,
  type DescribeResponseSchema,
  LeaseEnd,
} from "../src/gen/fencepost/v1/lock_pb.js";
import { aborted, connect, hold, start } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

/** What others see of the only holder. */
async function seen(client: Client, name: string): Promise<[string, Record<string, string>, number]> {
  const [holder = assert.fail("nobody holds it")] = (await client.get(name)).holders;
  return [holder.holder, { ...holder.metadata }, holder.description];
}

void test("others see what a holder says of itself", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const events = other.watch("a");
  await events.next();
  const lock = await hold(t, client.lock("a", { holder: "job", metadata: { done: "0 %", host: "b" } }));
  const { token } = lock;
  assert.deepEqual(await seen(other, "a"), ["job", { done: "0 %", host: "b" }, 0]);
  assert.equal(await lock.describe({ done: "50 %" }), 1);
  assert.deepEqual(await seen(other, "a"), ["job", { done: "50 %" }, 1]);
  assert.equal(await lock.describe({}, "job of b"), 2);
  assert.deepEqual([await seen(other, "a"), lock.holder], [["job of b", {}, 2], "job of b"]);
  assert.deepEqual([lock.token, lock.valid()], [token, true]);
  const told: unknown[] = [];
  for await (const { kind, holder, mode } of events) if (told.push([kind, holder, mode]) === 3) break;
  const changed = ["changed", "job", "exclusive"];
  assert.deepEqual(told, [["granted", "job", undefined], changed, ["changed", "job of b", "exclusive"]]);
});

void test("a leader describes itself", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const led = await client.lead("leader", async (lock) => {
    await lock.describe({ address: "10.0.0.7:80" });
    return seen(other, "leader");
  });
  assert.deepEqual(led.slice(1), [{ address: "10.0.0.7:80" }, 1]);
});

void test("descriptions of a lock are sent one after another, and a lost answer is asked for again", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a", { holder: "h" }));
  await server.dropReply();
  await Promise.all(["1", "2", "3"].map((part) => lock.describe({ part })));
  assert.deepEqual(await seen(client, "a"), ["h", { part: "3" }, 3]);
});

void test("each description has a number of its own, which its repeats share", async (t) => {
  const sent: [bigint, Record<string, string>, string | undefined][] = [];
  const answers: (MessageInitShape<typeof DescribeResponseSchema> | undefined)[] = [];
  const server = await scripted(t, {
    acquire: () => [granted("a", 7, 60_000)],
    calls: {
      describe: ({ number, metadata, holder }) => {
        sent.push([number, metadata, holder]);
        const answer = answers.shift();
        if (answer === undefined) throw new ConnectError("no answer", Code.Unavailable);
        return answer;
      },
    },
  });
  const lock = await hold(t, connect(t, server, { timeout: 300, logger: null }).lock("a"));
  answers.push(undefined, { outcome: Outcome.DESCRIBED, number: 1n });
  await lock.describe({ part: "1" });
  assert.deepEqual(sent.splice(0), [[1n, { part: "1" }, undefined], [1n, { part: "1" }, undefined]]);

  await assert.rejects(lock.describe({ part: "2" }, "h"), OutcomeUnknown);
  assert.ok(sent.length > 1);
  for (const each of sent.splice(0)) assert.deepEqual(each, [2n, { part: "2" }, "h"]);
  assert.notEqual(lock.holder, "h");

  answers.push({ outcome: Outcome.OUTDATED, number: 7n }, { outcome: Outcome.DESCRIBED, number: 8n });
  await assert.rejects(lock.describe({}), { name: "Refused", code: "ABORTED", reason: "OUTDATED" });
  await lock.describe({});
  assert.deepEqual(sent.splice(0), [[3n, {}, undefined], [8n, {}, undefined]]);

  answers.push({ outcome: Outcome.LOST, end: LeaseEnd.EXPIRED, successorToken: 8n });
  await assert.rejects(lock.describe({}), { name: "LockLost", reason: "expired", successorToken: 8, isOwn: false });
  assert.equal(lock.status, "lost");
  await assert.rejects(lock.describe({}), LockLost);
  assert.equal(sent.length, 1, "a lock that is lost is not described");
});

void test("a process that gets the lease of another one goes on from its last description", async (t) => {
  const server = await start(t);
  const requestId = randomUUID();
  const before = await hold(t, connect(t, server, { logger: null }).lock("a", { requestId, holder: "h" }));
  await before.describe({ by: "before" });
  await before.describe({ by: "before" });
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a", { requestId, holder: "h" }));
  assert.equal(lock.token, before.token);
  for (const number of [3, 4]) {
    await lock.describe({ by: "after" });
    assert.deepEqual(await seen(client, "a"), ["h", { by: "after" }, number]);
  }
});

void test("what a description is refused for", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { logger: null });
  const lock = await hold(t, client.lock("a"));
  await assert.rejects(lock.describe({ long: "x".repeat(5000) }), (error: unknown) => {
    assert.ok(error instanceof Refused && error.code === "INVALID_ARGUMENT");
    assert.deepEqual(error.violations.map(({ field }) => field), ["metadata"]);
    return true;
  });
  const message = 'metadata["job"] must be a string, not 7';
  await assert.rejects(lock.describe({ job: 7 as unknown as string }), { name: "TypeError", message });
  await assert.rejects(lock.describe({}, 7 as unknown as string), { message: "holder must be a string, not 7" });
  await lock.describe({ job: "7" });
  const { signal } = lock;
  await server.lose("a");
  await aborted(signal);
  await assert.rejects(lock.describe({}), { name: "LockLost", reason: "revoked" });
});
