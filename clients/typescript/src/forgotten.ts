/**
 * Locks that nobody refers to any more: they are released. That happens if a wait is given up by no longer looking at
 * its promise, as `Promise.race` with a timeout does: the lock is granted later, to nobody, and would be renewed until
 * the process ends.
 *
 * What keeps a lease alive (its keeper, its session, its listener) must not refer to the lock for that. A lock whose
 * `signal` was read is never taken for a forgotten one, since Node does not tell who still listens to a signal, or to
 * one that was derived from it. Nor is the lock of `using`, whose body gets a signal.
 */
import { now } from "./clock.js";
import type { Core } from "./core.js";
import type { Lease } from "./lease.js";
import { release } from "./releasing.js";

interface Left {
  readonly core: Core;
  readonly lease: Lease;
}

const registry = new FinalizationRegistry<Left>(({ core, lease }) => {
  if (lease.loss(now()) !== undefined) return;
  const { name: lock, token } = lease;
  const text = `${lock} (token ${String(token)}) was forgotten without a release, and is released`;
  core.log.warn(text, { lock, token });
  release(core, lease, "nobody").catch(() => undefined);
});

/** Releases the lease once nobody refers to the lock. */
export function releaseWhenForgotten(lock: object, core: Core, lease: Lease): void {
  registry.register(lock, { core, lease });
}
