/**
 * Outgoing messages of a session, and when they were sent.
 *
 * The transport pulls each message when it can send it, so no message goes stale in a queue. The outbox is bounded by
 * the numbers of leases and operations, and only the newest beat is answered. Detachments and releases go first, so
 * that no beat answer that could renew a lease follows its release. Acquires go last: existing leases have priority.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { LeaseAttachmentSchema } from "./gen/fencepost/v1/lock_pb.js";
import type { Lease } from "./lease.js";
import type { Operation } from "./operation.js";
import { Operations, type Outgoing } from "./operations.js";

/** The maximum total size of the items of one message; the server accepts 64 KiB. */
const MESSAGE_BYTES = 48 * 1024;
/** The maximum wire size of an attachment without its name and lease id. */
const ATTACHMENT_BYTES = 32;
/** The maximum number of handles in one message; each takes up to 5 bytes. */
const HANDLES_MAX = Math.floor(MESSAGE_BYTES / 5);
/** The number of beat answers remembered for renewals that quote them. A server renews well within so many beats. */
const ANSWERS_MAX = 64;
/** The highest handle: the field has 32 bits. */
const HANDLE_MAX = 2 ** 32 - 1;

/** One attachment of a lease to this session. */
export interface Attachment {
  readonly lease: Lease;
  /** The attempt number, which counts over all sessions. */
  readonly number: number;
  /** When it was sent. */
  sent: number | undefined;
  /** Whether it repeats one that the server ended on this session. */
  readonly isRepeated: boolean;
  /** Whether the server has confirmed it. */
  confirmed: boolean;
}

export class Outbox {
  readonly operations = new Operations();
  readonly #attached = new Map<number, Attachment>();
  readonly #handles = new Map<Lease, number>();
  #lastHandle = 0;
  readonly #toAttach = new Set<number>();
  #toDetach: number[] = [];
  #toAnswer: bigint | undefined;
  readonly #answered = new Map<bigint, number>();
  #unconfirmed = 0;

