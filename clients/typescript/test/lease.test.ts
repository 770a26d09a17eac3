import assert from "node:assert/strict";
import test from "node:test";
import { create } from "@bufbuild/protobuf";
import type { LockLost } from "../src/errors.js";
import { AcquireRequestSchema, AcquireResponseSchema, LeaseSchema } from "../src/gen/fencepost/v1/lock_pb.js";
import { Lease } from "../src/lease.js";
import { duration } from "../src/wire.js";

/** A lease of 10 s that was granted at 0, and what it tells. Valid until 9400. */
function lease(maxHold?: number): { lease: Lease; told: string[] } {
  const ttl = duration(10_000);
  const wire = create(LeaseSchema, { lockName: "a", fencingToken: 1n, ttl });
  const request = create(AcquireRequestSchema, { ttl, ...(maxHold !== undefined && { maxHold: duration(maxHold) }) });
  const lease = new Lease(wire, create(AcquireResponseSchema), request, 0, 5);
  const told: string[] = [];
  lease.listener = {
    lost: (loss: LockLost) => told.push(loss.reason),
    atRisk: (cause: string) => told.push(cause),
    bounded: (remaining: number) => told.push(`bounded ${String(remaining)}`),
    recovered: () => told.push("recovered"),
    wanted: ({ mode }) => told.push(`wanted ${mode}`),
  };
  return { lease, told };
}

const renewal = (at: number) => ({ sent: at - 5, read: at, heldFor: 0, ttl: 10_000 });

void test("a lease is lost once, for the first reason", () => {
  for (const [end, reason] of [
    [(it: Lease) => { it.end("revoked", 7); }, "revoked"],
    [(it: Lease) => { it.loss(9400); }, "silence"],
    [(it: Lease) => { it.renewed(renewal(9500)); }, "silence"],
  ] as const) {
    const { lease: it, told } = lease();
    end(it);
    const loss = it.loss(100);
    it.end("expired", 8);
    it.loss(20_000);
    it.atRisk(100, "at risk");
    it.renewed(renewal(200));
    assert.deepEqual([told, it.loss(100) === loss, it.remaining(100)], [[reason], true, 0]);
    assert.equal(loss?.successorToken, reason === "revoked" ? 7 : undefined);
  }
});

void test("a lease is valid until the formula says so, and not a moment longer", () => {
  const { lease: it } = lease();
  assert.deepEqual([it.remaining(0), it.remaining(9399)], [9400, 1]);
  it.renewed(renewal(5005));
  assert.equal(it.remaining(5000), 9400);
  it.renewed(renewal(4005));
  assert.equal(it.remaining(5000), 9400, "an older renewal does not shorten it");
  assert.equal(it.loss(14_399), undefined);
  assert.equal(it.loss(14_400)?.reason, "silence");
});

void test("a risk is told once, until a renewal", () => {
  const { lease: it, told } = lease();
  it.atRisk(1000, "at risk");
  it.atRisk(2000, "at risk");
  assert.ok(it.isAtRisk);
  it.renewed(renewal(3000));
  assert.ok(!it.isAtRisk);
  it.atRisk(4000, "at risk");
  assert.deepEqual(told, ["at risk", "recovered", "at risk"]);
});

void test("a lease that ends by its maxHold misses no renewal", () => {
  const { lease: it, told } = lease(18_000);
  const bounded = (at: number, ttl: number) => { it.renewed({ sent: at, read: at, heldFor: 0, ttl }); };
  bounded(4000, 10_000);
  assert.ok(it.isOverdue(10_000));
  bounded(10_000, 8000);
  assert.ok(!it.isOverdue(17_000));
  bounded(17_000, 1000);
  assert.deepEqual([it.ttl, it.loss(17_900), told], [10_000, undefined, ["bounded 7520"]]);
  assert.equal(it.loss(18_000)?.reason, "maxHold");
});

void test("a lease that ends by its maxHold is not late after a renewal", () => {
  const { lease: it } = lease(12_000);
  assert.ok(it.isLate(8000));
  it.renewed({ sent: 8000, read: 8000, heldFor: 0, ttl: 4000 });
  assert.deepEqual([it.isLate(8000), it.loss(8000)], [false, undefined]);
});

void test("without a maxHold, a renewal that answers less than the TTL bounds nothing", () => {
  const { lease: it, told } = lease();
  it.renewed({ sent: 4000, read: 4000, heldFor: 0, ttl: 8000 });
  assert.deepEqual([it.isOverdue(8999), it.isLate(8999), told], [true, true, []]);
  assert.equal(it.loss(12_000)?.reason, "silence");
});

void test("the TTL is that of the answers, whatever was asked for", () => {
  const of = (asked: number | undefined, attempt: number, left: number) => {
    const request = create(AcquireRequestSchema, { attempt, ...(asked !== undefined && { ttl: duration(asked) }) });
    const wire = create(LeaseSchema, { lockName: "a", fencingToken: 1n, ttl: duration(left) });
    return new Lease(wire, create(AcquireResponseSchema), request, 0, 5);
  };
  assert.deepEqual([of(undefined, 1, 10_000), of(60_000, 1, 10_000)].map(({ ttl }) => ttl), [10_000, 10_000]);
  assert.ok(!of(undefined, 1, 10_000).isLate(5));
  // The answer to a repeat has what is left: a renewal has to tell the rest.
  const repeated = of(undefined, 2, 10_000);
  assert.ok(repeated.isLate(5));
  repeated.renewed({ sent: 5, read: 6, heldFor: 0, ttl: 30_000 });
  assert.deepEqual([repeated.ttl, repeated.isLate(6)], [30_000, false]);
  const untold = of(undefined, 2, 10_000);
  untold.expectNoMore();
  assert.deepEqual([untold.ttl, untold.isLate(6)], [10_000, false]);
});
