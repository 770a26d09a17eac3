import assert from "node:assert/strict";
import test from "node:test";
import * as timing from "../src/timing.js";
import { isLate, isOverdue, validUntil } from "../src/validity.js";

function reading(heldFor: number, ttl: number, took: number): number {
  return validUntil({ sent: 1000, read: 1000 + took, heldFor, ttl }) - 1000;
}

void test("validity counts from sending, less drift and margin", () => {
  assert.equal(reading(0, 30_000, 5), 30_000 - 300 - 1500);
  assert.equal(reading(0, 100, 5), 100 - 1 - 20, "a short lease keeps the least margin");
  assert.equal(reading(60_000, 30_000, 60_010), 60_000 + 28_200, "time in the queue is added");
  assert.equal(reading(3_600_000, 30_000, 20), 20 + 28_200, "not more than the exchange took");
  assert.ok(reading(0, 10, 0) < 0, "nothing left is over at once");
});

void test("late and overdue leases", () => {
  assert.ok(!isLate(1500, 1000, 1000) && isLate(1499, 1000, 1000));
  assert.ok(!isOverdue(1500, 1000, 1000), "a renewal every 4/9 leaves as much");
  assert.ok(isOverdue(1340, 1000, 1000) && isOverdue(999, 1000, 1000));
});

void test("a lease survives the loss of its stream", () => {
  for (const ttl of [1000, 3000, 10_000, 30_000, 3_600_000]) {
    // Silence is noticed after half a TTL; the next server does not answer either, the one after does.
    const spent =
      timing.silenceLimit(ttl) + timing.tick(ttl) + timing.pause(ttl, 0) + timing.answerTimeout(ttl) + timing.tick(ttl);
    assert.ok(spent < ttl - ttl / 100 - ttl / 20, `${String(ttl)}: ${String(spent)}`);
  }
  assert.equal(timing.pause(3_600_000, 100), 2000, "pauses are bounded");
});
