/** What the tests share: servers, clients that are closed at the end of their test, and waiting for a condition. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { TestContext } from "node:test";
import { Client, type ClientOptions, type Lock } from "../../src/index.js";
import { Server, type ServerOptions } from "../../src/testing/index.js";

/** How long anything may take that has to happen, in milliseconds. */
export const PATIENCE_MS = 20_000;

/** Leases as short as 50 ms, so that tests need not wait. */
const SHORT_LEASES = ["--ttl-min", "50ms"];

/** A file of the repository, looked for in all folders above. */
export function findUp(file: string): string | undefined {
  for (let folder = resolve(__dirname); folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, file))) return join(folder, file);
  }
  return undefined;
}

export function binary(): string {
  return process.env["FENCEPOST_BIN"] ?? findUp("target/debug/fencepost") ?? "fencepost";
}

const cleanups = new WeakMap<TestContext, (() => Promise<void>)[]>();

/** Runs after the test, the last one first: clients are closed while their servers still run. */
export function after(t: TestContext, cleanup: () => Promise<void>): void {
  const known = cleanups.get(t);
  if (known) {
    known.unshift(cleanup);
    return;
  }
  const all = [cleanup];
  cleanups.set(t, all);
  t.after(async () => {
    for (const each of all) await each();
  });
}

export async function start(t: TestContext, options: ServerOptions = {}): Promise<Server> {
  const more = [...SHORT_LEASES, ...(options.arguments ?? [])];
  const server = await Server.start({ binary: binary(), ...options, arguments: more });
  after(t, () => server.stop());
  return server;
}

export function connect(t: TestContext, servers: Server | string | string[], options: ClientOptions = {}): Client {
  const client = new Client({ servers: servers instanceof Server ? servers.address : servers, ...options });
  after(t, () => client.close());
  return client;
}

/** Holds a lock until the end of the test: one that nothing refers to any more is released. */
export async function hold(t: TestContext, acquiring: Promise<Lock>): Promise<Lock> {
  const lock = await acquiring;
  t.after(() => lock.valid());
  return lock;
}

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${what}: not in time`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Waits until a signal aborts, and returns its reason. */
export async function aborted(signal: AbortSignal): Promise<unknown> {
  await until("the signal aborts", () => signal.aborted);
  return signal.reason;
}
