/** Calls about a held lease: one after another, and none after its end. */
import { call, type Send } from "./calls.js";
import { now } from "./clock.js";
import type { Core } from "./core.js";
import { here, LockLost } from "./errors.js";
import type { LeaseEnd } from "./gen/fencepost/v1/lock_pb.js";
import type { Lease } from "./lease.js";
import { lossReason, token } from "./wire.js";

/** Makes a call, with repeats. It ends with the lease. */
export type Ask = <T>(send: Send<T>) => Promise<T>;

/** Does work that calls, when the work before it has settled. @throws LockLost if the lease has ended */
export function leased<T>(core: Core, lease: Lease, work: (ask: Ask) => Promise<T>): Promise<T> {
  return lease.turns.next(() => {
    throwIfLost(lease);
    return work(async (send) => {
      try {
        return await call(core, lease.ended, send);
      } finally {
        // Once the lease has ended, no answer and no error of the call matters any more.
        throwIfLost(lease);
      }
    });
  });
}

/** The error for a lease that has ended, as a server answered. */
export function lost(lease: Lease, { end, successorToken }: { end: LeaseEnd; successorToken: bigint }): LockLost {
  const reason = lossReason(end);
  lease.end(reason, token(successorToken));
  return here(lease.loss(now()) ?? new LockLost(lease.name, lease.token, reason));
}

function throwIfLost(lease: Lease): void {
  const loss = lease.loss(now());
  if (loss !== undefined) throw here(loss);
}
