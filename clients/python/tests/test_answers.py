"""What messages of a server become."""

from __future__ import annotations

import pickle

import pytest

from fencepost import Contended, EventKind, LockMode, Semaphore, TimedOut
from fencepost._core import convert
from fencepost.v1 import lock_pb2 as pb


def test_a_holder_says_who_it_is() -> None:
    plain, full = (
        convert.holder(it)
        for it in (
            pb.LockHolder(holder="me"),
            pb.LockHolder(holder="me", owner="job-7", identity="spiffe://a/b", description=3),
        )
    )
    assert (plain.owner, plain.identity, plain.description) == ("", "", 0)
    assert (full.owner, full.identity, full.description) == ("job-7", "spiffe://a/b", 3)


@pytest.mark.parametrize(
    ("kind", "mode"), [(pb.WatchResponse.KIND_CHANGED, LockMode.SHARED), (pb.WatchResponse.KIND_GRANTED, None)]
)
def test_an_event_says_who_and_which_mode(kind: pb.WatchResponse.Kind, mode: LockMode | None) -> None:
    event = convert.event(
        pb.WatchResponse(kind=kind, lock_name="a", identity="spiffe://a/b", mode=pb.LOCK_MODE_SHARED, fencing_token=7)
    )
    assert event is not None
    assert (event.name, event.token, event.identity, event.mode) == ("a", 7, "spiffe://a/b", mode)
    assert (event.kind is EventKind.CHANGED) == (mode is not None)


def test_the_permits_of_a_semaphore() -> None:
    message = pb.Semaphore(permits_used=6, permit_limit=5, permit_limit_version=2)
    info = convert.lock_info(pb.LockInfo(lock_name="a", semaphore=message))
    assert info.semaphore == Semaphore(used=6, limit=5, version=2)
    assert convert.lock_info(pb.LockInfo(lock_name="a")).semaphore is None


@pytest.mark.parametrize("kind", [Contended, TimedOut])
def test_an_error_keeps_the_permits_when_it_is_copied(kind: type[Contended | TimedOut]) -> None:
    error = kind("a", (), 12, 1, None, Semaphore(used=5, limit=5, version=0))
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.name, copy.holder_count, copy.waiters, copy.semaphore) == ("a", 12, 1, error.semaphore)
