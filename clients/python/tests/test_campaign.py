"""Which errors end the campaign of an elector, how long it pauses, and what it tells the log."""

from __future__ import annotations

import logging

import pytest
from support.engine import World

from fencepost import (
    ClientClosed,
    Contended,
    FencepostError,
    FieldViolation,
    LockLost,
    LossReason,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)
from fencepost._core import requests
from fencepost._core.acquire import Acquire
from fencepost._core.campaign import Campaign
from fencepost.v1 import lock_pb2 as pb


class Log:
    """Keeps the texts of the records."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def log(self, level: int, text: str, fields: dict[str, object]) -> None:
        assert level == logging.WARNING
        assert fields["lock"] == "a"
        self.texts.append(text)


LOST = LockLost("a", 7, LossReason.SILENCE)
AWAY = Unavailable("no server could be reached: a:1: gone")


@pytest.mark.parametrize(
    "error",
    [
        AWAY,
        Unavailable("it drains", "DRAINING"),
        OutcomeUnknown(Refused("UNAVAILABLE", "", "cut")),
        Refused("RESOURCE_EXHAUSTED", "QUEUE_FULL", "too many wait"),
        Refused("ABORTED", "REQUEST_ENDED", "it has ended"),
        Refused("INTERNAL", "", ""),
        LOST,
    ],
)
def test_what_a_later_try_may_mend_is_told_once_and_tried_on(error: FencepostError) -> None:
    log = Log()
    campaign = Campaign("a", log)
    for _ in range(3):
        assert 0 <= campaign.failed(error) <= 2
    assert log.texts == [f"the campaign for a fails, and goes on: {error}"]
    campaign.elected(0.0)
    campaign.failed(error)
    assert len(log.texts) == 2, "the next outage is news"


@pytest.mark.parametrize(
    "error",
    [
        Refused("INVALID_ARGUMENT", "INVALID_FIELD", "no", (FieldViolation("lock_name", "no"),)),
        Refused("FAILED_PRECONDITION", "NOT_ALL_SERVERS", "no"),
        Refused("PERMISSION_DENIED", "", "no"),
        Refused("UNAUTHENTICATED", "", "no"),
        Refused("UNIMPLEMENTED", "", "it is not a Fencepost server"),
        Unavailable("the certificate is not trusted", permanent=True),
        ClientClosed(),
    ],
)
def test_what_no_later_try_mends_is_raised(error: FencepostError) -> None:
    log = Log()
    with pytest.raises(type(error)) as raised:
        Campaign("a", log).failed(error)
    assert raised.value is error
    assert log.texts == []


def test_pauses_grow_until_a_term_is_long_or_a_wait_was_full() -> None:
    campaign = Campaign("a", Log())

    def grow() -> None:
        assert campaign.failed(AWAY) <= 0.05
        pauses = [campaign.failed(AWAY) for _ in range(20)]
        assert min(pauses[8:]) >= 1
        assert max(pauses) <= 2

    grow()
    campaign.elected(100.0)
    assert campaign.lost(LOST, 7, 101.9) >= 1, "a short term is like a failure"
    campaign.elected(200.0)
    assert campaign.lost(LOST, 7, 202.0) == 0
    grow()
    assert campaign.failed(TimedOut("a", (), 0, 1)) == 0
    grow()


def test_a_shorter_wait_is_found_if_a_server_allows_no_longer_one() -> None:
    campaign = Campaign("a", Log())
    refused = Refused("INVALID_ARGUMENT", "INVALID_FIELD", "no", (FieldViolation("wait_timeout", "up to 60 s"),))
    waits = [campaign.wait]
    while campaign.wait > 60:
        assert campaign.failed(refused) == 0
        waits.append(campaign.wait)
    assert waits[0] == 3600
    assert len(waits) < 10
    while campaign.wait:
        assert campaign.failed(refused) == 0
    assert 0 <= campaign.failed(Contended("a", (), 0, 0)) <= 0.05
    with pytest.raises(Refused):
        campaign.failed(refused)


def test_another_error_of_the_body_is_raised() -> None:
    other = LockLost("b", 7, LossReason.SILENCE)
    with pytest.raises(LockLost) as raised:
        Campaign("a", Log()).lost(other, 7, 0.0)
    assert raised.value is other


def test_the_answers_to_a_long_wait_are_told_once_for_each_outage() -> None:
    world, log = World(), Log()
    request = requests.acquire("a", 10, 3600, "me", None, None, 0)
    Acquire(world.engine, request, world.now, lambda: None, Campaign("a", log))
    world.connect()
    for _ in range(3):
        world.fail(world.send_one(), 14, "STORE_UNAVAILABLE")
        world.pass_time(1.5)
    assert log.texts == ["the campaign for a fails, and goes on: no"]
    waiting = world.send_one()
    world.answer(pb.SessionResponse(operation=waiting.operation, waiting=pb.Waiting(ahead=1)))
    world.fail(waiting, 14, "STORE_UNAVAILABLE")
    assert len(log.texts) == 2, "the next outage is news"


def test_a_server_that_drains_is_no_trouble_of_the_campaign() -> None:
    world, log = World(), Log()
    request = requests.acquire("a", 10, 3600, "me", None, None, 0)
    Acquire(world.engine, request, world.now, lambda: None, Campaign("a", log))
    world.connect()
    world.fail(world.send_one(), 14, "DRAINING")
    assert log.texts == []
    assert any("it drains" in text for _, text, _ in world.records), "the log has it already"
