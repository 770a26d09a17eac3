/** The client of Fencepost, a lock server with fencing tokens. */
export type { Body, SetBody } from "./body.js";
export { type CallOptions, Client, type ClientOptions } from "./client.js";
export {
  ClientClosed,
  Contended,
  FencepostError,
  type FieldViolation,
  LockLost,
  LockWanted,
  type LossReason,
  NotAllAcquired,
  NotAllReleased,
  OutcomeUnknown,
  Refused,
  StaleToken,
  TimedOut,
  Unavailable,
} from "./errors.js";
export type { LockDelay, LockHolder, LockInfo, LockWaiter, Released, Semaphore } from "./info.js";
export type { TokenStatus, WatchEvent } from "./info.js";
export type { Lock } from "./lock.js";
export type { LockSet } from "./lock-set.js";
export type { Logger, LogFields } from "./log.js";
export type { AcquireAllOptions, AcquireOptions, LeadOptions, LockInSet } from "./request.js";
export type { TlsOptions, TokenSource } from "./security.js";
export type { End, Mode } from "./wire.js";
export { VERSION } from "./version.js";
