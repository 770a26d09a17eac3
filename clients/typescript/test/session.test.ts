import assert from "node:assert/strict";
import test from "node:test";
import { Code } from "@connectrpc/connect";
import {
  Detached_Reason as Reason,
  LeaseEnd,
  RenewResponse_Outcome as Renewal,
} from "../src/gen/fencepost/v1/lock_pb.js";
import { LockLost, OutcomeUnknown, Unavailable } from "../src/index.js";
import { duration } from "../src/wire.js";
import { connect, until } from "./support/index.js";
import { failed, granted, type Response, scripted } from "./support/scripted.js";

function elsewhere(handle: number): Response {
  return { message: { case: "detached", value: { handle, reason: Reason.ATTACHED_ELSEWHERE } } };
}

void test("transmissions of a request are numbered, and a request that has ended gets a new id", async (t) => {
  const seen: [string | undefined, number | undefined][] = [];
  const server = await scripted(t, {
    acquire({ request }) {
      seen.push([request?.requestId, request?.attempt]);
      if (seen.length < 3) return ["end"];
      return [seen.length === 3 ? failed(Code.Aborted, "REQUEST_ENDED") : granted("a", 1, 60_000)];
    },
  });
  const lock = await connect(t, server).lock("a", { wait: 60_000, ttl: 60_000 });
  assert.ok(lock.valid());
  assert.deepEqual(seen.map(([, attempt]) => attempt), [1, 2, 3, 1]);
  const [first, second, third, fourth] = seen.map(([id]) => id);
  assert.deepEqual([second, third], [first, first]);
  assert.notEqual(fourth, first);
});

void test("a request id of the caller is kept, and its end is an error", async (t) => {
  const requestId = "3b241101-e2bb-4255-8caf-4136c566a962";
  const seen: string[] = [];
  const server = await scripted(t, {
    acquire({ request }) {
      seen.push(`${request?.requestId ?? ""} ${String(request?.attempt)}`);
      return seen.length === 1 ? ["end"] : [failed(Code.Aborted, "REQUEST_ENDED")];
    },
  });
  const acquire = connect(t, server).lock("a", { wait: 60_000, requestId });
  await assert.rejects(acquire, { name: "Refused", reason: "REQUEST_ENDED" });
  assert.deepEqual(seen, [`${requestId} 1`, `${requestId} 2`]);
});

void test("a grant of which less than half is left is renewed first", async (t) => {
  let renewals = 0;
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 25_000)],
    renew: ({ leaseId }) => {
      renewals += 1;
      assert.equal(leaseId, "lease 1");
      return [{ message: { case: "renew", value: { outcome: Renewal.RENEWED, ttl: duration(60_000) } } }];
    },
  });
  const lock = await connect(t, server).lock("a", { ttl: 60_000 });
  assert.ok(lock.remaining() > 30_000, String(lock.remaining()));
  assert.equal(renewals, 1);
});

void test("a grant that is over, or late and not renewed, is released, and another request follows", async (t) => {
  const ids = new Set<string | undefined>();
  const released: string[] = [];
  const server = await scripted(t, {
    acquire({ request }) {
      assert.equal(request?.attempt, 1);
      ids.add(request.requestId);
      return [granted("a", ids.size, [1, 25_000, 60_000][ids.size - 1] ?? 0)];
    },
    renew: () => [failed(Code.Internal, "STORE_CORRUPT")],
    released: (lease) => released.push(lease),
  });
  const client = connect(t, server);
  const lock = await client.lock("a", { ttl: 60_000, wait: 60_000 });
  assert.equal(lock.token, 3);
  await until("both are released", () => released.length === 2);
  assert.deepEqual(released, ["lease 1", "lease 2"]);
});

void test("without time left, a grant that is over is an error, and released", async (t) => {
  const released: string[] = [];
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 1)],
    released: (lease) => released.push(lease),
  });
  await assert.rejects(connect(t, server).lock("a"), { name: "LockLost", reason: "silence", token: 1 });
  await until("it is released", () => released.length === 1);
});

void test("an acquire whose outcome is unknown when time is over is withdrawn behind the caller", async (t) => {
  let isOver = false;
  const released: string[] = [];
  const server = await scripted(t, {
    acquire: () => [isOver ? granted("a", 1, 3_600_000) : "end"],
    released: (lease) => released.push(lease),
  });
  const client = connect(t, server, { timeout: 3000 });
  await assert.rejects(client.lock("a", { ttl: 3_600_000 }), { name: "OutcomeUnknown" });
  isOver = true;
  await until("it is released", () => released.length === 1);
});

