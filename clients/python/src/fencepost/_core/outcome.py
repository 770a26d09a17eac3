"""How a lock ended, for its holder."""

from __future__ import annotations

from collections.abc import Callable

from fencepost._core.convert import loss_reason
from fencepost._core.lease import Lease
from fencepost.errors import FencepostError, LockLost
from fencepost.types import LeaseEnd, Loss, LossReason, Released


def known_end(loss: Loss) -> Released:
    """Returns the result of the release of a lost lock."""
    if loss.reason in (LossReason.SILENCE, LossReason.MAX_HOLD):
        return Released(LeaseEnd.UNSPECIFIED)  # no server has reported an end
    return Released(LeaseEnd(loss.reason.value), loss.successor_token)


def settled(lease: Lease, give_up: Callable[[Lease], None]) -> Released | None:
    """Returns the result of a release that needs no answer: it is known already, or the lock is lost. What the server
    may still have of a lost lease is given up.
    """
    if lease.result is None and lease.lost is not None:
        give_up(lease)
        lease.result = known_end(lease.lost)
    return lease.result


def lost_at_exit(loss: Loss | None, released: Released | None) -> Loss | None:
    """Returns how the lock was lost before the end of its body; None if it was held until its release."""
    if loss is None and released is not None and released.end is not LeaseEnd.RELEASED:
        return Loss(loss_reason(released.end), released.successor_token)
    return loss


def lost_error(lease: Lease, loss: Loss) -> LockLost:
    return LockLost(lease.name, lease.token, loss.reason, loss.successor_token)


def ended_error(lease: Lease) -> FencepostError:
    """Returns the error of a call that needs a lease which is lost or released."""
    if lease.lost is not None:
        return lost_error(lease, lease.lost)
    return FencepostError(f"{lease.name} is released: the lock is not held any more")
