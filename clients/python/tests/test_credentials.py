"""The file with a bearer token, against a real server with access rules."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.futures import in_thread
from support.processes import Server
from test_address import check
from test_aio import until

import fencepost
from fencepost import Client, Refused, aio

OLD, NEW = "fp_old-token-of-a-test", "fp_new-token-of-a-test"

RULE = """
[[rule]]
who = ["app"]
may = ["acquire", "read"]
locks = [""]
"""


def entry(token: str, expires: datetime | None = None) -> str:
    until = "" if expires is None else f"expires = {expires:%Y-%m-%dT%H:%M:%SZ}\n"
    return f'[[token]]\nname = "app"\nsha256 = "{hashlib.sha256(token.encode()).hexdigest()}"\n{until}'


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    """A server that knows both tokens; the old one expires in 3 to 4 seconds."""
    soon = datetime.now(timezone.utc) + timedelta(seconds=4)
    access = tmp_path / "access.toml"
    access.write_text(f'mode = "enforce"\n{entry(OLD, soon)}{entry(NEW)}{RULE}')
    with Server(tmp_path / "server", "--access", str(access)) as server:
        yield server


async def test_streams_go_on_with_new_credentials_when_the_old_ones_expire(
    guarded: Server, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    file = tmp_path / "token"
    file.write_text(f"{OLD}\n")
    with Client(guarded.address, credentials=file) as client:
        async with aio.Client(guarded.address, credentials=str(file)) as async_client:
            lock = client.acquire(f"{name}/threads", ttl=PATIENCE)
            async_lock = await async_client.acquire(f"{name}/asyncio", ttl=PATIENCE)
            assert [it.identity for it in client.get(lock.name).holders] == ["app"]
            async with async_client.observe(lock.name) as states, async_client.observe(async_lock.name) as others:
                with client.observe(lock.name) as sync_states:
                    assert next(sync_states).holders[0].identity == "app"
                    assert (await anext(states)).holders
                    assert (await anext(others)).holders
                    file.write_text(NEW)
                    before = [it._lease.valid_until for it in (lock, async_lock)]
                    # Each stream tells its state again when it goes on.
                    again = in_thread(lambda: next(sync_states))
                    assert (await asyncio.wait_for(anext(states), PATIENCE)).holders[0].token == lock.token
                    assert (await asyncio.wait_for(anext(others), PATIENCE)).holders[0].token == async_lock.token
                    assert again.result(PATIENCE).holders[0].token == lock.token

            async def attached() -> bool:
                now = [it._lease.valid_until for it in (lock, async_lock)]
                return now[0] > before[0] and now[1] > before[1]

            await until(attached, "the leases are attached again, long before a beat renews them")
            assert caplog.text.count("failed (the credentials have expired") == 2, "of both sessions"
            assert lock.release().end is fencepost.LeaseEnd.RELEASED
            assert (await async_lock.release()).end is fencepost.LeaseEnd.RELEASED


def test_a_file_that_cannot_be_used_ends_the_call(guarded: Server, tmp_path: Path, name: str) -> None:
    file = tmp_path / "token"
    with Client(guarded.address, credentials=file) as client:
        for call in (lambda: client.get(name), lambda: client.acquire(name).release()):
            file.unlink(missing_ok=True)
            with pytest.raises(Refused, match=f"no bearer token: .*credentials names {file}: .*No such") as refused:
                call()
            assert refused.value.code == "UNAUTHENTICATED"
            file.write_text(" \n")
            with pytest.raises(Refused, match=f"credentials names {file}: it is empty"):
                call()
            file.write_text("one\ntwo")
            with pytest.raises(Refused, match="the token has a line end"):
                call()
            file.write_text("another")
            with pytest.raises(Refused) as refused:
                call()
            assert refused.value.reason == "CREDENTIALS_INVALID"
            file.write_text(f"\n{NEW}\n")
            call()


def test_the_file_comes_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    environment = {"FENCEPOST_CREDENTIALS": str(file)}
    token = check(environment=environment).token
    assert callable(token)
    assert token() == "secret"
    assert check(environment=environment, token="mine").token == "mine"
    assert check(environment={"FENCEPOST_CREDENTIALS": ""}).token is None
    other = tmp_path / "other"
    other.write_text("other")
    token = check(environment=environment, credentials=other).token
    assert callable(token)
    assert token() == "other"
    file.unlink()
    token = check(environment=environment).token
    assert callable(token)
    with pytest.raises(ValueError, match=f"FENCEPOST_CREDENTIALS names {file}"):
        token()


def test_a_token_has_one_source_and_a_safe_way(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(ValueError, match="two sources of one token"):
        check(token="secret", credentials=file)
    for given in ({"credentials": file}, {"environment": {"FENCEPOST_CREDENTIALS": str(file)}}):
        with pytest.raises(ValueError, match="in plain text"):
            check(servers="locks.example:7420", **given)
        assert check(servers="https://locks.example:7420", **given).token is not None