void test("an operation without an answer tells the answer to an earlier try, and its outcome is unknown", async (t) => {
  const once = () => {
    let tries = 0;
    return () => ((tries += 1) === 1 ? [failed(Code.Unavailable, "STORE_UNAVAILABLE")] : []);
  };
  const told = "; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): as the test asked for";
  const isTold = (message: string) => (error: unknown) => {
    assert.ok(error instanceof OutcomeUnknown);
    assert.equal(error.message, `outcome unknown: ${message}${told}`);
    assert.ok(error.cause instanceof Unavailable && error.cause.reason === "STORE_UNAVAILABLE");
    return true;
  };
  const server = await scripted(t, { acquire: once() });
  await assert.rejects(connect(t, server, { timeout: 1000 }).lock("a"), isTold("no answer in time"));
  const grants = await scripted(t, { acquire: () => [granted("a", 1, 60_000)], release: once() });
  const lock = await connect(t, grants, { timeout: 1000 }).lock("a");
  await assert.rejects(lock.release(), isTold("no server confirmed the release within 1 s"));
});

void test("a lease that another process attached is attached again once on each session", async (t) => {
  const attempts: number[] = [];
  const server = await scripted(t, {
    acquire: ({ handle }) => [granted("a", 1, 60_000), elsewhere(handle)],
    attach: ({ leases }) => {
      attempts.push(...leases.map(({ attempt }) => attempt));
      return leases.map(({ handle }) => elsewhere(handle));
    },
  });
  const lock = await connect(t, server).lock("a", { ttl: 60_000 });
  await until("it is at risk", () => lock.status === "at-risk");
  assert.deepEqual(attempts, [2]);
  assert.ok(lock.valid(), "until the known end");
});

void test("after the loss of a session, a lease may be attached again once more", async (t) => {
  const attempts: number[] = [];
  const server = await scripted(t, {
    acquire: ({ handle }) => [granted("a", 1, 60_000), elsewhere(handle)],
    attach: ({ leases }) => {
      attempts.push(...leases.map(({ attempt }) => attempt));
      const handles = leases.map(({ handle }) => handle);
      if (attempts.length === 2) return handles.map(elsewhere);
      const kept: Response = { message: { case: "attached", value: { leases: [{ ttl: duration(60_000), handles }] } } };
      return attempts.length === 1 ? [kept, "end"] : [kept];
    },
  });
  const lock = await connect(t, server).lock("a", { ttl: 60_000 });
  await until("it is attached again", () => attempts.length === 3);
  assert.deepEqual(attempts, [2, 3, 4]);
  assert.equal(lock.status, "held");
});

void test("a lock that is lost says who holds it now, and so does its release", async (t) => {
  const end = LeaseEnd.REVOKED;
  const server = await scripted(t, {
    acquire: ({ handle }) => [
      granted("a", 1, 60_000),
      { message: { case: "lost", value: { handle, end, successorToken: 2n } } },
    ],
  });
  const lock = await connect(t, server, { logger: null }).lock("a", { ttl: 60_000 });
  await until("it is lost", () => !lock.valid());
  const loss: unknown = lock.signal.reason;
  assert.ok(loss instanceof LockLost);
  assert.deepEqual([loss.reason, loss.successorToken, lock.status], ["revoked", 2, "lost"]);
  assert.match(loss.message, /; token 2 holds it now$/);
  assert.deepEqual(await lock.release(), { end: "revoked", successorToken: 2 });
});

void test("nobody waits for the release of a lock that is over, but close does", async (t) => {
  const released: string[] = [];
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 1500)],
    released: (lease) => released.push(lease),
  });
  const client = connect(t, server);
  const lock = await client.lock("a", { ttl: 1500 });
  await until("it is over", () => !lock.valid());
  const releasing = lock.release();
  assert.deepEqual(released, []);
  assert.deepEqual(await releasing, { end: "unspecified", successorToken: undefined });
  await client.close();
  assert.deepEqual(released, ["lease 1"]);
});

void test("a stream that is silent is replaced long before renewals are overdue", async (t) => {
  const left: number[] = [];
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 20_000), "end"],
    attach: ({ leases }) => {
      left.push(lock.remaining());
      const handles = leases.map(({ handle }) => handle);
      const value = { leases: [{ ttl: duration(20_000), handles }] };
      return left.length === 1 ? [] : [{ message: { case: "attached", value } }];
    },
  });
  const lock = await connect(t, server).lock("a", { ttl: 20_000 });
  await until("it is attached again", () => left.length === 2);
  assert.ok((left[1] ?? 0) > 7000, `${String(left)} ms are left`);
});

void test("on each next stream, the attachment has the next number", async (t) => {
  const attempts: number[] = [];
  const server = await scripted(t, {
    acquire: () => [granted("a", 1, 60_000), "end"],
    attach: ({ leases }) => {
      attempts.push(...leases.map(({ attempt }) => attempt));
      if (attempts.length < 3) return ["end"];
      const handles = leases.map(({ handle }) => handle);
      return [{ message: { case: "attached", value: { leases: [{ ttl: duration(60_000), handles }] } } }];
    },
  });
  const lock = await connect(t, server).lock("a", { ttl: 60_000 });
  await until("it is attached again", () => attempts.length === 3);
  assert.deepEqual(attempts, [2, 3, 4]);
  assert.ok(lock.valid());
});
