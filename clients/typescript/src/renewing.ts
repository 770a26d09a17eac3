/** Renews one lease by a request of its own: if it was granted late, or the session has no room for it. */
import { Failure } from "./failure.js";
import { RenewResponse_Outcome as Outcome, RenewRequestSchema } from "./gen/fencepost/v1/lock_pb.js";
import { create } from "@bufbuild/protobuf";
import type { Keeper } from "./keeper.js";
import type { Lease } from "./lease.js";
import { ANSWER_TIMEOUT_MS, Operation } from "./operation.js";
import { within } from "./timers.js";
import { lossReason, milliseconds, token } from "./wire.js";

/** Tries once. If it fails, the lease stays what it was. */
export async function renew(keeper: Keeper, lease: Lease, signal?: AbortSignal): Promise<void> {
  const value = create(RenewRequestSchema, { lockName: lease.name, leaseId: lease.leaseId });
  const limits = { unsent: ANSWER_TIMEOUT_MS, answer: ANSWER_TIMEOUT_MS, wait: 0 };
  const operation = new Operation({ case: "renew", value }, limits);
  keeper.session().start(operation);
  const outcome = await within(operation.outcome, undefined, signal);
  if (outcome === undefined) operation.cancel();
  if (outcome === undefined || outcome instanceof Failure || outcome.answer.case !== "renew") return;
  const { sent, read } = outcome;
  const response = outcome.answer.value;
  if (response.outcome === Outcome.LOST) lease.end(lossReason(response.end), token(response.successorToken));
  if (response.outcome !== Outcome.RENEWED) return;
  lease.renewed({ sent, read, heldFor: milliseconds(response.heldFor), ttl: milliseconds(response.ttl) });
}
