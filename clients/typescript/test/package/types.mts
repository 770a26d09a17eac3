import { Client, type LeadOptions, type Lock, type LockDelay, type LockInSet } from "@fencepost/client";
import { LockLost, LockWanted, type LossReason, type Mode } from "@fencepost/client";
import { type Fenced, fenceName, redis, type sqlite, StaleToken } from "@fencepost/client/guards";
import { FakeLock, type FakeLockOptions, Server, type ServerOptions } from "@fencepost/client/testing";

const client: Client = new Client({ servers: ["a", "b:1"], token: () => Promise.resolve("t"), tls: { caFile: "ca" } });
export const byFile: Client = new Client({ servers: "a", credentials: "token" });
const value: number = await client.using("a", { ttl: 1000, wait: 1 }, async (lock: Lock, signal: AbortSignal) => {
  signal.throwIfAborted();
  return Promise.resolve(lock.token);
});
const text: string = await client.using("a", () => `${value}`);
const leadOptions: LeadOptions = { ttl: 1000, maxHold: 60_000, minHold: 1000, lockDelay: 1000, holder: "me" };
const led: number = await client.lead("a", leadOptions, (leader: Lock, signal: AbortSignal) => {
  signal.throwIfAborted();
  return leader.token;
});
const ledText: Promise<string> = client.lead("a", async () => `${led}`);
// @ts-expect-error A campaign waits as long as it takes.
await client.lead("a", { wait: 1000 }, () => ledText);
await using lock = await client.lock(text, { metadata: { a: "b" }, onAtRisk: (it) => it.remaining() });
const free: Lock | null = await client.tryLock("a", { minHold: 1000, lockDelay: 1000 });
const reader: Lock = await client.lock("a", { shared: true });
console.log(reader.token, (await client.get("a")).holderCount);
if (await reader.tryUpgrade()) await reader.downgrade();
const mode: Mode = reader.mode;
console.log(mode);
const permit: Lock = await client.lock("a", { semaphore: 5, permits: 1, permitLimitVersion: 1n });
const slot: number | undefined = permit.slot;
console.log(slot, permit.permits, (await client.get("a")).holders[0]?.slot, fenceName(permit));
// @ts-expect-error An election has one leader at a time.
await client.lead("a", { shared: true }, () => 7);
// @ts-expect-error An election has one leader at a time.
await client.lead("a", { semaphore: 2 }, () => 7);
const item: LockInSet = { name: "a", shared: true };
console.log((await client.lockAll(["b", item])).get("a").mode);
// @ts-expect-error Each lock of a set has a mode of its own.
await client.lockAll(["a"], { shared: true });
const delay: LockDelay | undefined = (await client.get("a")).delay;
console.log(delay?.remaining, delay?.holder, delay?.token);
if (lock.signal.reason instanceof LockLost) {
  const reason: LossReason = lock.signal.reason.reason;
  console.log(reason, free?.token);
}
for await (const { name, holders } of client.list("a")) console.log(name, holders[0]?.token, holders[0]?.shared);
for await (const { kind } of client.watch("a")) if (kind === "missed") break;
const options: ServerOptions = { arguments: ["--ttl-min", "50ms"] };
await using server = await Server.start(options);
await server.lose(server.address);
await server.dropReply();
const fakeOptions: FakeLockOptions = { token: 7, previousEnd: "expired" };
const fake = new FakeLock("a", fakeOptions);
const held: Lock = fake;
if (held.status === "at-risk" || fake.isReleased) fake.lose("silence", 8);
await using wanted = await client.lock("a", { owner: "job", maxWaiters: 1, tellWhenWanted: true, wait: 1 });
await wanted.describe({ at: "b" }, "me");
if (wanted.isWanted && wanted.wanted.reason instanceof LockWanted) console.log(wanted.wanted.reason.mode);
for await (const { waitingFor, skipped } of client.waiters("a")) console.log(waitingFor, skipped);
for await (const { holders, semaphore } of client.observe("a")) {
  console.log(holders[0]?.identity, semaphore?.permitsUsed);
}
fake.want();
// @ts-expect-error Durations are numbers of milliseconds.
await client.lock(server.address, { ttl: "10s" });
const fenced: Fenced = [lock, fake][0] ?? fake;
declare const client2: redis.IoRedis;
declare const database: sqlite.Database;
await redis.write(client2, fenced, { fence: "a", script: "return 1", arguments: [1, "b"] });
console.log(database.inTransaction, new StaleToken("a", 1, 2).newest);
