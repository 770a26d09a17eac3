/** Conversions between values of the API and those of JavaScript. */
import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema } from "@bufbuild/protobuf/wkt";
import type { LossReason } from "./errors.js";
import { LeaseEnd, LockMode } from "./gen/fencepost/v1/lock_pb.js";

/** The longest duration of the API: 10,000 years. */
export const DURATION_MAX_MS = 315_576_000_000_000;

/** Milliseconds as a duration of the API. */
export function duration(ms: number): Duration {
  const whole = Math.floor(ms / 1000);
  return create(DurationSchema, { seconds: BigInt(whole), nanos: Math.floor((ms - whole * 1000) * 1e6) });
}

/** A duration of the API in milliseconds; 0 if it is absent. */
export function milliseconds(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** A token of the API; `undefined` for 0, which means that there is none. */
export function token(value: bigint): number | undefined {
  return value === 0n ? undefined : Number(value);
}

/** Which other holders a lease excludes: all, all but readers, or those that have no permit of the semaphore. */
export type Mode = "exclusive" | "shared" | "semaphore";

const MODES: Readonly<Record<LockMode, Mode | undefined>> = {
  [LockMode.UNSPECIFIED]: undefined,
  [LockMode.EXCLUSIVE]: "exclusive",
  [LockMode.SHARED]: "shared",
  [LockMode.SEMAPHORE]: "semaphore",
};

/** `undefined` if it is not told, or a value of a newer server. */
export function mode(value: LockMode): Mode | undefined {
  return (MODES as Readonly<Record<number, Mode | undefined>>)[value];
}

/** How a lease ended; `unspecified` if no end is known. */
export type End = "unspecified" | "released" | "expired" | "revoked" | "superseded" | "unknown";

const ENDS: Readonly<Record<LeaseEnd, End>> = {
  [LeaseEnd.UNSPECIFIED]: "unspecified",
  [LeaseEnd.RELEASED]: "released",
  [LeaseEnd.EXPIRED]: "expired",
  [LeaseEnd.REVOKED]: "revoked",
  [LeaseEnd.SUPERSEDED]: "superseded",
  [LeaseEnd.UNKNOWN]: "unknown",
};

/** A value of a newer server counts as unknown. */
export function end(value: LeaseEnd): End {
  return (ENDS as Readonly<Record<number, End | undefined>>)[value] ?? "unknown";
}

/** The end of a lease as the reason of its loss. */
export function lossReason(value: LeaseEnd): LossReason {
  const reason = end(value);
  return reason === "unspecified" ? "unknown" : reason;
}
