/** The lines of the interop suite: what requests have, and how answers and events are written. */
import {
  ClientClosed,
  Contended,
  LockLost,
  type LockInfo,
  NotAllAcquired,
  OutcomeUnknown,
  Refused,
  TimedOut,
  Unavailable,
  type WatchEvent,
} from "../src/index.js";

export type Fields = Readonly<Record<string, unknown>>;

export interface Line extends Fields {
  id: number;
  op: string;
}

export class BadRequest extends Error {}

export class Cancelled extends Error {
  override readonly message = "the acquire was cancelled";
}

export function write(line: Fields): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

export function text(line: Fields, field: string): string {
  const value = line[field];
  if (typeof value !== "string") throw new BadRequest(`${field} must be a text`);
  return value;
}

export function optionalText(line: Fields, field: string): string | undefined {
  return line[field] === undefined || line[field] === null ? undefined : text(line, field);
}

/** A name as the protocol writes it. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

export function optionalNumber(line: Fields, field: string): number | undefined {
  return typeof line[field] === "number" ? line[field] : undefined;
}

/** What the first holder says of a lock; `null` and 0 if it is free. */
function first({ holders: [holder] }: LockInfo): Fields {
  return { holder: holder?.holder ?? null, token: holder?.token ?? 0 };
}

export function info(lock: LockInfo): Fields {
  return { ...first(lock), waiters: lock.waiters };
}

export function observed(lock: LockInfo): Fields {
  const { name, holderCount: holders, holders: [holder] } = lock;
  const [metadata, description] = [holder?.metadata ?? null, holder?.description ?? 0];
  return { event: "observed", name, holders, ...first(lock), metadata, description };
}

export function watched({ kind, name, token, holder }: WatchEvent): Fields {
  return { event: "watch", kind, name, token, holder };
}

export function failure(error: unknown): Fields {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof NotAllAcquired) {
    return { ...failure(error.cause), message, name: error.lockName, given_back: error.givenBack };
  }
  if (error instanceof Contended || error instanceof TimedOut) {
    const kind = error instanceof Contended ? "contended" : "timed_out";
    const { holderCount: holders, holders: [holder], waiters } = error;
    return { error: kind, message, holder: holder?.holder ?? null, holders, waiters };
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
