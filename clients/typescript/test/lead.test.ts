/** Leader election: one body at a time, a new term after a loss, and no release before the body has settled. */
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import test from "node:test";
import { type Client, ClientClosed, type Lock, LockLost, Refused, Unavailable } from "../src/index.js";
import { LeaseEnd } from "../src/gen/fencepost/v1/lock_pb.js";
import { aborted, connect, start, until } from "./support/index.js";
import { Kept } from "./support/logger.js";
import { failed, granted, scripted } from "./support/scripted.js";

const NAME = "jobs/leader";

async function waits(client: Client, count: number): Promise<void> {
  await until(`${String(count)} wait`, async () => (await client.get(NAME)).waiters === count);
}

/** A promise, and how to fulfil it. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void = () => assert.fail();
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

void test("one body at a time runs, and the next elector is elected when it returns", async (t) => {
  const server = await start(t);
  const observer = connect(t, server);
  let [running, most] = [0, 0];
  const terms: number[] = [];
  const gates = [gate(), gate(), gate()];
  const electors = gates.map((_, n) =>
    connect(t, server, { holder: `elector ${String(n)}` }).lead(NAME, { metadata: { n: String(n) } }, async (lock) => {
      running += 1;
      most = Math.max(most, running);
      const term = terms.push(lock.token);
      await gates[term - 1]?.opened;
      running -= 1;
      return `${lock.holder} in term ${String(term)}`;
    }),
  );
  for (const [n, { open }] of gates.entries()) {
    await until("one is elected", () => terms.length === n + 1);
    await waits(observer, gates.length - n - 1);
    assert.deepEqual([running, terms.length], [1, n + 1]);
    const { holder, metadata } = (await observer.get(NAME)).holders[0] ?? assert.fail();
    assert.equal(holder, `elector ${metadata["n"] ?? ""}`);
    open();
  }
  const results = await Promise.all(electors);
  const suffixes = results.map((each) => each.replace(/elector \d in /, "")).sort();
  assert.deepEqual([most, suffixes], [1, ["term 1", "term 2", "term 3"]]);
  assert.ok(terms.every((token, n) => n === 0 || token > (terms[n - 1] ?? Infinity)), String(terms));
});

void test("a loss ends the body, and the same elector is elected again with a higher token", async (t) => {
  const server = await start(t);
  const logger = new Kept();
  const client = connect(t, server, { logger });
  const tokens: number[] = [];
  const losses: unknown[] = [];
  const result = await client.lead(NAME, async (lock, signal) => {
    tokens.push(lock.token);
    if (tokens.length === 4) return "done";
    await server.lose(NAME);
    losses.push(await aborted(signal));
    // How a body may end then: it returns, it notices the loss by itself, or what it waits for does.
    if (tokens.length === 1) return "dropped";
    if (tokens.length === 2) lock.throwIfLost();
    return pause(60_000, "never", { signal });
  });
  assert.equal(result, "done");
  assert.ok(tokens.every((token, n) => n === 0 || token > (tokens[n - 1] ?? Infinity)), String(tokens));
  assert.deepEqual(losses.map((loss) => (loss as LockLost).token), tokens.slice(0, 3));
  const lines = tokens.slice(0, 3).map((token) => `${NAME} (token ${String(token)}) is lost: the lease was revoked`);
  assert.deepEqual(logger.of("warn"), lines, "nothing but the losses");
});

void test("no campaign begins before the body of a lost term has settled", async (t) => {
  const server = await start(t);
  const [client, observer] = [connect(t, server, { logger: null }), connect(t, server)];
  const told = gate();
  const stopping = gate();
  let terms = 0;
  const leading = client.lead(NAME, async (_, signal) => {
    terms += 1;
    if (terms === 2) return;
    await server.lose(NAME);
    await aborted(signal);
    told.open();
    await stopping.opened;
  });
  await told.opened;
  for (let n = 0; n < 20; n += 1) {
    const { holders, waiters } = await observer.get(NAME);
    assert.deepEqual([holders, waiters, terms], [[], 0, 1]);
  }
  stopping.open();
  await leading;
  assert.equal(terms, 2);
});

void test("an error of a body that has lost its lock goes to the log", async (t) => {
  const server = await start(t);
  const logger = new Kept();
  const client = connect(t, server, { logger });
  let first = 0;
  await client.lead(NAME, async (lock, signal) => {
    if (first > 0) return;
    first = lock.token;
    await server.lose(NAME);
    await aborted(signal);
    throw new Error("of the body");
  });
  const [, line, ...more] = logger.of("warn");
  const told = `the body under ${NAME} (token ${String(first)}) failed after it had lost the lock: of the body`;
  assert.deepEqual([line, more], [told, []]);
  assert.deepEqual(logger.fields.at(-1), { lock: NAME, token: first, cause: "of the body" });
});

void test("a term is no longer than its maxHold, and its lockDelay ends with the body", async (t) => {
  const client = connect(t, await start(t), { logger: null });
  const losses: unknown[] = [];
  const tokens: number[] = [];
  const begun = performance.now();
  const options = { ttl: 1000, maxHold: 1000, lockDelay: 60_000 };
  await client.lead(NAME, options, async (lock, signal) => {
    tokens.push(lock.token);
    if (tokens.length === 1) losses.push(await aborted(signal));
  });
  assert.ok(losses[0] instanceof LockLost && losses[0].token === tokens[0], String(losses[0]));
  assert.equal(tokens.length, 2);
  assert.ok(performance.now() - begun < 40_000, "the second term began before the lockDelay was over");
});

void test("the error of a body that leads is passed on, and it resigns", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const error = new Error("of the body");
  await assert.rejects(client.lead(NAME, { minHold: 1 }, () => Promise.reject(error)), error);
  const next = await other.lock(NAME, { wait: 20_000 });
  assert.equal(next.previousEnd, "released");
  await next.release();
  // A body that resigns by itself has not lost the lock.
  assert.equal(await client.lead(NAME, async (lock) => (await lock.release()).end), "released");
});

void test("a leader that is cancelled releases the lock after its body has settled", async (t) => {
  const server = await start(t);
  const [client, observer] = [connect(t, server), connect(t, server)];
  const reason = new Error("enough");
  const ways: ((signal: AbortSignal) => unknown)[] = [
    () => "a value",
    (signal) => { signal.throwIfAborted(); },
    (signal) => pause(60_000, "never", { signal }),
  ];
  for (const end of ways) {
    const order: string[] = [];
    const events = observer.watch(NAME);
    await events.next();
    const stop = new AbortController();
    const leading = client.lead(NAME, { signal: stop.signal }, async (lock, signal) => {
      stop.abort(reason);
      assert.equal(await aborted(signal), reason);
      // Long enough for a release that does not wait for the body.
      for (let n = 0; n < 20; n += 1) assert.equal((await observer.get(NAME)).holders[0]?.token, lock.token);
      order.push("the body ends");
      return end(signal);
    });
    await assert.rejects(leading, reason);
    order.push("lead ends");
    assert.deepEqual((await observer.get(NAME)).holders, []);
    assert.deepEqual(order, ["the body ends", "lead ends"]);
    for (const kind of ["granted", "released"]) assert.equal((await events.next()).value?.kind, kind);
    await events.return();
  }
});

void test("an error of its own that a cancelled body ends with is passed on", async (t) => {
  const client = connect(t, await start(t));
  const stop = new AbortController();
  const leading = client.lead(NAME, { signal: stop.signal }, () => {
    stop.abort(new Error("enough"));
    throw new Error("of the body");
  });
  await assert.rejects(leading, { message: "of the body" });
});

void test("a campaign that is cancelled leaves no waiter", async (t) => {
  const server = await start(t);
  const [client, other] = [connect(t, server), connect(t, server)];
  const held = await other.lock(NAME);
  const stop = new AbortController();
  const leading = client.lead(NAME, { signal: stop.signal }, () => assert.fail("it is not elected"));
  await waits(other, 1);
  const reason = new Error("enough");
  stop.abort(reason);
  await assert.rejects(leading, reason);
  await waits(other, 0);
  await held.release();
  await assert.rejects(client.lead(NAME, { signal: stop.signal }, () => assert.fail("it is not elected")), reason);
});

void test("a client that is closed ends its election, once the body has settled", async (t) => {
  const server = await start(t);
  const [leader, waiter] = [connect(t, server), connect(t, server)];
  const order: string[] = [];
  const isElected = gate();
  const leading = leader.lead(NAME, async (_, signal) => {
    isElected.open();
    await aborted(signal);
    order.push("the body ends");
  });
  const ended = assert.rejects(leading, ClientClosed).then(() => order.push("lead ends"));
  await isElected.opened;
  const campaigning = assert.rejects(waiter.lead(NAME, () => assert.fail("it is not elected")), ClientClosed);
  await waits(leader, 1);
  await Promise.all([waiter.close(), campaigning]);
  await Promise.all([leader.close(), ended]);
  assert.deepEqual(order, ["the body ends", "lead ends"]);
});

void test("an elector waits for a server that is away, and tells it once", async (t) => {
  const first = await start(t);
  const { address } = first;
  await first.stop();
  const logger = new Kept();
  const client = connect(t, address, { logger, timeout: 500 });
  const leading = client.lead(NAME, (lock) => lock.token);
  await until("it is told", () => logger.of("warn").length > 0);
  await assert.rejects(client.get(NAME), Unavailable);
  await start(t, { listen: address });
  assert.ok((await leading) > 0);
  const text = `the campaign for ${NAME} fails, and goes on: ${address}: connection refused`;
  assert.deepEqual(logger.of("warn"), [text]);
});

void test("an elector whose server falls silent is elected again when that goes on", async (t) => {
  const server = await start(t);
  const client = connect(t, server, { logger: null });
  const locks: Lock[] = [];
  await client.lead(NAME, { ttl: 1000 }, async (lock, signal) => {
    locks.push(lock);
    if (locks.length === 2) return;
    server.pause();
    const loss = await aborted(signal);
    server.resume();
    assert.ok(loss instanceof LockLost && loss.reason === "silence", String(loss));
  });
  const [one, two] = locks;
  assert.ok((two?.token ?? 0) > (one?.token ?? Infinity));
});

void test("errors that pass are told once, and the campaign goes on", async (t) => {
  const failures = ["QUEUE_FULL", "SERVER_FULL", "QUOTA_EXCEEDED"].map((reason) => failed(8, reason));
  failures.push(failed(10, "REQUEST_ENDED"));
  let asked = 0;
  const server = await scripted(t, { acquire: () => [failures[asked++] ?? granted(NAME, 7, 60_000)] });
  const logger = new Kept();
  const client = connect(t, server, { logger });
  assert.equal(await client.lead(NAME, (lock) => lock.token), 7);
  const text = `the campaign for ${NAME} fails, and goes on: as the test asked for (QUEUE_FULL)`;
  assert.deepEqual([logger.of("warn"), asked], [[text], 5]);
});

void test("errors that stay are thrown", async (t) => {
  const server = await start(t);
  const client = connect(t, server);
  const body = () => assert.fail("it is not elected");
  await assert.rejects(client.lead("", body), (error: unknown) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual(error.violations, [{ field: "lock_name", description: "must not be empty" }]);
    return true;
  });
  await assert.rejects(client.lead(7 as never, body), TypeError);
  await assert.rejects(client.lead(NAME, { lockDelay: 60_001 }, body), { name: "Refused", code: "INVALID_ARGUMENT" });
  for (const [code, name] of [[7, "PERMISSION_DENIED"], [9, "FAILED_PRECONDITION"], [16, "UNAUTHENTICATED"]] as const) {
    const refusing = connect(t, await scripted(t, { acquire: () => [failed(code, "ANY")] }));
    await assert.rejects(refusing.lead(NAME, body), { name: "Refused", code: name });
  }
  const tls = connect(t, `https://${server.address}`, { logger: null });
  await assert.rejects(tls.lead(NAME, body), (error: unknown) => error instanceof Unavailable && error.isLasting);
});

void test("servers that wait for a shorter time, or not at all, elect as well", async (t) => {
  for (const longest of ["1s", "0s"]) {
    const server = await start(t, { arguments: ["--wait-max", longest] });
    const logger = new Kept();
    const [client, other] = [connect(t, server, { logger }), connect(t, server)];
    const held = await other.lock(NAME);
    const leading = client.lead(NAME, (lock) => lock.token);
    if (longest !== "0s") await waits(other, 1);
    const heldFor = async () => (await other.get(NAME)).holders[0]?.heldFor ?? 0;
    const soon = (await heldFor()) + 1000;
    await until("the first round is over", async () => (await heldFor()) > soon);
    await held.release();
    assert.ok((await leading) > held.token);
    assert.deepEqual(logger.lines, []);
  }
});

void test("short terms are followed by longer and longer pauses", async (t) => {
  let token = 0;
  const server = await scripted(t, {
    acquire: ({ handle }) => {
      token += 1;
      const lost = { message: { case: "lost" as const, value: { handle, end: LeaseEnd.REVOKED } } };
      return [granted(NAME, token, 60_000), lost];
    },
  });
  const client = connect(t, server, { logger: null });
  const elected: number[] = [];
  await client.lead(NAME, async (_, signal) => {
    if (elected.push(performance.now()) < 5) await aborted(signal);
  });
  // At least half of 50 ms, which doubles each time.
  const pauses = elected.slice(1).map((at, n) => at - (elected[n] ?? 0));
  for (const [n, least] of [25, 50, 100, 200].entries()) {
    assert.ok((pauses[n] ?? 0) >= least, `pauses of ${String(pauses)} ms`);
  }
});
