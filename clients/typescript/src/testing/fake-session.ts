/** One session of the fake server: answers operations, and sends the beats whose answers renew leases. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { create } from "@bufbuild/protobuf";
import { now } from "../clock.js";
import { ERROR_DOMAIN } from "../facts.js";
import {
  AcquireResponse_Outcome as Outcome,
  Detached_Reason as Reason,
  type LeaseAttachment,
  LeaseEnd,
  RenewResponse_Outcome as Renewal,
  type SessionAcquire,
  type SessionRequest,
  type SessionResponseSchema,
} from "../gen/fencepost/v1/lock_pb.js";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.js";
import { after } from "../timers.js";
import { duration } from "../wire.js";
import { type Asker, type Grant, holderOf, type Keeper, type Locks } from "./locks.js";
import type { Pause } from "./pause.js";

type Response = MessageInitShape<typeof SessionResponseSchema>;

/** The part of the shortest TTL between two beats, and the longest time between them. */
const BEAT_DIVISOR = 9;
const BEAT_MAX_MS = 10_000;

export class FakeSession implements Keeper {
  readonly #locks: Locks;
  readonly #pause: Pause;
  readonly #handles = new Map<Grant, number>();
  readonly #grants = new Map<number, Grant>();
  readonly #waiting = new Map<bigint, Asker>();
  readonly #outgoing: Response[] = [];
  #wake: (() => void) | undefined;
  #closed = false;
  #beat = 0n;
  #beatTimer: NodeJS.Timeout | undefined;
  #beatDue = 0;
  #beatUnsent = false;

  constructor(locks: Locks, pause: Pause) {
    this.#locks = locks;
    this.#pause = pause;
  }

  /** Handles what the client sends, until it ends the stream. */
  async read(requests: AsyncIterable<SessionRequest>): Promise<void> {
    try {
      for await (const request of requests) {
        await this.#pause.wait();
        if (this.#closed) return;
        this.#handle(request);
      }
    } catch {
      // The connection broke.
    }
    this.close();
  }

  async *answers(): AsyncGenerator<Response> {
    for (;;) {
      await this.#pause.wait();
      if (this.#closed) return;
      const next = this.#outgoing.shift();
      if (next?.message?.case === "beat") this.#beatUnsent = false;
      if (next !== undefined) yield next;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Ends the stream. Leases stay, and so do, for a while, the places in queues. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#beatTimer);
    for (const grant of this.#grants.values()) grant.keeper = undefined;
    for (const asker of this.#waiting.values()) this.#locks.leave(asker);
    this.#wake?.();
  }

  ended(grant: Grant, successorToken: bigint): void {
    const handle = this.#detach(grant);
    if (handle === undefined) return;
    const end = grant.end ?? LeaseEnd.UNKNOWN;
    this.#send({ message: { case: "lost", value: { handle, end, successorToken } } });
  }

  replaced(grant: Grant): void {
    const handle = this.#detach(grant);
    if (handle !== undefined) this.#detached(handle, Reason.ATTACHED_ELSEWHERE);
  }

  #send(response: Response): void {
    this.#outgoing.push(response);
    this.#wake?.();
  }

  /** Sends the answer to an operation, or loses it together with the stream. */
  #answer(response: Response): void {
    if (!this.#locks.dropsReply) {
      this.#send(response);
      return;
    }
    this.#locks.dropsReply = false;
    this.close();
  }

  #handle({ operation, message }: SessionRequest): void {
    switch (message.case) {
      case "acquire":
        this.#acquire(operation, message.value);
        break;
      case "release":
        this.#release(operation, message.value.leaseId);
        break;
      case "renew":
        this.#renew(operation, message.value.leaseId);
        break;
      case "cancel": {
        const asker = this.#waiting.get(message.value.operation);
        if (asker) this.#locks.withdraw(asker);
        break;
      }
      case "attach":
        for (const attachment of message.value.leases) this.#attachAgain(attachment);
        break;
      case "detach":
        for (const handle of message.value.handles) {
          const grant = this.#grants.get(handle);
          if (grant) this.#detach(grant);
          this.#detached(handle, Reason.REQUESTED);
        }
        break;
      case "answer":
        this.#renewAttached(message.value.beat);
        break;
      case undefined:
    }
  }

  #acquire(operation: bigint, { request, handle }: SessionAcquire): void {
    if (request === undefined) return;
    const arrived = now();
    const notGranted = (outcome: Outcome) => {
      this.#waiting.delete(operation);
      const current = this.#locks.current(request.lockName);
      const waiters = this.#locks.info(request.lockName).waiters ?? 0;
      const value = { outcome, waiters, holders: current === undefined ? [] : [holderOf(current)] };
      this.#answer({ operation, message: { case: "acquire", value } });
    };
    const asker: Asker = {
      request,
      waiting: (ahead) => {
        this.#waiting.set(operation, asker);
        this.#send({ operation, message: { case: "waiting", value: { ahead } } });
      },
      granted: (grant) => {
        this.#waiting.delete(operation);
        const { token: fencingToken, leaseId, grantId, previousEnd } = grant;
        const at = now();
        this.#attach(grant, handle);
        const lease = { lockName: request.lockName, leaseId, grantId, fencingToken, ttl: duration(grant.until - at) };
        const value = { outcome: Outcome.ACQUIRED, lease, heldFor: duration(at - arrived), previousEnd };
        this.#answer({ operation, message: { case: "acquire", value } });
      },
      timedOut: () => {
        notGranted(Outcome.TIMED_OUT);
      },
      refused: (reason) => {
        this.#waiting.delete(operation);
        const details = [anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { domain: ERROR_DOMAIN, reason }))];
        const message = reason === "OVERTAKEN" ? "a newer attempt is answered" : "the lease of this request has ended";
        this.#answer({ operation, message: { case: "error", value: { code: Code.Aborted, message, details } } });
      },
    };
    if (this.#locks.acquire(asker)) notGranted(Outcome.CONTENDED);
  }

