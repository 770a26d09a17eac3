/**
 * Descriptions of a held lock: what others see of its holder.
 *
 * Each has the next number, so that a late copy of an older one changes nothing. A number is used once, although its
 * outcome may be unknown: a repeat of it with other content would change nothing.
 */
import { checkMetadata, checkText } from "./arguments.js";
import type { Core } from "./core.js";
import { Refused } from "./errors.js";
import { Failure } from "./failure.js";
import { DescribeResponse_Outcome as Outcome } from "./gen/fencepost/v1/lock_pb.js";
import type { Lease } from "./lease.js";
import { leased, lost } from "./leased.js";

/** Resolves with the number of the description. */
export async function describe(
  core: Core,
  lease: Lease,
  metadata: Readonly<Record<string, string>>,
  holder: string | undefined,
): Promise<number> {
  checkMetadata(metadata);
  if (holder !== undefined) checkText("holder", holder);
  const described = { metadata: { ...metadata }, ...(holder !== undefined && { holder }) };
  return leased(core, lease, async (ask) => {
    if (lease.description !== undefined) lease.description += 1;
    // 0 stands for the one after the last, which may be that of another process.
    const number = lease.description ?? 0;
    const request = { lockName: lease.name, leaseId: lease.leaseId, number: BigInt(number), ...described };
    const answer = await ask((service, options) => service.describe(request, options));
    switch (answer.outcome) {
      case Outcome.DESCRIBED:
        lease.description = Number(answer.number);
        if (holder !== undefined) lease.holder = holder;
        return lease.description;
      case Outcome.OUTDATED: {
        lease.description = Number(answer.number);
        const newer = `description ${String(answer.number)}, which another process sent, is newer`;
        throw new Refused(`${lease.name} was not described with ${String(number)}: ${newer}`, "ABORTED", "OUTDATED");
      }
      case Outcome.LOST:
        throw lost(lease, answer);
      default:
        throw Failure.malformed().toError();
    }
  });
}
