/** Failed calls and operations, and what they say about their effect. */
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { type FencepostError, type FieldViolation, OutcomeUnknown, Refused, Unavailable } from "./errors.js";
import { ERROR_DOMAIN, LAST_ANSWER, NOT_FENCEPOST } from "./facts.js";
import type { OperationError } from "./gen/fencepost/v1/lock_pb.js";
import {
  type BadRequest,
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { NoToken } from "./security.js";
import { type Trouble, troubleOf } from "./trouble.js";
import { milliseconds } from "./wire.js";

const CODES: ReadonlyMap<number, Code> = new Map(
  Object.values(Code).flatMap((code) => (typeof code === "number" ? [[code, code] as const] : [])),
);

/** The reasons with which a server says that it did nothing, although a repeat may succeed. */
const NOTHING_DONE: ReadonlySet<string> = new Set([
  "STORE_UNAVAILABLE",
  "STORE_OVERLOADED",
  "TOO_LATE",
  "REQUEST_TOO_SLOW",
  "DRAINING",
]);

/** The reasons with which a server refuses a stream that it may open later. */
const NO_ROOM: ReadonlySet<string> = new Set(["QUOTA_EXCEEDED", "SERVER_FULL", "WATCHERS_FULL"]);

interface Details {
  reason?: string;
  violations?: readonly FieldViolation[];
  retryDelay?: number;
  isLasting?: boolean;
  diagnosis?: string;
  isRepeat?: boolean;
  isStreamRefused?: boolean;
}

export class Failure {
  readonly code: Code;
  readonly message: string;
  /** Whether the servers may have received the request. */
  readonly sent: boolean;
  readonly reason: string | undefined;
  readonly violations: readonly FieldViolation[];
  /** How long the server asks to wait before a retry, in milliseconds. */
  readonly retryDelay: number;
  /** Whether the server cannot be called until somebody changes an address or certificates. */
  readonly isLasting: boolean;
  /** The message without the server's address. */
  readonly diagnosis: string;
  /** Whether the server has no room for the stream now, and has read nothing of it. */
  readonly isStreamRefused: boolean;
  /** Whether an earlier transmission of the request may have been delivered. */
  readonly #isRepeat: boolean;
  readonly cause: unknown;

  constructor(code: Code, message: string, sent: boolean, details: Details = {}, cause?: unknown) {
    this.code = code;
    this.message = message;
    this.sent = sent;
    this.reason = details.reason;
    this.violations = details.violations ?? [];
    this.retryDelay = details.retryDelay ?? 0;
    this.isLasting = details.isLasting ?? false;
    this.diagnosis = details.diagnosis ?? message;
    this.isStreamRefused = details.isStreamRefused ?? false;
    this.#isRepeat = details.isRepeat ?? false;
    this.cause = cause;
  }

  /** From the error of a call. */
  static of(thrown: unknown, sent: boolean, server: string): Failure {
    const error = ConnectError.from(thrown);
    // No server is to blame.
    const local = [thrown, error.cause].find((each) => each instanceof NoToken);
    if (local) return new Failure(Code.Unauthenticated, local.message, false, {}, local.cause);
    const details: Details = {};
    const [info] = error.findDetails(ErrorInfoSchema);
    const trouble = troubleOf(error);
    // A server that refuses the connection has not read the request.
    if (trouble.isLasting) return Failure.connection(server, trouble, error);
    if (info === undefined && error.code === Code.Unimplemented) return Failure.foreign(server, error);
    if (info?.domain === ERROR_DOMAIN) details.reason = info.reason;
    details.violations = error.findDetails(BadRequestSchema).flatMap(violations);
    details.retryDelay = milliseconds(error.findDetails(RetryInfoSchema)[0]?.retryDelay);
    details.diagnosis = wordsOf(error, trouble);
    const message = info === undefined ? `${server}: ${details.diagnosis}` : details.diagnosis;
    return new Failure(error.code, message, sent, details, error.cause ?? error);
  }

  /** From the error of one operation of a session. */
  static ofOperation(error: OperationError): Failure {
    const details: Details = {};
    for (const any of error.details) {
      const info = anyUnpack(any, ErrorInfoSchema);
      if (info?.domain === ERROR_DOMAIN) details.reason = info.reason;
      const bad = anyUnpack(any, BadRequestSchema);
      if (bad) details.violations = violations(bad);
      const retry = anyUnpack(any, RetryInfoSchema);
      if (retry) details.retryDelay = milliseconds(retry.retryDelay);
    }
    return new Failure(CODES.get(error.code) ?? Code.Unknown, error.message, true, details);
  }

  /** A connection with the server could not be established. */
  static connection(server: string, { text, isLasting, isPredicate = false }: Trouble, cause?: unknown): Failure {
    const details = { isLasting, diagnosis: text };
    return new Failure(Code.Unavailable, `${server}${isPredicate ? "" : ":"} ${text}`, false, details, cause);
  }

  /** The server does not implement the call. */
  static foreign(server: string, cause: unknown): Failure {
    const details = { isLasting: true, diagnosis: NOT_FENCEPOST };
    return new Failure(Code.Unimplemented, `${server} ${NOT_FENCEPOST}`, false, details, cause);
  }

  /** A failure on this side of the connection. */
  static local(message: string, sent: boolean, cause?: unknown): Failure {
    return new Failure(Code.Unavailable, message, sent, {}, cause);
  }

  /** The server answered what this version does not understand. */
  static malformed(): Failure {
    const details = { reason: "MALFORMED" };
    return new Failure(Code.Internal, "the server's answer is malformed, or from a newer version", true, details);
  }

  /** One failure for those of all servers that were tried: none has done anything. The last one decides what it is. */
  static ofAll(failures: readonly Failure[], last: Failure): Failure {
    const answered = failures.filter(({ reason }) => reason !== undefined);
    const ordered = [...answered, ...failures.filter((each) => !answered.includes(each))];
    const message = ordered.map((each) => each.message).join("; ");
    return (answered[0] ?? last).with({ message, isLasting: failures.every(({ isLasting }) => isLasting) });
  }

  /** The same failure, of a stream on which nothing has arrived. */
  ofStream(): Failure {
    const hasNoRoom = this.code === Code.ResourceExhausted && NO_ROOM.has(this.reason ?? "");
    return hasNoRoom ? this.with({ sent: false, isStreamRefused: true }) : this;
  }

  /** The same failure, when so many milliseconds are left until a retry. */
  withDelay(retryDelay: number): Failure {
    return this.with({ retryDelay });
  }

  /** The same failure, of a request that an earlier transmission may have delivered. */
  afterSending(sent: boolean): Failure {
    return sent && !this.isOutcomeUnknown ? this.with({ sent, isRepeat: true }) : this;
  }

  /** The same failure, unless it is itself an answer, with what a server answered to an earlier transmission. */
  afterAnswer(answer: Failure | undefined): Failure {
    if (answer?.reason === undefined || this.reason !== undefined) return this;
    const said = `${codeName(answer.code)} (${answer.reason}): ${answer.message}`;
    // A function: the message is no pattern.
    const message = `${this.message}; ${LAST_ANSWER.replace("{}", () => said)}`;
    return this.with({ message, cause: answer.toError() });
  }

  private with(changed: Partial<Pick<Failure, "message" | "sent" | "isLasting" | "cause">> & Details): Failure {
    const { code, message, sent, reason, violations, diagnosis } = this;
    const cause = changed.cause ?? this.cause;
    const isRepeat = changed.isRepeat ?? this.#isRepeat;
    const details = {
      ...(reason !== undefined && { reason }),
      violations,
      retryDelay: changed.retryDelay ?? this.retryDelay,
      isLasting: changed.isLasting ?? this.isLasting,
      diagnosis,
      isRepeat,
      isStreamRefused: changed.isStreamRefused ?? this.isStreamRefused,
    };
    return new Failure(code, changed.message ?? message, changed.sent ?? sent, details, cause);
  }

  /** Whether a repeat may succeed. Without a server's reason, some codes stand for a broken connection. */
  get isTransient(): boolean {
    switch (this.code) {
      case Code.Unavailable:
      case Code.Canceled:
      case Code.DeadlineExceeded:
        return true;
      case Code.Internal:
      case Code.Aborted:
        return this.reason === undefined;
      default:
        return false;
    }
  }

  /** Whether the servers may have done what was asked. */
  get isOutcomeUnknown(): boolean {
    return this.sent && this.isTransient && (this.#isRepeat || !this.#didNothing);
  }

  /** Whether the server says that this transmission had no effect. */
  get #didNothing(): boolean {
    return this.code === Code.Unavailable && this.reason !== undefined && NOTHING_DONE.has(this.reason);
  }

  /** Whether the session had too many operations or leases, and did nothing. */
  get isSessionFull(): boolean {
    return this.code === Code.ResourceExhausted && this.reason === "SESSION_FULL";
  }

  /** Whether the caller's quota is used up. Each server has as much: another one is no help. */
  get isOverQuota(): boolean {
    return this.code === Code.ResourceExhausted && this.reason === "QUOTA_EXCEEDED";
  }

  /** Whether time was over before the request could be sent. */
  get isUnsentInTime(): boolean {
    return this.code === Code.DeadlineExceeded && !this.sent;
  }

  get isRequestEnded(): boolean {
    return this.code === Code.Aborted && this.reason === "REQUEST_ENDED";
  }

  get isDraining(): boolean {
    return this.code === Code.Unavailable && this.reason === "DRAINING";
  }

  /** The error for the caller. */
  toError(): FencepostError {
    const options = this.cause === undefined ? undefined : { cause: this.cause };
    if (this.isOutcomeUnknown) return new OutcomeUnknown(`outcome unknown: ${this.message}`, options);
    if (!this.isTransient) {
      return new Refused(this.message, codeName(this.code), this.reason, this.violations, options);
    }
    const message = this.reason === undefined ? `no server could be reached: ${this.message}` : this.message;
    return new Unavailable(message, this.reason, { ...options, isLasting: this.isLasting });
  }
}

/** What a failed call says, in words for people. */
function wordsOf(error: ConnectError, trouble: Trouble): string {
  if (error.rawMessage === "") return `the server answered ${codeName(error.code)} without a message`;
  // With a cause it is an error of this side, whose innermost one says most.
  if (error.cause instanceof Error) return `the connection broke (${trouble.text})`;
  return error.rawMessage.startsWith("http/2 stream") ? `the connection broke (${error.rawMessage})` : error.rawMessage;
}

function violations({ fieldViolations }: BadRequest): FieldViolation[] {
  return fieldViolations.map(({ field, description }) => ({ field, description }));
}

/** The name of a code as gRPC writes it. */
function codeName(code: Code): string {
  if (code === Code.Canceled) return "CANCELLED";
  return Code[code].replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();
}
