import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { type TestContext } from "node:test";
import { Database } from "node-sqlite3-wasm";
import type mysql2 from "mysql2/promise";
import type pg from "pg";
import { createClient } from "redis";
import { type Fenced, fenceName, mysql, postgres, redis, sqlite, StaleToken } from "../src/guards/index.js";
import { after, connect, findUp, start } from "./support/index.js";
import { type Addresses, DRIVERS, HAS_NODE_SQLITE, prepare, replaceTables } from "./support/stores.js";

/** Starts the stores; they end with the test. */
async function startStores(t: TestContext): Promise<Addresses> {
  const folder = mkdtempSync(join(tmpdir(), "fencepost-guards-"));
  const child = spawn(findUp("clients/stores.py") ?? assert.fail("clients/stores.py is missing"), {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  after(t, async () => {
    child.stdin.end();
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const line = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const addresses = { ...(JSON.parse(String(line.value)) as Addresses), sqlite: join(folder, "store.db") };
  await prepare(addresses);
  return addresses;
}

/** Stops a holder past its lease while the next one writes. Returns what its late write leads to. */
async function lateWrite(t: TestContext, server: string, stores: Addresses, driver: string, guarded: boolean) {
  const name = `orders/${driver}/${guarded ? "guarded" : "control"}`;
  const program = join(__dirname, "support/writer.js");
  const given = [server, JSON.stringify(stores), driver, name, guarded ? "guarded" : "control"];
  const child = spawn(process.execPath, [program, ...given], { stdio: ["pipe", "pipe", "inherit"] });
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const ended = once(child, "close");
  after(t, async () => {
    process.removeListener("exit", kill);
    kill();
    await ended;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const stopped = Number((await lines.next()).value);
  assert.ok(stopped > 0);
  child.kill("SIGSTOP");

  const store = await (DRIVERS[driver] ?? assert.fail())(stores);
  after(t, async () => {
    await store.close();
  });
  const lock = await connect(t, server).lock(name, { wait: 60_000 });
  await store.write(lock, "next", guarded);
  child.stdin.write("go\n");
  child.kill("SIGCONT");
  const said = (await lines.next()).value as string;
  return { said, stopped, lock, text: await store.read(name), store };
}

void test("guards", async (t) => {
  const [server, stores] = await Promise.all([start(t), startStores(t)]);
  await Promise.all(
    Object.keys(DRIVERS).flatMap((driver) => [
      t.test(`${driver}: the late write of a holder that was stopped is refused`, async (t) => {
        const { said, stopped, lock, text, store } = await lateWrite(t, server.address, stores, driver, true);
        const { name, token } = lock;
        const seen = `the store has seen ${String(token)}`;
        assert.equal(said, `StaleToken: token ${String(stopped)} of ${name} is stale: ${seen}`);
        assert.equal(text, "next");

        await store.write(lock, "again", true);
        const other = { name, token, grantId: "another grant" };
        await assert.rejects(store.write(other, "other", true), StaleToken, "the same token of another grant");
        assert.equal(await store.read(name), "again");
        const last: Fenced = { name, token: Number.MAX_SAFE_INTEGER, grantId: lock.grantId };
        await store.write(last, "last", true);
        await assert.rejects(store.write(lock, "late", true), { lockName: name, token, newest: last.token });
        assert.equal(await store.read(name), "last");
      }),
      t.test(`${driver}: without the guard it goes through`, async (t) => {
        const { said, text } = await lateWrite(t, server.address, stores, driver, false);
        assert.deepEqual([said, text], ["written", "late"]);
      }),
    ]),
  );

  await Promise.all(
    Object.keys(DRIVERS).map((driver) =>
      t.test(`${driver}: readers hold side by side`, async (t) => {
        const store = await (DRIVERS[driver] ?? assert.fail())(stores);
        after(t, async () => {
          await store.close();
        });
        const name = `shared/${driver}`;
        const grant = (token: number, grantId = `g${String(token)}`): Fenced => ({ name, token, grantId });
        const stale = (step: Promise<void>, { token }: Fenced, newest: number) =>
          assert.rejects(step, { name: "StaleToken", lockName: name, token, newest });
        const [first, second] = [grant(11), grant(12)];

        await assert.rejects(store.work(second, "early"), /token 12 .* was not raised: call raiseShared/);
        await store.write(grant(10), "written", true);
        await assert.rejects(store.work(second, "early"), /token 12 .* was not raised: call raiseShared/);
        for (const reader of [second, first]) {
          await store.raiseShared(reader);
          await store.work(reader, `by ${String(reader.token)}`);
        }
        await store.raiseShared(second);
        await store.work(first, "both");
        // What the readers have read stays so: no earlier writer gets through, nor one with the token of a reader.
        for (const late of [grant(10), first, second]) await stale(store.write(late, "late", true), late, 12);
        for (const late of [grant(9), grant(10, "another")]) {
          await stale(store.raiseShared(late), late, 12);
          await stale(store.work(late, "late"), late, 12);
        }
        assert.equal(await store.read(name), "both");

        // After a later writer, the readers are stale.
        const writer = grant(13, "g");
        await store.write(writer, "next", true);
        for (const late of [first, second]) {
          await stale(store.raiseShared(late), late, 13);
          await stale(store.work(late, "late"), late, 13);
        }
        assert.equal(await store.read(name), "next");

        // A downgraded writer reads with its token, and shuts out its own late writes.
        await store.raiseShared(writer);
        await store.work(writer, "read");
        await stale(store.write(writer, "late", true), writer, 13);
        await stale(store.work(grant(13, "another"), "late"), writer, 13);
        // An upgrade keeps the grant and draws a new token. A downgrade follows before anything is written.
        const upgraded = grant(Number.MAX_SAFE_INTEGER, "g");
        await store.raiseShared(upgraded);
        await stale(store.write(upgraded, "late", true), upgraded, upgraded.token);
        await store.work(writer, "read again");
        assert.equal(await store.read(name), "read again");
      }),
    ),
  );

  await Promise.all(
    Object.keys(DRIVERS).map((driver) =>
      t.test(`${driver}: the holders of slots write side by side`, async (t) => {
        const store = await (DRIVERS[driver] ?? assert.fail())(stores);
        after(t, async () => {
          await store.close();
        });
        const name = `semaphore/${driver}`;
        const permit = (token: number, slot: number): Fenced => ({
          ...{ name, token, grantId: `g${String(token)}` },
          ...{ permits: 1, slot },
        });
        const [first, second] = [permit(10, 1), permit(11, 2)];
        for (const holder of [second, first, second, first]) await store.write(holder, String(holder.token), true);
        // After the next holder of its slot, a holder is stale, and that of the other slot is not.
        await store.write(permit(12, 1), "next", true);
        const stale = { name: "StaleToken", lockName: name, token: 10, newest: 12 };
        await assert.rejects(store.write(first, "late", true), stale);
        assert.equal(await store.read(name), "next");
        await store.write(second, "other", true);
        // The lock itself has another fence.
        await store.write({ name, token: 9, grantId: "g9" }, "exclusive", true);
        assert.equal(await store.read(name), "exclusive");

        const several: Fenced = { name, token: 13, grantId: "g13", permits: 2 };
        const refusal = /several permits of a semaphore.*take one permit each, or check the token with checkToken/;
        await assert.rejects(store.write(several, "late", true), refusal);
        await assert.rejects(store.raiseShared(several), refusal);
        const notShared = /held as a semaphore, not as a shared lock: raise its fence/;
        await assert.rejects(store.raiseShared(first), notShared);
        await assert.rejects(store.work(first, "late"), notShared);
        assert.equal(await store.read(name), "exclusive");
      }),
    ),
  );

  await t.test("many processes create the table at once", async () => {
    const grant = { name: "created", token: 12, grantId: "g12" };
    const early = { name: "created", token: 9, grantId: "g9" };
    for (const before of [true, false]) {
      await replaceTables(stores, before ? "first version" : "none");
      await Promise.all(Array.from({ length: 6 }, () => prepare(stores)));
      for (const driver of ["pg", "mysql2", "node-sqlite3-wasm"]) {
        const store = await (DRIVERS[driver] ?? assert.fail())(stores);
        if (before) await assert.rejects(store.raiseShared(early), StaleToken, "the row from before is there");
        await store.raiseShared(grant);
        await store.work(grant, "work");
        await store.close();
      }
    }
  });

  if (!HAS_NODE_SQLITE) {
    const { node } = process.versions;
    await t.test("node:sqlite", { skip: `needs Node.js 22.13 or later, this is ${node}` });
  }

  await t.test("an error of the script that writes is the driver's", async () => {
    const client = createClient({ url: stores.redis });
    await client.connect();
    const lock = { name: "a", token: 1, grantId: "a" };
    const script = "return redis.error_reply('ERR of the script')";
    await assert.rejects(redis.write(client, lock, { fence: "a", script }), { message: "ERR of the script" });
    await client.close();
  });
});

void test("a slot is a part of the name of a fence", () => {
  const [long, permit] = ["a".repeat(510), { token: 1, grantId: "g", permits: 1 }];
  assert.equal(fenceName({ name: "a", token: 1, grantId: "g" }), "a");
  assert.equal(fenceName({ name: "a", token: 1, grantId: "g", permits: 0, slot: undefined }), "a");
  assert.equal(fenceName({ ...permit, name: "a", slot: 7 }), "a#7");
  assert.equal(fenceName({ ...permit, name: long, slot: 7 }), `${long}#7`);
  assert.throws(() => fenceName({ ...permit, name: long, slot: 10 }), /#10 is longer than 512 bytes: give the lock a /);
});

void test("outside of a transaction nothing is guarded", () => {
  const database = new Database(":memory:");
  const lock = { name: "a", token: 1, grantId: "a" };
  assert.throws(() => {
    sqlite.raise(database as unknown as sqlite.Database, lock);
  }, /BEGIN IMMEDIATE/);
  assert.throws(() => {
    sqlite.checkShared(database as unknown as sqlite.Database, lock);
  }, /BEGIN IMMEDIATE/);
  database.exec("BEGIN");
  assert.throws(() => {
    sqlite.raiseShared(database as unknown as sqlite.Database, lock);
  }, /a transaction of its own/);
  database.close();
  // A pool runs each statement in a transaction of its own: it does not compile.
  const calls = [
    // @ts-expect-error A pool of pg.
    (pool: pg.Pool) => postgres.raise(pool, lock),
    // @ts-expect-error A pool of mysql2.
    (pool: mysql2.Pool) => mysql.raise(pool, lock),
    // @ts-expect-error A pool of pg.
    (pool: pg.Pool) => postgres.checkShared(pool, lock),
    // @ts-expect-error A pool of mysql2.
    (pool: mysql2.Pool) => mysql.checkShared(pool, lock),
    (client: pg.PoolClient, pool: pg.Pool) => Promise.all([postgres.raise(client, lock), postgres.create(pool)]),
    (one: mysql2.PoolConnection, pool: mysql2.Pool) => Promise.all([mysql.raise(one, lock), mysql.create(pool)]),
    (pool: pg.Pool, client: pg.PoolClient) =>
      Promise.all([postgres.raiseShared(pool, lock), postgres.checkShared(client, lock)]),
    (pool: mysql2.Pool, one: mysql2.PoolConnection) =>
      Promise.all([mysql.raiseShared(pool, lock), mysql.checkShared(one, lock)]),
  ];
  assert.equal(calls.length, 8);
});
