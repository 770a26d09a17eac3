import assert from "node:assert/strict";
import { once } from "node:events";
import * as net from "node:net";
import test from "node:test";
import { after, afterReading } from "../src/timers.js";

void test("an answer that arrived while the event loop was blocked is not late", async (t) => {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = net.connect((server.address() as net.AddressInfo).port, "127.0.0.1");
  const both = await Promise.all([once(server, "connection"), once(client, "connect")]);
  const [peer] = both[0] as [net.Socket];
  t.after(() => {
    client.destroy();
    peer.destroy();
    server.close();
  });
  const seen: string[] = [];
  const cancel = afterReading(20, () => seen.push("late"));
  after(20, () => seen.push("plain timer"));
  client.once("data", () => {
    seen.push("answer");
    cancel();
  });
  // In one turn of the event loop: the answer is on its way, and the deadline is over before it can be read.
  peer.write("answer");
  const end = performance.now() + 100;
  while (performance.now() < end);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(seen, ["plain timer", "answer"]);
});

void test("a deadline without an answer is over, unless it was cancelled", async () => {
  let over = 0;
  afterReading(10, () => (over += 1));
  afterReading(10, () => (over += 10))();
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(over, 1);
});
