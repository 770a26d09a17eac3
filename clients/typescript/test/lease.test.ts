import assert from "node:assert/strict";
import test from "node:test";
import { create } from "@bufbuild/protobuf";
import type { LockLost } from "../src/errors.js";
import { AcquireRequestSchema, AcquireResponseSchema, LeaseSchema } from "../src/gen/fencepost/v1/lock_pb.js";
import { Lease } from "../src/lease.js";
import { duration } from "../src/wire.js";

/** A lease of 10 s that was granted at 0, and what it tells. Valid until 9400. */
function lease(): { lease: Lease; told: string[] } {
  const ttl = duration(10_000);
  const wire = create(LeaseSchema, { lockName: "a", fencingToken: 1n, ttl });
  const lease = new Lease(wire, create(AcquireResponseSchema), create(AcquireRequestSchema, { ttl }), 0, 5);
  const told: string[] = [];
  lease.listener = {
    lost: (loss: LockLost) => told.push(loss.reason),
    atRisk: () => told.push("at risk"),
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
    it.atRisk(100);
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
  it.atRisk(1000);
  it.atRisk(2000);
  assert.ok(it.isAtRisk);
  it.renewed(renewal(3000));
  assert.ok(!it.isAtRisk);
  it.atRisk(4000);
  assert.deepEqual(told, ["at risk", "at risk"]);
});
