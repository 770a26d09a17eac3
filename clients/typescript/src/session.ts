/** One session with a server: its read loop, its outgoing stream, and its health. */
import { Code } from "@connectrpc/connect";
import type { Connection } from "./connection.js";
import { now } from "./clock.js";
import { STORE_ID_METADATA } from "./facts.js";
import { Failure } from "./failure.js";
import type { AcquireResponse, Lost, RenewedLeases, SessionResponse } from "./gen/fencepost/v1/lock_pb.js";
import { AcquireResponse_Outcome as Outcome, Detached_Reason as Reason } from "./gen/fencepost/v1/lock_pb.js";
import { Lease } from "./lease.js";
import type { Carrier, Operation } from "./operation.js";
import type { Outgoing } from "./operations.js";
import { Outbox } from "./outbox.js";
import { lossReason, milliseconds, mode, token } from "./wire.js";

/** Told when the health of a session changes. */
export interface SessionListener {
  /** Its server told the id of its store, before any message. */
  toldStore(session: Session, id: string): void;
  /** The first message of its server has arrived. */
  answered(session: Session): void;
  /** It works from now on, or needs a replacement. */
  changed(session: Session): void;
  /** It has no room for the lease. */
  full(lease: Lease): void;
  /** It ended by itself, or its server drains. */
  failed(session: Session, failure: Failure): void;
}

export class Session implements Carrier {
  /** The index of its server. */
  readonly server: number;
  readonly #connection: Connection;
  readonly #listener: SessionListener;
  readonly #outbox = new Outbox();
  readonly #stop = new AbortController();
  #wake: (() => void) | undefined;
  /** When the last message arrived; before the first one, when the session was opened. */
  #lastReceived: number;
  #answers = false;
  #proven = false;
  #draining = false;
  #end: Failure | undefined;
  #endedAt = 0;

  constructor(server: number, connection: Connection, listener: SessionListener, now: number) {
    this.server = server;
    this.#connection = connection;
    this.#listener = listener;
    this.#lastReceived = now;
  }

  get lastReceived(): number {
    return this.#lastReceived;
  }

