/**
 * The driver of the interop suite: reads one request a line as JSON, and writes one answer a line. Requests run
 * concurrently. The suite in tests/interop describes the lines.
 */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  type AcquireOptions,
  Client,
  ClientClosed,
  type Lock,
  type LockInSet,
  type LockLost,
  type LockSet,
  type LockWanted,
} from "../src/index.js";
import {
  BadRequest,
  Cancelled,
  failure,
  type Fields,
  info,
  type Line,
  observed,
  optionalNumber,
  optionalText,
  snake,
  text,
  watched,
  write,
} from "./protocol.js";

type Metadata = Readonly<Record<string, string>>;

let client: Client | undefined;
const locks = new Map<string, Lock>();
const sets = new Map<string, LockSet>();
const acquires = new Map<number, AbortController>();
/** A process with pending promises goes on. So what is pending is given up when the input ends; nothing else is. */
const ending = new AbortController();

function opened(): Client {
  if (client === undefined) throw new BadRequest("open comes first");
  return client;
}

function lockOf(line: Fields): Lock {
  const lock = locks.get(text(line, "lock"));
  if (lock === undefined) throw new BadRequest("there is no such lock");
  return lock;
}

/** A lock or a set. */
function heldAs(line: Line): Lock | LockSet {
  return sets.get(text(line, "lock")) ?? lockOf(line);
}

function open(line: Line): Fields {
  const [caFile, certFile, keyFile] = ["ca", "cert", "key"].map((field) => optionalText(line, field));
  const [holder, token] = ["holder", "token"].map((field) => optionalText(line, field));
  client = new Client({
    servers: line["servers"] as string[],
    tls: { ...(caFile && { caFile }), ...(certFile && { certFile }), ...(keyFile && { keyFile }) },
    ...(holder && { holder }),
    ...(token && { token }),
  });
  return {};
}

async function acquire(line: Line): Promise<Fields> {
  const label = text(line, "lock");
  const cancel = new AbortController();
  acquires.set(line.id, cancel);
  try {
    const lock = await opened().lock(text(line, "name"), { ...acquireOptions(line, label), signal: cancel.signal });
    locks.set(label, lock);
    tellChanges(label, lock);
    if (line["tell_when_wanted"] === true) tellWanted(label, lock);
    const { token, grantId, previousEnd, permits, slot = 0, mode } = lock;
    return { token, grant_id: grantId, previous_end: previousEnd, permits, slot, mode };
  } finally {
    acquires.delete(line.id);
  }
}

function acquireOptions(line: Line, label: string): AcquireOptions {
  const [ttl, wait] = [optionalNumber(line, "ttl_ms"), optionalNumber(line, "wait_ms")];
  const maxHold = optionalNumber(line, "max_hold_ms");
  const [minHold, lockDelay] = [optionalNumber(line, "min_hold_ms"), optionalNumber(line, "lock_delay_ms")];
  const [semaphore, permits] = [optionalNumber(line, "semaphore"), optionalNumber(line, "permits")];
  const permitLimitVersion = optionalNumber(line, "permit_limit_version");
  const [owner, maxWaiters] = [optionalText(line, "owner"), optionalNumber(line, "max_waiters")];
  const metadata = line["metadata"] as Metadata | null | undefined;
  return {
    ...(ttl !== undefined && { ttl }),
    ...(maxHold !== undefined && { maxHold }),
    ...(minHold !== undefined && { minHold }),
    ...(lockDelay !== undefined && { lockDelay }),
    shared: line["shared"] === true,
    ...(semaphore !== undefined && { semaphore }),
    ...(permits !== undefined && { permits }),
    ...(permitLimitVersion !== undefined && { permitLimitVersion }),
    ...(owner !== undefined && { owner }),
    ...(maxWaiters !== undefined && { maxWaiters }),
    tellWhenWanted: line["tell_when_wanted"] === true,
    ...(wait !== undefined && { wait }),
    ...(metadata && { metadata }),
    onAtRisk: () => {
      write({ event: "at_risk", lock: label });
    },
  };
}

function tellChanges(label: string, lock: Lock): void {
  lock.signal.addEventListener("abort", () => {
    const { reason, successorToken } = lock.signal.reason as LockLost;
    if (reason === "released" || reason === "closed") return;
    write({ event: "lost", lock: label, reason: snake(reason), successor_token: successorToken ?? 0 });
  });
}

/** Somebody may have wanted the lock before its holder listens. */
function tellWanted(label: string, { wanted }: Lock): void {
  const tell = () => {
    write({ event: "wanted", lock: label, mode: (wanted.reason as LockWanted).mode });
  };
  if (wanted.aborted) tell();
  else wanted.addEventListener("abort", tell);
}

