import assert from "node:assert/strict";
import test from "node:test";
import { OTHER_STORE } from "../src/facts.js";
import { Stores } from "../src/stores.js";
import { connect, hold, start } from "./support/index.js";
import { Kept } from "./support/logger.js";
import { redis } from "./support/redis.js";

void test("a different store is news once", () => {
  const stores = new Stores();
  assert.equal(stores.told(2, "x"), undefined);
  assert.equal(stores.told(0, "x"), undefined);
  assert.equal(stores.told(1, "y"), 0);
  assert.equal(stores.told(1, "y"), undefined);
  assert.equal(stores.told(0, "y"), 2);
  assert.equal(stores.told(2, "y"), undefined, "all have it now");
});

for (const isShared of [false, true]) {
  const told = isShared ? "the same store is not told" : "another store is told once";
  void test(`moving to a server with ${told}`, async (t) => {
    const options = isShared ? { arguments: ["--store", (await redis(t)).url] } : {};
    const [first, second] = await Promise.all([start(t, options), start(t, options)]);
    // A server knows its store, and tells it, once it has granted a lock.
    for (const server of [first, second]) await (await connect(t, server).lock("ready", { wait: 20_000 })).release();
    const logger = new Kept();
    const client = connect(t, [first.address, second.address], { logger });
    await hold(t, client.lock("a"));
    await first.stop();
    // Granted by the second server, after it told its store.
    await hold(t, client.lock("b"));
    const [server, other] = [second.address, first.address];
    const lines = logger.of("warn").filter((line) => line.startsWith(server));
    assert.deepEqual(lines, isShared ? [] : [`${server} ${OTHER_STORE.replace("{}", other)}`]);
    const fields = logger.fields.filter((each) => each.other !== undefined);
    assert.deepEqual(fields, isShared ? [] : [{ server, other }]);
  });
}
