/**
 * Releases a lease: repeated with the same ids until the outcome is known, or the lease would have ended anyhow.
 *
 * The first transmission is queued before the first await. The caller waits within a bound; the repeats go on behind
 * it. Nobody waits for the release of a lease that is over: it is sent if the server may not know that, and to end the
 * `lockDelay` of a lease that expired.
 */
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { type LockLost, OutcomeUnknown } from "./errors.js";
import { Failure } from "./failure.js";
import { ReleaseRequestSchema, type ReleaseResponse } from "./gen/fencepost/v1/lock_pb.js";
import type { Released } from "./info.js";
import type { Lease } from "./lease.js";
import { Operation } from "./operation.js";
import { Retries } from "./retries.js";
import { within } from "./timers.js";
import { end, token } from "./wire.js";

/** Who waits for a release. What nobody waits for is logged if it fails. */
export type Waits = "caller" | "nobody";

/**
 * Stops renewing the lease and releases it, once: a repeat gets the same answer.
 *
 * @throws OutcomeUnknown if no server answers within the client's timeout, Refused if one refuses.
 */
export function release(core: Core, lease: Lease, waits: Waits = "caller"): Promise<Released> {
  lease.released ??= start(core, lease, waits);
  return lease.released;
}

function start(core: Core, lease: Lease, waits: Waits): Promise<Released> {
  const loss = lease.loss(now());
  const over = loss === undefined ? undefined : answerTo(loss);
  const isReported = over !== undefined && over.end !== "unspecified";
  const endsDelay = over?.end === "expired" && lease.hasLockDelay;
  if (isReported && !endsDelay) return Promise.resolve(over);
  // The server's end of the lease is later than that of the holder by what the holder keeps back.
  const until = Math.max(now() + core.timeout, lease.validUntil + lease.ttl / 10);
  const retries = new Retries(core.servers, until, "nobody");
  const outcome = finish(core, lease, until, retries);
  lease.giveUp("released");
  let isWaitedFor = waits === "caller" && over === undefined;
  core.inBackground(
    outcome.then(
      () => undefined,
      (error: unknown) => {
        if (!isWaitedFor) gaveUp(core, lease.name, error, lease.token);
      },
    ),
  );
  if (over !== undefined) return Promise.resolve(over);
  const released = bounded(core, outcome, retries, () => (isWaitedFor = false));
  // A caller that does not wait for it is not told, and no unhandled rejection ends the process.
  released.catch(() => undefined);
  return released;
}

/** What the release of a lost lease answers at once; `undefined` for that of a client that is closed. */
function answerTo({ reason, successorToken }: LockLost): Released | undefined {
  if (reason === "closed") return undefined;
  if (reason === "silence" || reason === "maxHold") return { end: "unspecified", successorToken: undefined };
  return { end: reason, successorToken };
}

async function bounded(
  core: Core,
  outcome: Promise<Released>,
  retries: Retries,
  leave: () => void,
): Promise<Released> {
  const released = await core.awake.during(() => within(outcome, core.timeout));
  if (released) return released;
  leave();
  const message = `no server confirmed the release within ${String(core.timeout / 1000)} s`;
  throw new Failure(Code.DeadlineExceeded, message, true).afterAnswer(retries.answer).toError();
}

/** A release, or the withdrawal of an acquire, failed for good, and nobody waits for it. */
export function gaveUp(core: Core, lock: string, error: unknown, token?: number): void {
  const cause = error instanceof Error ? error.message : String(error);
  const text = `${lock} could not be released in the background: ${cause}; it is free after its TTL`;
  core.log.warn(text, { lock, ...(token !== undefined && { token }), cause });
}

async function finish(core: Core, lease: Lease, until: number, retries: Retries): Promise<Released> {
  const value = create(ReleaseRequestSchema, { lockName: lease.name, leaseId: lease.leaseId });
  for (let first = true; ; first = false) {
    const limits = { unsent: Math.max(until - now(), 0), answer: core.servers.answerTime, wait: 0 };
    const operation = new Operation({ case: "release", value }, limits);
    const session = first ? core.keeper.release(lease, operation) : core.keeper.session();
    if (!first) session.start(operation, lease);
    const outcome = await operation.outcome;
    if (!(outcome instanceof Failure)) {
      if (outcome.answer.case === "release") return released(outcome.answer.value);
      throw new OutcomeUnknown("the server answered a release with another message");
    }
    const final = await retries.failed(session.server, outcome);
    if (final) throw final.toError();
  }
}

function released(response: ReleaseResponse): Released {
  return { end: end(response.end), successorToken: token(response.successorToken) };
}
