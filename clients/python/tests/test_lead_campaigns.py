"""The campaigns of an elector, with threads and a real server: outages, refusals, and servers with other bounds."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.futures import in_thread
from support.ports import foreign_grpc, web_server
from support.processes import Redis, Server, free_port, wait_for

import fencepost
from fencepost import Client, Lock
from fencepost._core import campaign
from fencepost._core.campaign import Campaign


def no_body(_lock: Lock) -> None:
    raise AssertionError("nobody is elected here")


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The acquires of electors that failed."""
    seen: list[Exception] = []
    failed = Campaign.failed

    def note(self: Campaign, error: fencepost.FencepostError) -> float:
        seen.append(error)
        return failed(self, error)

    monkeypatch.setattr(Campaign, "failed", note)
    return seen


def test_a_server_that_starts_later(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    address = f"127.0.0.1:{free_port()}"
    with Client(address) as client:
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        wait_for(lambda: f"server {address} failed" in caplog.text, "it has tried")
        assert not leader.done()
        with Server(tmp_path / "late", listen=address):
            assert leader.result(PATIENCE)


def test_an_outage_that_is_longer_than_a_wait_is_told_once(
    tmp_path: Path,
    name: str,
    failures: list[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(campaign, "WAIT_MAX_MS", 100)
    address = f"127.0.0.1:{free_port()}"
    # Longer than the longest pause between two connections.
    with Client(address, retry_for=2.5) as client:
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        wait_for(lambda: len(failures) >= 2, "it has tried again and again")
        with Server(tmp_path / "late", listen=address):
            assert leader.result(PATIENCE)
    assert {type(it) for it in failures} <= {fencepost.Unavailable, fencepost.OutcomeUnknown}
    text = f"the campaign for {name} fails, and goes on: "
    assert len([it for it in caplog.messages if it.startswith(text)]) == 1


def test_a_store_that_is_away_is_told_while_it_waits(
    tmp_path: Path, redis: Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path / "a", "--store", redis.url) as server, Client(server.address) as client:
        client.acquire(name).release()
        redis.pause()
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        text = f"the campaign for {name} fails, and goes on: "
        wait_for(lambda: text in caplog.text, "it is told")
        assert not leader.done()
        redis.resume()
        assert leader.result(PATIENCE)
        assert len([it for it in caplog.messages if it.startswith(text)]) == 1


@pytest.mark.parametrize(("longest", "told"), [("1s", fencepost.TimedOut), ("0s", fencepost.Contended)])
def test_a_server_with_shorter_waits(
    tmp_path: Path, name: str, failures: list[Exception], longest: str, told: type[Exception]
) -> None:
    with Server(tmp_path / "a", "--wait-max", longest) as server, Client(server.address) as client:
        with client.lock(name):
            leader = in_thread(lambda: client.lead(name, Lock.valid))
            wait_for(lambda: any(isinstance(it, told) for it in failures), "a wait is over")
            assert not leader.done()
        assert leader.result(PATIENCE)


def test_what_cannot_be_tried_again(client: Client, name: str) -> None:
    with pytest.raises(fencepost.Refused, match="lock_name") as refused:
        client.lead("a\nb", no_body)
    assert refused.value.reason == "INVALID_FIELD"
    with pytest.raises(ValueError, match="max_hold must be"):
        client.lead(name, no_body, max_hold=0)
    with pytest.raises(TypeError, match="body must be a function, not str"):
        client.lead(name, "work")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with foreign_grpc() as address, Client(address) as foreign:
        with pytest.raises(fencepost.Refused, match="not a Fencepost server"):
            foreign.lead(name, no_body)
    with web_server() as address, Client(address) as web:
        with pytest.raises(fencepost.Unavailable, match="does not speak gRPC") as unavailable:
            web.lead(name, no_body)
        assert unavailable.value.permanent
