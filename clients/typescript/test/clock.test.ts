import assert from "node:assert/strict";
import test from "node:test";
import { Clock } from "../src/clock.js";

void test("suspended time counts, small differences do not", () => {
  let [monotonic, sinceBoot] = [100, 5000];
  const clock = new Clock(
    () => monotonic,
    () => sinceBoot,
  );
  assert.equal(clock.now(), 100);
  monotonic += 50;
  sinceBoot += 60;
  assert.equal(clock.now(), 150, "the time since boot has coarse steps");
  sinceBoot += 60_000;
  const resumed = clock.now();
  assert.ok(resumed >= 150 + 59_900, "a minute in which the machine was suspended");
  sinceBoot -= 10;
  assert.equal(clock.now(), resumed, "it never goes back");
});

void test("without a clock since boot the monotonic clock decides", () => {
  let monotonic = 1;
  const clock = new Clock(() => monotonic);
  monotonic = 8;
  assert.equal(clock.now(), 8);
});
