/** What the servers tell about locks, as the client shows it. */
import assert from "node:assert/strict";
import test from "node:test";
import type { LockHolder } from "../src/index.js";
import { LockMode, WatchResponse_Kind as Kind } from "../src/gen/fencepost/v1/lock_pb.js";
import { connect, hold, start } from "./support/index.js";
import { granted, scripted } from "./support/scripted.js";

void test("a holder has an owner, an identity and the number of its description", async (t) => {
  const told = { holder: "h", owner: "o", identity: "i", description: 7n, mode: LockMode.EXCLUSIVE };
  const lock = { lockName: "a", holders: [told, { ...told, identity: "" }] };
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 60_000)],
    calls: { get: () => ({ lock }) },
  });
  const seen = ({ holder, owner, identity, description }: LockHolder) => [holder, owner, identity, description];
  const { holders } = await connect(t, server).get("a");
  assert.deepEqual(holders.map(seen), [["h", "o", "i", 7], ["h", "o", "", 7]]);
});

void test("an event has the identity of the holder, and the mode that it has now", async (t) => {
  const event = { lockName: "a", holder: "h", identity: "i", fencingToken: 7n };
  const server = await scripted(t, {
    acquire: () => [],
    calls: {
      async *watch() {
        yield* await Promise.resolve([
          { kind: Kind.GRANTED, ...event },
          { kind: Kind.CHANGED, ...event, mode: LockMode.SHARED },
        ]);
      },
    },
  });
  const events = connect(t, server).watch("a");
  const seen: unknown[] = [];
  for await (const { kind, identity, mode } of events) if (seen.push([kind, identity, mode]) === 2) break;
  assert.deepEqual(seen, [["granted", "i", undefined], ["changed", "i", "shared"]]);
});

void test("a watch tells of a conversion", async (t) => {
  const server = await start(t);
  const events = connect(t, server).watch("a");
  await events.next();
  const lock = await hold(t, connect(t, server).lock("a"));
  await lock.downgrade();
  await lock.tryUpgrade();
  const seen: unknown[] = [];
  for await (const { kind, mode, token } of events) if (seen.push([kind, mode, token]) === 3) break;
  const [first = assert.fail()] = seen.map((each) => (each as unknown[])[2]);
  const expected = [["granted", undefined, first], ["changed", "shared", first], ["changed", "exclusive", lock.token]];
  assert.deepEqual(seen, expected);
});
