"""Until when a lease is valid."""

from __future__ import annotations

import time

import pytest

from fencepost._core import clock
from fencepost._core.lease import Lease
from fencepost._core.validity import Reading, overdue_at
from fencepost.types import Loss, LossReason
from fencepost.v1 import lock_pb2 as pb


@pytest.mark.parametrize(
    ("held_for", "ttl", "took", "left"),
    [
        (0.0, 30.0, 0.005, 30 - 0.3 - 1.5),
        (0.0, 0.1, 0.005, 0.1 - 0.001 - 0.02),  # a short lease keeps the least margin
        (60.0, 30.0, 60.01, 60 + 28.2),  # the time in the queue is added
        (3600.0, 30.0, 0.02, 0.02 + 28.2),  # no request is held for longer than the exchange took
        (0.0, 0.0, 0.0, -0.02),
    ],
)
def test_counts_from_sending(held_for: float, ttl: float, took: float, left: float) -> None:
    reading = Reading(sent=1000.0, read=1000.0 + took, held_for=held_for, ttl=ttl)
    assert reading.valid_until() == pytest.approx(1000.0 + left)


def test_overdue_after_more_than_half() -> None:
    assert overdue_at(valid_until=10.0, ttl=1.0) == pytest.approx(9.65)


def lease(ttl: float = 10.0, sent: float = 100.0, *, max_hold: bool = False) -> Lease:
    message = pb.Lease(lock_name="a", lease_id="id", grant_id="grant", fencing_token=7)
    return Lease(message, Reading(sent, sent, 0.0, ttl), ttl, max_hold=max_hold)


def test_a_renewal_only_moves_the_end_forward() -> None:
    it = lease()
    until = it.valid_until
    it.renewed(Reading(102.0, 102.0, 0.0, 1.0))
    assert it.valid_until == until
    it.renewed(Reading(102.0, 102.0, 0.0, 10.0))
    assert it.valid_until == pytest.approx(until + 2)


def test_a_lease_that_is_over_never_comes_back() -> None:
    it = lease()
    assert it.is_valid(109.0)
    assert not it.is_valid(109.4)
    it.renewed(Reading(108.0, 109.5, 0.0, 10.0))  # sent in time, read too late
    assert not it.is_valid(109.5)
    assert it.lose(Loss(LossReason.SILENCE))
    assert it.lost == Loss(LossReason.SILENCE)
    assert not it.lose(Loss(LossReason.EXPIRED))
    assert it.lost == Loss(LossReason.SILENCE)


def test_a_lease_without_max_hold_still_needs_its_renewals_if_somebody_shortened_its_ttl() -> None:
    it = lease()
    it.renewed(Reading(104.0, 104.0, 0.0, 8.0))
    assert not it.bounded
    assert it.overdue_at() < it.valid_until


def test_a_lease_that_ends_by_its_max_hold_misses_no_renewal() -> None:
    it = lease(max_hold=True)
    it.renewed(Reading(104.0, 104.0, 0.0, 10.0))
    assert it.overdue_at() < it.valid_until
    it.renewed(Reading(110.0, 110.0, 0.0, 8.0))
    assert it.bounded
    assert it.overdue_at() == it.valid_until
    assert it.ttl == 10.0


def test_risk_is_reported_until_a_renewal() -> None:
    it, risks = lease(), 0

    def risk() -> None:
        nonlocal risks
        risks += 1

    it.on_at_risk = risk
    it.risk()
    it.risk()
    it.renewed(Reading(102.0, 102.0, 0.0, 10.0))
    it.risk()
    assert risks == 2


def test_the_clock_counts_suspend() -> None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert abs(clock.now() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
    first = clock.now()
    assert clock.now() >= first