async function acquireAll(line: Line): Promise<Fields> {
  const [ttl, wait] = [optionalNumber(line, "ttl_ms"), optionalNumber(line, "wait_ms")];
  const shared = ((line["shared"] ?? []) as string[]).map((name): LockInSet => ({ name, shared: true }));
  const cancel = new AbortController();
  acquires.set(line.id, cancel);
  try {
    const set = await opened().lockAll([...(line["names"] as string[]), ...shared], {
      signal: cancel.signal,
      ...(ttl !== undefined && { ttl }),
      ...(wait !== undefined && { wait }),
    });
    sets.set(text(line, "lock"), set);
    return { tokens: Object.fromEntries(set.tokens) };
  } finally {
    acquires.delete(line.id);
  }
}

function cancel(line: Line): Fields {
  acquires.get(Number(line["of"]))?.abort(new Cancelled());
  return {};
}

function valid(line: Line): Fields {
  const lock = heldAs(line);
  return { valid: lock.valid(), remaining_ms: Math.floor(lock.remaining()) };
}

function append(line: Line): Fields {
  const lock = lockOf(line);
  lock.throwIfLost();
  appendFileSync(text(line, "file"), `${String(lock.token)}\n`);
  return {};
}

function increment(line: Line): Fields {
  const [lock, file] = [heldAs(line), text(line, "file")];
  lock.throwIfLost();
  let value = 0;
  try {
    value = Number(readFileSync(file, "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  writeFileSync(file, String(value + 1));
  return { value: value + 1 };
}

async function release(line: Line): Promise<Fields> {
  const { end } = await heldAs(line).release();
  return { end };
}

async function convert(line: Line): Promise<Fields> {
  const lock = lockOf(line);
  let converted = true;
  if (text(line, "mode") === "shared") await lock.downgrade();
  else converted = await lock.tryUpgrade();
  return { converted, token: lock.token, mode: lock.mode };
}

/** The client does not tell the number of the description: it is read from the lock. */
async function describe(line: Line): Promise<Fields> {
  const lock = lockOf(line);
  await lock.describe((line["metadata"] ?? {}) as Metadata, optionalText(line, "holder"));
  const { holders } = await opened().get(lock.name);
  const own = holders.find(({ grantId }) => grantId === lock.grantId);
  if (own === undefined) throw new BadRequest(`${lock.name} is not held any more`);
  return { number: own.description };
}

function observe(line: Line): Fields {
  void report(opened().observe(text(line, "name"), { signal: ending.signal }), observed);
  return {};
}

async function waiters(line: Line): Promise<Fields> {
  const found: Fields[] = [];
  for await (const { holder, owner, mode } of opened().waiters(text(line, "name"))) found.push({ holder, owner, mode });
  return { waiters: found };
}

async function get(line: Line): Promise<Fields> {
  return info(await opened().get(text(line, "name")));
}

async function list(line: Line): Promise<Fields> {
  const names: string[] = [];
  for await (const { name } of opened().list(text(line, "prefix"))) names.push(name);
  return { names };
}

async function watch(line: Line): Promise<Fields> {
  const events = opened().watch(text(line, "prefix"), { signal: ending.signal });
  await events.next();
  void report(events, watched);
  return {};
}

async function report<T>(events: AsyncIterable<T>, told: (event: T) => Fields): Promise<void> {
  try {
    for await (const event of events) write(told(event));
  } catch (error) {
    if (!(error instanceof ClientClosed) && !ending.signal.aborted) console.error(error);
  }
}

async function checkToken(line: Line): Promise<Fields> {
  const { status } = await opened().checkToken(text(line, "name"), Number(line["token"]));
  return { status };
}

async function close(): Promise<Fields> {
  await opened().close();
  return {};
}

/** Ends the process as a program does that returns from its main function without closing its client. */
function exit(): Fields {
  process.stdin.destroy();
  input.close();
  return {};
}

const OPERATIONS: Readonly<Record<string, (line: Line) => Fields | Promise<Fields>>> = {
  open,
  acquire,
  acquire_all: acquireAll,
  cancel,
  valid,
  write: append,
  increment,
  release,
  convert,
  describe,
  observe,
  waiters,
  get,
  list,
  watch,
  check_token: checkToken,
  close,
  exit,
};

async function answer(line: Line): Promise<void> {
  try {
    const operation = OPERATIONS[line.op];
    if (operation === undefined) throw new BadRequest(`there is no operation ${line.op}`);
    const fields = await operation(line);
    if (line.op !== "exit") write({ id: line.id, ok: true, ...fields });
  } catch (error) {
    write({ id: line.id, ok: false, ...failure(error) });
  }
}

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  void answer(JSON.parse(line) as Line);
});
input.on("close", () => {
  ending.abort();
  for (const cancel of acquires.values()) cancel.abort(new Cancelled());
});
