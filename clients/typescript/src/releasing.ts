/**
 * Releases a lease: repeated with the same ids until the outcome is known, or the lease would have ended anyhow.
 *
 * The first transmission is queued before the first await. The caller waits within a bound; the repeats go on behind
 * it. Nobody waits for the release of a lease that is over by the clock.
 */
import { create } from "@bufbuild/protobuf";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { OutcomeUnknown } from "./errors.js";
import { Failure } from "./failure.js";
import { ReleaseRequestSchema, type ReleaseResponse } from "./gen/fencepost/v1/lock_pb.js";
import type { Released } from "./info.js";
import type { Lease } from "./lease.js";
import { Operation } from "./operation.js";
import { Retries } from "./retries.js";
import { within } from "./timers.js";
import { end, token } from "./wire.js";

/**
 * Stops renewing the lease and releases it, once: a repeat gets the same answer.
 *
 * @throws OutcomeUnknown if no server answers within the client's timeout, Refused if one refuses.
 */
export function release(core: Core, lease: Lease): Promise<Released> {
  lease.released ??= start(core, lease);
  return lease.released;
}

function start(core: Core, lease: Lease): Promise<Released> {
  const loss = lease.loss(now());
  // What the servers have reported needs no question.
  if (loss !== undefined && loss.reason !== "silence" && loss.reason !== "closed") {
    return Promise.resolve({ end: loss.reason, successorToken: loss.successorToken });
  }
  const outcome = finish(core, lease);
  lease.end("released");
  core.inBackground(
    outcome.then(
      () => undefined,
      () => undefined,
    ),
  );
  if (loss?.reason === "silence") return Promise.resolve({ end: "unspecified", successorToken: undefined });
  const released = bounded(core, outcome);
  // A caller that does not wait for it is not told, and no unhandled rejection ends the process.
  released.catch(() => undefined);
  return released;
}

async function bounded(core: Core, outcome: Promise<Released>): Promise<Released> {
  const released = await core.awake.during(() => within(outcome, core.timeout));
  if (released) return released;
  throw new OutcomeUnknown("the outcome of the release is unknown: no server answered in time");
}

async function finish(core: Core, lease: Lease): Promise<Released> {
  const started = now();
  // The server's end of the lease is later than that of the holder by what the holder keeps back.
  const until = Math.max(started + core.timeout, lease.validUntil + lease.ttl / 10);
  const retries = new Retries(core.servers, until, "nobody");
  const value = create(ReleaseRequestSchema, { lockName: lease.name, leaseId: lease.leaseId });
  for (let first = true; ; first = false) {
    const operation = new Operation({ case: "release", value }, { unsent: Math.max(until - now(), 0), wait: 0 });
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
