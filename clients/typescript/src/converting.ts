/**
 * Conversions of a held lock: a writer becomes a reader, or the only reader a writer.
 *
 * Every transmission carries the token that the lease had before, so a repeat answers what the first one did.
 */
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import { ConvertResponse_Outcome as Outcome, LockMode } from "./gen/fencepost/v1/lock_pb.js";
import type { Lease } from "./lease.js";
import { leased, lost } from "./leased.js";

const WIRE = { exclusive: LockMode.EXCLUSIVE, shared: LockMode.SHARED } as const;

/** Resolves with whether the lock has the mode now: others may share it. */
export function convert(core: Core, lease: Lease, mode: keyof typeof WIRE): Promise<boolean> {
  return leased(core, lease, async (ask) => {
    const { name: lockName, leaseId } = lease;
    const request = { lockName, leaseId, fencingToken: BigInt(lease.token), mode: WIRE[mode] };
    const answer = await ask((service, options) => service.convert(request, options));
    switch (answer.outcome) {
      case Outcome.CONVERTED:
        lease.converted(mode, Number(answer.fencingToken));
        return true;
      case Outcome.CONTENDED:
        return false;
      case Outcome.LOST:
        throw lost(lease, answer);
      default:
        throw Failure.malformed().toError();
    }
  });
}
