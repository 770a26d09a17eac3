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
import { type Fenced, mysql, postgres, redis, sqlite, StaleToken } from "../src/guards/index.js";
import { after, connect, findUp, start } from "./support/index.js";
import { type Addresses, DRIVERS, HAS_NODE_SQLITE, prepare } from "./support/stores.js";

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

void test("outside of a transaction nothing is guarded", () => {
  const database = new Database(":memory:");
  const lock = { name: "a", token: 1, grantId: "a" };
  assert.throws(() => {
    sqlite.raise(database as unknown as sqlite.Database, lock);
  }, /BEGIN IMMEDIATE/);
  database.close();
  // A pool runs each statement in a transaction of its own: it does not compile.
  const calls = [
    // @ts-expect-error A pool of pg.
    (pool: pg.Pool) => postgres.raise(pool, lock),
    // @ts-expect-error A pool of mysql2.
    (pool: mysql2.Pool) => mysql.raise(pool, lock),
    (client: pg.PoolClient, pool: pg.Pool) => Promise.all([postgres.raise(client, lock), postgres.create(pool)]),
    (one: mysql2.PoolConnection, pool: mysql2.Pool) => Promise.all([mysql.raise(one, lock), mysql.create(pool)]),
  ];
  assert.equal(calls.length, 4);
});