  /** The attached leases, sent or unsent. */
  *leases(): Iterable<Lease> {
    for (const { lease } of this.#attached.values()) yield lease;
  }

  /** The number of attachments that the server has confirmed. */
  get confirmed(): number {
    return this.#attached.size - this.#unconfirmed;
  }

  get isConfirmed(): boolean {
    return this.#unconfirmed === 0;
  }

  isAttached(lease: Lease): boolean {
    return this.#handles.has(lease);
  }

  /** Attaches a lease under a new handle, replacing its previous handle on this session. */
  attach(lease: Lease, now: number, isRepeated = false): void {
    lease.attachment += 1;
    lease.attachedAt = now;
    const handle = this.#nextHandle();
    this.#insert(handle, { lease, number: lease.attachment, sent: undefined, isRepeated, confirmed: false });
    this.#toAttach.add(handle);
  }

  /** Adds a lease that was granted here by a request sent at `sent`, and is attached by its grant. */
  granted(handle: number, lease: Lease, sent: number): void {
    this.#insert(handle, { lease, number: lease.attachment, sent, isRepeated: false, confirmed: true });
  }

  acquire(operation: Operation): void {
    operation.handle = this.#nextHandle();
    this.operations.add(operation);
  }

  /** Queues the release of a lease, which detaches it as well. */
  release(operation: Operation, lease: Lease | undefined): void {
    operation.handle = lease && this.#forget(lease);
    this.operations.add(operation);
  }

  /** Returns whether the operation was removed, because it was not sent. */
  withdraw(operation: Operation): boolean {
    const removed = this.operations.withdraw(operation);
    if (removed) this.#detachReleased(operation);
    return removed;
  }

  /** Removes an answered operation. A failed release still detaches the lease. */
  operationAnswered(number: bigint, failed: boolean): Operation | undefined {
    const operation = this.operations.answered(number);
    if (operation && failed) this.#detachReleased(operation);
    return operation;
  }

  detach(lease: Lease): void {
    const handle = this.#forget(lease);
    if (handle !== undefined) this.#toDetach.push(handle);
  }

  /** Queues the answer to a beat. */
  answer(beat: bigint): void {
    this.#toAnswer = beat;
  }

  /** When a beat was answered. */
  answeredAt(beat: bigint): number | undefined {
    return this.#answered.get(beat);
  }

  attachment(handle: number): Attachment | undefined {
    return this.#attached.get(handle);
  }

  /** The server has renewed a lease. `undefined` if the handle is unknown or its attachment not sent. */
  confirm(handle: number): Attachment | undefined {
    const attachment = this.#attached.get(handle);
    if (attachment?.sent === undefined) return undefined;
    if (!attachment.confirmed) this.#unconfirmed -= 1;
    attachment.confirmed = true;
    return attachment;
  }

  /** Removes a lease that the server no longer keeps. */
  take(handle: number): Attachment | undefined {
    const attachment = this.#remove(handle);
    if (attachment && this.#handles.get(attachment.lease) === handle) this.#handles.delete(attachment.lease);
    return attachment;
  }

  /** The next message. Its effect counts from `now`, which is before it is sent. */
  next(now: number): Outgoing | undefined {
    return (
      this.#nextDetach() ??
      this.operations.nextUrgent(now) ??
      this.#nextAnswer(now) ??
      this.#nextAttach(now) ??
      this.operations.nextAcquire(now)
    );
  }

  /** Removes everything, and returns the operations without an answer. */
  close(): Operation[] {
    for (const all of [this.#attached, this.#handles, this.#toAttach, this.#answered]) all.clear();
    this.#toDetach = [];
    this.#toAnswer = undefined;
    this.#unconfirmed = 0;
    return this.operations.drain();
  }

  #nextHandle(): number {
    do {
      this.#lastHandle = this.#lastHandle === HANDLE_MAX ? 1 : this.#lastHandle + 1;
    } while (this.#attached.has(this.#lastHandle) || this.operations.isReserved(this.#lastHandle));
    return this.#lastHandle;
  }

  #insert(handle: number, attachment: Attachment): void {
    const old = this.#handles.get(attachment.lease);
    if (old !== undefined) this.#remove(old);
    this.#handles.set(attachment.lease, handle);
    this.#attached.set(handle, attachment);
    if (!attachment.confirmed) this.#unconfirmed += 1;
  }

  #remove(handle: number): Attachment | undefined {
    const attachment = this.#attached.get(handle);
    if (attachment === undefined) return undefined;
    this.#attached.delete(handle);
    this.#toAttach.delete(handle);
    if (!attachment.confirmed) this.#unconfirmed -= 1;
    return attachment;
  }

  /** Removes a lease and returns its handle if the server knows it. */
  #forget(lease: Lease): number | undefined {
    const handle = this.#handles.get(lease);
    if (handle === undefined) return undefined;
    this.#handles.delete(lease);
    return this.#remove(handle)?.sent === undefined ? undefined : handle;
  }

  #detachReleased({ isAcquire, handle }: Operation): void {
    if (!isAcquire && handle !== undefined) this.#toDetach.push(handle);
  }

  #nextDetach(): Outgoing | undefined {
    if (this.#toDetach.length === 0) return undefined;
    const handles = this.#toDetach.splice(0, HANDLES_MAX);
    return { message: { case: "detach", value: { handles } } };
  }

  #nextAnswer(now: number): Outgoing | undefined {
    const beat = this.#toAnswer;
    if (beat === undefined) return undefined;
    this.#toAnswer = undefined;
    const [oldest] = this.#answered.keys();
    if (this.#answered.size === ANSWERS_MAX && oldest !== undefined) this.#answered.delete(oldest);
    this.#answered.set(beat, now);
    return { message: { case: "answer", value: { beat } } };
  }

  #nextAttach(now: number): Outgoing | undefined {
    const leases: MessageInitShape<typeof LeaseAttachmentSchema>[] = [];
    let bytes = 0;
    for (const handle of this.#toAttach) {
      const attachment = this.#attached.get(handle);
      if (attachment === undefined) continue;
      const { lease, number } = attachment;
      bytes += Buffer.byteLength(lease.name) + lease.leaseId.length + ATTACHMENT_BYTES;
      if (bytes > MESSAGE_BYTES && leases.length > 0) break;
      this.#toAttach.delete(handle);
      attachment.sent = now;
      leases.push({ handle, lockName: lease.name, leaseId: lease.leaseId, attempt: number });
    }
    return leases.length === 0 ? undefined : { message: { case: "attach", value: { leases } } };
  }
}
