/** Real stores, and writes to them with and without a guard. The same code runs in both processes of a test. */
import { createRequire } from "node:module";
import Redis from "ioredis";
import mysql2 from "mysql2/promise";
import { Database } from "node-sqlite3-wasm";
import pg from "pg";
import { createClient } from "redis";
import { type Fenced, mysql, postgres, redis, sqlite } from "../../src/guards/index.js";

/** What clients/stores.py prints, and the file for SQLite. */
export interface Addresses {
  readonly postgres: string;
  readonly mysql: mysql2.ConnectionOptions;
  readonly redis: string;
  readonly sqlite: string;
}

/** One store, through one driver. Each lock name has one text, which belongs to the holder of the lock. */
export interface Store {
  /** Writes the text if the guard lets it; without a guard, in any case. */
  write(lock: Fenced, text: string, guarded: boolean): Promise<void>;
  /** The first step of a reader. */
  raiseShared(lock: Fenced): Promise<void>;
  /** Writes in a transaction that begins with the second step of a reader. */
  work(lock: Fenced, text: string): Promise<void>;
  read(name: string): Promise<string | undefined>;
  close(): Promise<unknown>;
}

const CREATE = "CREATE TABLE IF NOT EXISTS work (lock_name VARCHAR(512) PRIMARY KEY, text VARCHAR(100) NOT NULL)";

async function viaPostgres({ postgres: url }: Addresses): Promise<Store> {
  const client = new pg.Client(url);
  await client.connect();
  const write = async (lock: Fenced, text: string, guard: () => Promise<void>) => {
    await client.query("BEGIN");
    try {
      await guard();
      const upsert = "INSERT INTO work VALUES ($1, $2) ON CONFLICT (lock_name) DO UPDATE SET text = excluded.text";
      await client.query(upsert, [lock.name, text]);
      await client.query("COMMIT");
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    }
  };
  return {
    write: (lock, text, guarded) =>
      write(lock, text, () => (guarded ? postgres.raise(client, lock) : Promise.resolve())),
    raiseShared: (lock) => postgres.raiseShared(client, lock),
    work: (lock, text) => write(lock, text, () => postgres.checkShared(client, lock)),
    async read(name) {
      const { rows } = await client.query<{ text: string }>("SELECT text FROM work WHERE lock_name = $1", [name]);
      return rows[0]?.text;
    },
    close: () => client.end(),
  };
}

async function viaMysql({ mysql: options }: Addresses): Promise<Store> {
  const connection = await mysql2.createConnection(options);
  const write = async (lock: Fenced, text: string, guard: () => Promise<void>) => {
    await connection.beginTransaction();
    try {
      await guard();
      await connection.query("REPLACE INTO work VALUES (?, ?)", [lock.name, text]);
      await connection.commit();
    } catch (error) {
      await connection.rollback();
      throw error;
    }
  };
  return {
    write: (lock, text, guarded) =>
      write(lock, text, () => (guarded ? mysql.raise(connection, lock) : Promise.resolve())),
    raiseShared: (lock) => mysql.raiseShared(connection, lock),
    work: (lock, text) => write(lock, text, () => mysql.checkShared(connection, lock)),
    async read(name) {
      const select = "SELECT text FROM work WHERE lock_name = ?";
      const [rows] = await connection.query<mysql2.RowDataPacket[]>(select, [name]);
      return rows[0]?.["text"] as string | undefined;
    },
    close: () => connection.end(),
  };
}

interface Sqlite extends sqlite.Database {
  close(): void;
}

/** SQLite without native code, with the methods of the usual drivers. */
function wasmSqlite(file: string): Sqlite {
  const database = new Database(file);
  return {
    exec: (sql) => {
      database.exec(sql);
    },
    prepare: (sql) => ({ get: (...values) => database.get(sql, values) }),
    get inTransaction() {
      return database.inTransaction;
    },
    close: () => {
      database.close();
    },
  };
}

/** Whether this Node.js has SQLite, without a flag: from 22.13 on, except for the first releases of 23. */
export const HAS_NODE_SQLITE = (() => {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 23 || (major === 23 && minor >= 4) || (major === 22 && minor >= 13);
})();

function nodeSqlite(file: string): Sqlite {
  const { DatabaseSync } = createRequire(__filename)("node:sqlite") as { DatabaseSync: new (file: string) => Sqlite };
  return new DatabaseSync(file);
}

