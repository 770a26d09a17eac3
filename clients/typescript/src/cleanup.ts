/**
 * Cleanup after an acquire that its caller gave up.
 *
 * It is cancelled on its session and still answered: if the grant came first, the lease is released. Without an answer,
 * a further attempt without a wait either withdraws the request from the queue or returns the granted lease, which is
 * then released. All of it is bounded, and never rejects.
 */
import { Code } from "@connectrpc/connect";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { Failure } from "./failure.js";
import type { Answered } from "./operation.js";
import { gaveUp, release } from "./releasing.js";
import { type Request, transmission } from "./request.js";
import { Retries } from "./retries.js";
import { transmit, type Transmission } from "./transmission.js";

/** Cancels the acquire that is in flight, the given attempt. `isRepeat`: an earlier one may have been delivered. */
export async function cancelled(
  core: Core,
  sent: Transmission,
  request: Request,
  attempt: number,
  isRepeat: boolean,
): Promise<void> {
  sent.cancel();
  const outcome = await sent.outcome;
  if (!(outcome instanceof Failure)) await discard(core, outcome);
  else if (mayBeApplied(outcome, isRepeat)) await withdraw(core, request, attempt + 1);
}

/** Withdraws a request that may be queued or granted. */
export async function withdraw(core: Core, request: Request, attempt: number): Promise<void> {
  const until = now() + core.timeout;
  const retries = new Retries(core.servers, until, "nobody");
  for (let byCall = false; ; attempt += 1) {
    const options = { unsent: Math.max(until - now(), 0), wait: 0, byCall };
    const sent = transmit(core, transmission(request, attempt, 0), options);
    const outcome = await sent.outcome;
    if (!(outcome instanceof Failure)) {
      await discard(core, outcome);
      return;
    }
    byCall = outcome.isSessionFull;
    const final = await retries.failed(sent.server, outcome);
    if (final === undefined) continue;
    if (mayBeApplied(final, true)) gaveUp(core, request.message.lockName, final.toError());
    return;
  }
}

/** Whether the request may be queued or granted although its last transmission failed. */
export function mayBeApplied(failure: Failure, retried: boolean): boolean {
  // With a reason, aborted is the outcome of the request, whichever transmission caused it. Any other refusal concerns
  // its own transmission only.
  if (failure.code === Code.Aborted && failure.reason !== undefined) return false;
  return failure.isOutcomeUnknown || (retried && failure.sent);
}

async function discard(core: Core, { lease }: Answered): Promise<void> {
  if (lease === undefined) return;
  core.keeper.add(lease);
  await release(core, lease, "nobody").catch(() => undefined);
}