  /** Whether any message has arrived. */
  get answers(): boolean {
    return this.#answers;
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** Why it ended; `undefined` while it has not. */
  get end(): Failure | undefined {
    return this.#end;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** When the next session may be opened, if its server had no room for this one. */
  get reopenAt(): number {
    return this.#end?.isStreamRefused === true ? this.#endedAt + this.#end.retryDelay : 0;
  }

  /** Whether it has kept a lease alive and has not ended. */
  get works(): boolean {
    return this.#proven && !this.hasEnded;
  }

  /** Whether any operation is in flight. */
  get isBusy(): boolean {
    return !this.#outbox.operations.isEmpty;
  }

  /** Whether the server has confirmed every attachment. */
  get keepsAll(): boolean {
    return this.#outbox.isConfirmed;
  }

  /** The number of leases that the server keeps on this session. */
  get kept(): number {
    return this.#outbox.confirmed;
  }

  /** The shortest TTL of the attached leases, which sets the server's pace; `undefined` without leases. */
  get pace(): number | undefined {
    let shortest: number | undefined;
    for (const { ttl } of this.#outbox.leases()) shortest = Math.min(shortest ?? ttl, ttl);
    return shortest;
  }

  /** The beats become quicker: silence counts from now. */
  paceChanged(now: number): void {
    this.#lastReceived = Math.max(this.#lastReceived, now);
  }

  isAttached(lease: Lease): boolean {
    return this.#outbox.isAttached(lease);
  }

  attach(lease: Lease, now: number): void {
    if (this.hasEnded) return;
    this.#outbox.attach(lease, now);
    this.#wake?.();
  }

  detach(lease: Lease): void {
    this.#outbox.detach(lease);
    this.#wake?.();
  }

  /** Queues an operation. `lease` is the attached lease that a release ends. */
  start(operation: Operation, lease?: Lease): void {
    if (this.#end !== undefined) {
      operation.settle(this.#afterEnd(this.#end));
      return;
    }
    if (operation.isAcquire) this.#outbox.acquire(operation);
    else this.#outbox.release(operation, lease);
    operation.queued(this);
    this.#wake?.();
  }

  /** The failure of an operation that came too late. */
  #afterEnd(end: Failure): Failure {
    if (end.isStreamRefused) return end.withDelay(Math.max(this.reopenAt - now(), 0));
    return end.sent ? Failure.local(end.message, false, end.cause) : end;
  }

  /** Opens the session and reads it until it ends. Never rejects. */
  async run(): Promise<void> {
    let failure = await this.#connection.open();
    if (this.hasEnded) this.#connection.close();
    else failure ??= await this.#read();
    if (failure !== undefined) this.#fail(failure);
  }

  withdraw(operation: Operation): void {
    if (this.#outbox.withdraw(operation)) {
      operation.settle(new Failure(Code.Canceled, "the operation was withdrawn before it was sent", false));
    }
    this.#wake?.();
  }

  /** If nothing has arrived since the operation was sent, the session fell silent, and ends with its connection. */
  overdue(operation: Operation): void {
    this.withdraw(operation);
    if (operation.sent === undefined || this.#lastReceived > operation.sent) return;
    this.#fail(Failure.local(`${this.#connection.address.text}: it fell silent`, true));
  }

  #fail(failure: Failure): void {
    if (this.hasEnded) return;
    this.close(failure);
    this.#listener.failed(this, failure);
  }

  /** Ends the stream and its connection. Operations without an answer fail. */
  close(failure: Failure): void {
    if (this.#end !== undefined) return;
    this.#end = failure;
    this.#endedAt = now();
    const operations = this.#outbox.close();
    this.#wake?.();
    this.#stop.abort();
    this.#connection.close();
    for (const operation of operations) {
      const sent = operation.sent !== undefined;
      const known = failure.isLasting || !failure.isTransient;
      operation.settle(known ? failure : Failure.local(failure.message, sent, failure.cause));
    }
  }

  /** Returns why the session ended. */
  async #read(): Promise<Failure> {
    const { client, address } = this.#connection;
    const onHeader = (headers: Headers) => {
      const id = headers.get(STORE_ID_METADATA);
      if (id !== null) this.#listener.toldStore(this, id);
    };
    try {
      for await (const response of client.session(this.#outgoing(), { signal: this.#stop.signal, onHeader })) {
        this.#receive(response, now());
        if (this.hasEnded) break;
      }
    } catch (error) {
      const failure = Failure.of(error, true, address.text);
      if (!this.#answers) return failure.ofStream();
      // What ends a session that has answered says nothing about earlier operations.
      if (failure.isTransient && !failure.isLasting) return failure;
      return Failure.local(failure.message, true, failure.cause);
    }
    return Failure.local(`${address.text}: the session ended`, true);
  }

  /** The outgoing stream: the transport pulls the next message when it can send it. */
  async *#outgoing(): AsyncGenerator<Outgoing> {
    while (!this.hasEnded) {
      const message = this.#outbox.next(now());
      if (message) {
        // Not each answer to a beat renews something.
        if (message.message?.case !== "answer") this.#connection.answerIsDue();
        yield message;
      } else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** No await here, so that a beat is answered as soon as it is read. */
  #receive({ operation, message }: SessionResponse, now: number): void {
    this.#lastReceived = now;
    if (!this.#answers) this.#listener.answered(this);
    this.#answers = true;
    const worked = this.#proven;
    switch (message.case) {
      case "beat":
        this.#outbox.answer(message.value.beat);
        break;
      case "renewed": {
        this.#proven = true;
        const sent = this.#outbox.answeredAt(message.value.beat);
        // A renewal that quotes a forgotten answer is too old to be useful.
        if (sent !== undefined) this.#renewed(message.value.leases, sent, now);
        break;
      }
      case "attached":
        this.#proven = true;
        this.#renewed(message.value.leases, undefined, now);
        break;
      case "acquire":
      case "release":
      case "renew":
      case "error":
        this.#answered(operation, message, now);
        break;
      case "waiting":
        this.#outbox.operations.get(operation)?.waiting(message.value.ahead);
        break;
      case "lost":
        this.#proven = true;
        this.#lost(message.value);
        break;
      case "atRisk":
        for (const handle of message.value.handles) this.#atRisk(handle, now);
        break;
      case "wanted":
        this.#outbox.attachment(message.value.handle)?.lease.wantedAs(mode(message.value.mode) ?? "exclusive");
        break;
      case "detached":
        this.#detached(message.value.handle, message.value.reason, now);
        break;
      case "draining":
        this.#drains();
        break;
      case undefined:
    }
    this.#wake?.();
    if (this.#proven && !worked) this.#listener.changed(this);
  }

  #answered(
    number: bigint,
    message: Extract<SessionResponse["message"], { case: "acquire" | "release" | "renew" | "error" }>,
    read: number,
  ): void {
    const operation = this.#outbox.operationAnswered(number, message.case === "error");
    if (operation?.sent === undefined) return;
    if (message.case === "error") {
      const failure = Failure.ofOperation(message.value);
      if (failure.isDraining) this.#drains();
      operation.settle(failure);
      return;
    }
    const { sent } = operation;
    const lease = message.case === "acquire" ? this.#granted(operation, message.value, sent, read) : undefined;
    // Nobody waits any more: a lease without an owner must end by its TTL.
    if (!operation.isOpen && lease) this.detach(lease);
    operation.settle({ sent, read, answer: message, lease });
  }

  #granted(operation: Operation, response: AcquireResponse, sent: number, read: number): Lease | undefined {
    const { request, handle } = operation;
    if (response.outcome !== Outcome.ACQUIRED || response.lease === undefined) return undefined;
    if (request.case !== "acquire" || handle === undefined) return undefined;
    const lease = new Lease(response.lease, response, request.value, sent, read);
    this.#outbox.granted(handle, lease, sent);
    this.#proven = true;
    return lease;
  }

  /** Leases were renewed, by the beat answer sent at `answered` or by their attachment. */
  #renewed(groups: readonly RenewedLeases[], answered: number | undefined, read: number): void {
    for (const group of groups) {
      const ttl = milliseconds(group.ttl);
      for (const handle of group.handles) {
        const attachment = this.#outbox.confirm(handle);
        if (attachment?.sent === undefined) continue;
        attachment.lease.renewed({ sent: answered ?? attachment.sent, read, heldFor: 0, ttl });
      }
    }
  }

  #lost({ handle, end, successorToken }: Lost): void {
    this.#outbox.take(handle)?.lease.end(lossReason(end), token(successorToken));
  }

  #atRisk(handle: number, now: number): void {
    const attachment = this.#outbox.attachment(handle);
    if (attachment === undefined || attachment.number !== attachment.lease.attachment) return;
    attachment.lease.storeUnreachable = true;
    attachment.lease.atRisk(now, "the store of the server cannot be reached");
  }

  /** The session no longer keeps a lease alive. */
  #detached(handle: number, reason: Reason, now: number): void {
    const attachment = this.#outbox.take(handle);
    // If this client has attached the lease to its next session since, this is expected.
    if (attachment === undefined || attachment.number !== attachment.lease.attachment) return;
    const { lease } = attachment;
    if (reason === Reason.STREAM_FULL) {
      lease.onStream = false;
      this.#listener.full(lease);
      return;
    }
    // Once on each session: a delayed message of an old session may have taken the lease. Twice means that another
    // process has it.
    if (!attachment.isRepeated) {
      this.#outbox.attach(lease, now, true);
      return;
    }
    // It stays valid until the known end, and is not renewed here any more.
    lease.onStream = false;
    lease.atRisk(now, "another process renews it");
  }

  #drains(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#listener.failed(this, Failure.local("it drains", true));
    this.#listener.changed(this);
  }
}
