/**
 * The driver of the interop suite: reads one request a line as JSON, and writes one answer a line. Requests run
 * concurrently. The suite in tests/interop describes the lines.
 */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import {
  Client,
  ClientClosed,
  Contended,
  type Lock,
  LockLost,
  type LockSet,
  NotAllAcquired,
  OutcomeUnknown,
  Refused,
  TimedOut,
  Unavailable,
} from "../src/index.js";

type Fields = Readonly<Record<string, unknown>>;

interface Line extends Fields {
  id: number;
  op: string;
}

class BadRequest extends Error {}

let client: Client | undefined;
const locks = new Map<string, Lock>();
const sets = new Map<string, LockSet>();
const acquires = new Map<number, AbortController>();
/** A process with pending promises goes on. So what is pending is given up when the input ends; nothing else is. */
const ending = new AbortController();

function write(line: Fields): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function text(line: Fields, field: string): string {
  const value = line[field];
  if (typeof value !== "string") throw new BadRequest(`${field} must be a text`);
  return value;
}

function optionalText(line: Fields, field: string): string | undefined {
  return line[field] === undefined || line[field] === null ? undefined : text(line, field);
}

/** A name as the protocol writes it. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function optionalNumber(line: Fields, field: string): number | undefined {
  return typeof line[field] === "number" ? line[field] : undefined;
}

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
  const [ttl, wait] = [optionalNumber(line, "ttl_ms"), optionalNumber(line, "wait_ms")];
  const maxHold = optionalNumber(line, "max_hold_ms");
  const [minHold, lockDelay] = [optionalNumber(line, "min_hold_ms"), optionalNumber(line, "lock_delay_ms")];
  const [semaphore, permits] = [optionalNumber(line, "semaphore"), optionalNumber(line, "permits")];
  const permitLimitVersion = optionalNumber(line, "permit_limit_version");
  const metadata = line["metadata"] as Readonly<Record<string, string>> | null | undefined;
  const cancel = new AbortController();
  acquires.set(line.id, cancel);
  try {
    const lock = await opened().lock(text(line, "name"), {
      signal: cancel.signal,
      ...(ttl !== undefined && { ttl }),
      ...(maxHold !== undefined && { maxHold }),
      ...(minHold !== undefined && { minHold }),
      ...(lockDelay !== undefined && { lockDelay }),
      shared: line["shared"] === true,
      ...(semaphore !== undefined && { semaphore }),
      ...(permits !== undefined && { permits }),
      ...(permitLimitVersion !== undefined && { permitLimitVersion }),
      ...(wait !== undefined && { wait }),
      ...(metadata && { metadata }),
      onAtRisk: () => {
        write({ event: "at_risk", lock: label });
      },
    });
    locks.set(label, lock);
    lock.signal.addEventListener("abort", () => {
      const { reason, successorToken } = lock.signal.reason as LockLost;
      if (reason === "released" || reason === "closed") return;
      write({ event: "lost", lock: label, reason: snake(reason), successor_token: successorToken ?? 0 });
    });
    const { permits: held, slot = 0 } = lock;
    return { token: lock.token, grant_id: lock.grantId, previous_end: lock.previousEnd, permits: held, slot };
  } finally {
    acquires.delete(line.id);
  }
}

async function acquireAll(line: Line): Promise<Fields> {
  const [ttl, wait] = [optionalNumber(line, "ttl_ms"), optionalNumber(line, "wait_ms")];
  const cancel = new AbortController();
  acquires.set(line.id, cancel);
  try {
    const set = await opened().lockAll(line["names"] as string[], {
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

class Cancelled extends Error {
  override readonly message = "the acquire was cancelled";
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

async function get(line: Line): Promise<Fields> {
  const { holders, waiters } = await opened().get(text(line, "name"));
  return { holder: holders[0]?.holder ?? null, token: holders[0]?.token ?? 0, waiters };
}

async function list(line: Line): Promise<Fields> {
  const names: string[] = [];
  for await (const { name } of opened().list(text(line, "prefix"))) names.push(name);
  return { names };
}

async function watch(line: Line): Promise<Fields> {
  const events = opened().watch(text(line, "prefix"), { signal: ending.signal });
  await events.next();
  void report(events);
  return {};
}

async function report(events: ReturnType<Client["watch"]>): Promise<void> {
  try {
    for await (const { kind, name, token, holder } of events) write({ event: "watch", kind, name, token, holder });
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
  get,
  list,
  watch,
  check_token: checkToken,
  close,
  exit,
};

function failure(error: unknown): Fields {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof NotAllAcquired) {
    return { ...failure(error.cause), message, name: error.lockName, given_back: error.givenBack };
  }
  if (error instanceof Contended || error instanceof TimedOut) {
    const kind = error instanceof Contended ? "contended" : "timed_out";
    return { error: kind, message, holder: error.holders[0]?.holder ?? null, waiters: error.waiters };
  }
  if (error instanceof LockLost) {
    return { error: "lost", message, reason: snake(error.reason), successor_token: error.successorToken ?? 0 };
  }
  if (error instanceof Refused) return { error: "refused", message, code: error.code, reason: error.reason ?? "" };
  if (error instanceof Unavailable) {
    return { error: "refused", message, code: "UNAVAILABLE", reason: error.reason ?? "" };
  }
  if (error instanceof OutcomeUnknown) return { error: "outcome_unknown", message };
  if (error instanceof Cancelled) return { error: "cancelled", message };
  if (error instanceof ClientClosed) return { error: "closed", message };
  return { error: "bad_request", message };
}

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