function viaSqlite(open: (file: string) => Sqlite): (addresses: Addresses) => Promise<Store> {
  return ({ sqlite: file }) => {
    const database = open(file);
    const write = (lock: Fenced, text: string, guard?: (database: Sqlite, lock: Fenced) => void) => {
      database.exec("BEGIN IMMEDIATE");
      try {
        guard?.(database, lock);
        const upsert = "INSERT INTO work VALUES (?, ?) ON CONFLICT (lock_name) DO UPDATE SET text = excluded.text";
        database.prepare(`${upsert} RETURNING text`).get(lock.name, text);
        database.exec("COMMIT");
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
    };
    const read = (name: string) =>
      (database.prepare("SELECT text FROM work WHERE lock_name = ?").get(name) as { text: string } | undefined)?.text;
    return Promise.resolve({
      write: async (lock: Fenced, text: string, guarded: boolean) => {
        await Promise.resolve();
        write(lock, text, guarded ? sqlite.raise : undefined);
      },
      raiseShared: async (lock: Fenced) => {
        await Promise.resolve();
        sqlite.raiseShared(database, lock);
      },
      work: async (lock: Fenced, text: string) => {
        await Promise.resolve();
        write(lock, text, sqlite.checkShared);
      },
      read: (name: string) => Promise.resolve(read(name)),
      close: () => {
        database.close();
        return Promise.resolve();
      },
    });
  };
}

const fenceOf = (name: string) => `{${name}}:fence`;
const setting = (name: string, text: string) => ({
  fence: fenceOf(name),
  script: SET,
  keys: [name],
  arguments: [text],
});
const SET = "return redis.call('SET', KEYS[2], ARGV[3])";

async function viaNodeRedis({ redis: url }: Addresses): Promise<Store> {
  const client = createClient({ url });
  await client.connect();
  return {
    async write(lock, text, guarded) {
      const { name } = lock;
      if (!guarded) await client.set(name, text);
      else await redis.write(client, lock, setting(name, text));
    },
    raiseShared: (lock) => redis.raiseShared(client, lock, fenceOf(lock.name)),
    async work(lock, text) {
      await redis.checkShared(client, lock, setting(lock.name, text));
    },
    read: async (name) => (await client.get(name)) ?? undefined,
    close: () => client.close(),
  };
}

function viaIoRedis({ redis: url }: Addresses): Promise<Store> {
  const client = new Redis(url);
  return Promise.resolve({
    async write(lock: Fenced, text: string, guarded: boolean) {
      const { name } = lock;
      if (!guarded) await client.set(name, text);
      else await redis.write(client, lock, setting(name, text));
    },
    raiseShared: (lock: Fenced) => redis.raiseShared(client, lock, fenceOf(lock.name)),
    async work(lock: Fenced, text: string) {
      await redis.checkShared(client, lock, setting(lock.name, text));
    },
    read: async (name: string) => (await client.get(name)) ?? undefined,
    close: () => client.quit(),
  });
}

/** The drivers that run here. */
export const DRIVERS: Readonly<Record<string, (addresses: Addresses) => Promise<Store>>> = {
  pg: viaPostgres,
  mysql2: viaMysql,
  "node-sqlite3-wasm": viaSqlite(wasmSqlite),
  ...(HAS_NODE_SQLITE && { "node:sqlite": viaSqlite(nodeSqlite) }),
  redis: viaNodeRedis,
  ioredis: viaIoRedis,
};

/** Creates the tables, twice: the second time is without effect. */
export async function prepare(addresses: Addresses): Promise<void> {
  const client = new pg.Client(addresses.postgres);
  await client.connect();
  const connection = await mysql2.createConnection(addresses.mysql);
  const database = wasmSqlite(addresses.sqlite);
  for (const _ of [1, 2]) {
    await postgres.create(client);
    await mysql.create(connection);
    sqlite.create(database);
  }
  await client.query(CREATE);
  await connection.query(CREATE);
  database.exec(CREATE);
  await client.end();
  await connection.end();
  database.close();
}

const FIRST = "CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL, grant_id";
const ROW = "INSERT INTO fencepost_fences VALUES ('created', 10, 'g10')";

/** Drops the tables of fences, and puts those of the first version in their place, which knew no shared locks. */
export async function replaceTables(addresses: Addresses, by: "first version" | "none"): Promise<void> {
  const client = new pg.Client(addresses.postgres);
  await client.connect();
  const connection = await mysql2.createConnection(addresses.mysql);
  const database = wasmSqlite(addresses.sqlite);
  const statements = ["DROP TABLE fencepost_fences"];
  if (by === "first version") statements.push(`${FIRST} VARCHAR(36) NOT NULL)`, ROW);
  for (const statement of statements) {
    await client.query(statement);
    await connection.query(statement);
    database.exec(statement);
  }
  await client.end();
  await connection.end();
  database.close();
}