  #release(operation: bigint, leaseId: string): void {
    const grant = this.#locks.find(leaseId);
    if (grant) {
      this.#detach(grant);
      grant.keeper = undefined;
      this.#locks.end(grant, LeaseEnd.RELEASED);
    }
    const end = grant?.end ?? LeaseEnd.UNKNOWN;
    const successorToken = grant === undefined || end === LeaseEnd.RELEASED ? 0n : this.#locks.successor(grant);
    this.#answer({ operation, message: { case: "release", value: { end, successorToken } } });
  }

  #renew(operation: bigint, leaseId: string): void {
    const grant = this.#locks.find(leaseId);
    if (grant?.end === undefined && grant !== undefined) {
      this.#locks.renew(grant);
      const value = { outcome: Renewal.RENEWED, ttl: duration(grant.ttl), fencingToken: grant.token };
      this.#answer({ operation, message: { case: "renew", value } });
      return;
    }
    const successorToken = grant === undefined ? 0n : this.#locks.successor(grant);
    const value = { outcome: Renewal.LOST, end: grant?.end ?? LeaseEnd.UNKNOWN, successorToken };
    this.#answer({ operation, message: { case: "renew", value } });
  }

  #attachAgain({ handle, leaseId, attempt }: LeaseAttachment): void {
    const grant = this.#locks.find(leaseId);
    if (grant?.end !== undefined || grant === undefined) {
      const successorToken = grant === undefined ? 0n : this.#locks.successor(grant);
      const value = { handle, end: grant?.end ?? LeaseEnd.UNKNOWN, successorToken };
      this.#send({ message: { case: "lost", value } });
    } else if (attempt < grant.attempt) {
      this.#detached(handle, Reason.ATTACHED_ELSEWHERE);
    } else {
      grant.attempt = attempt;
      this.#locks.renew(grant);
      this.#attach(grant, handle);
      const leases = [{ ttl: duration(grant.ttl), handles: [handle] }];
      this.#send({ message: { case: "attached", value: { leases } } });
    }
  }

  #attach(grant: Grant, handle: number): void {
    if (grant.keeper !== this) grant.keeper?.replaced(grant);
    this.#detach(grant);
    grant.keeper = this;
    this.#handles.set(grant, handle);
    this.#grants.set(handle, grant);
    this.#beatWithin(this.#pace);
  }

  #detach(grant: Grant): number | undefined {
    const handle = this.#handles.get(grant);
    if (handle === undefined) return undefined;
    this.#handles.delete(grant);
    this.#grants.delete(handle);
    grant.keeper = undefined;
    return handle;
  }

  #detached(handle: number, reason: Reason): void {
    this.#send({ message: { case: "detached", value: { handle, reason } } });
  }

  get #pace(): number {
    let pace = BEAT_MAX_MS;
    for (const { ttl } of this.#grants.values()) pace = Math.min(pace, ttl / BEAT_DIVISOR);
    return pace;
  }

  /** Sends a beat within that time, unless one is due before. */
  #beatWithin(ms: number): void {
    const due = now() + ms;
    if (this.#beatTimer !== undefined && due >= this.#beatDue) return;
    clearTimeout(this.#beatTimer);
    this.#beatDue = due;
    this.#beatTimer = after(ms, () => {
      this.#beatTimer = undefined;
      // While nothing is sent, beats do not pile up.
      if (!this.#beatUnsent && this.#grants.size > 0) {
        this.#beatUnsent = true;
        this.#beat += 1n;
        const nextIn = duration(this.#pace);
        this.#send({ message: { case: "beat", value: { beat: this.#beat, nextIn } } });
      }
      if (this.#grants.size > 0) this.#beatWithin(this.#pace);
    });
  }

  /** Renews the leases that have used up a third of their TTL. */
  #renewAttached(beat: bigint): void {
    const leases = [];
    for (const [handle, grant] of this.#grants) {
      if (grant.until - now() > (grant.ttl * 2) / 3) continue;
      this.#locks.renew(grant);
      leases.push({ ttl: duration(grant.ttl), handles: [handle] });
    }
    if (leases.length > 0) this.#send({ message: { case: "renewed", value: { beat, leases } } });
  }
}
