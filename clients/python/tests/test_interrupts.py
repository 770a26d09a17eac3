"""Exceptions that the handler of a signal raises in the middle of a call, as Ctrl-C does."""

from __future__ import annotations

import itertools
import linecache
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from conftest import PATIENCE
from support.processes import Server, wait_for

import fencepost
from fencepost import Client


class InterruptError(BaseException):
    """What the handler raises."""


def in_a_finalizer(frame: FrameType | None) -> bool:
    """Whether a finalizer runs, whose exceptions Python drops: the garbage collector calls those of grpc between any
    two lines, and they call ``threading``.
    """
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def interrupted(call: Callable[[], object], line: int) -> bool:
    """Calls a function, and raises at the start of the given line of those that this thread runs of the client and of
    ``threading``. Returns whether there was such a line.
    """
    count = itertools.count()
    raised = False

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal raised
        file = frame.f_code.co_filename
        if "fencepost/_" not in file and file != threading.__file__:
            return None
        if in_a_finalizer(frame):
            return None
        # The exit of a "with" statement is one step with the end of its body, but is traced as a line of its own.
        is_with = linecache.getline(file, frame.f_lineno).lstrip().startswith("with ")
        if event == "line" and not is_with and not raised and next(count) == line:
            raised = True
            raise InterruptError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except InterruptError:
        pass
    except RuntimeError as error:
        # A start of a thread that is interrupted raises this, as it releases a lock that it does not have.
        if not isinstance(error.__context__, InterruptError):
            raise
    finally:
        sys.settrace(before)
    return raised


@pytest.mark.parametrize("wait", [0, 60], ids=["try", "wait"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_an_acquire_that_is_interrupted_anywhere_leaves_nothing(
    server: Server, client: Client, name: str, wait: int, first: bool
) -> None:
    kept: list[fencepost.Lock] = []
    other = Client(server.address)
    for line in itertools.count():

        def acquire(lock_name: str = f"{name}/{line}", using: Client = other) -> None:
            kept.append(using.acquire(lock_name, wait=wait))

        if not interrupted(acquire, line):
            break
        assert not kept
        if first:
            # The client still works, although its start was interrupted.
            other.acquire(f"{name}/{line}", wait=PATIENCE).release()
            other.close()
            other = Client(server.address)
    assert line > 20
    kept.pop().release()
    wait_for(lambda: not list(client.list(name)), "all are free")
    # The client's timers still run.
    with other.lock(name, ttl=1) as lock:
        assert not lock.lost.wait(2)
    other.close()


# An exception between the grant and the body drops the lock, which warns of that, and is released.
@pytest.mark.filterwarnings("ignore:lock .* was never released:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_lead_that_is_interrupted_anywhere_leaves_nothing(server: Server, client: Client, name: str) -> None:
    terms: list[int] = []
    with Client(server.address) as other:
        for line in itertools.count():

            def lead(lock_name: str = f"{name}/{line}") -> None:
                other.lead(lock_name, lambda lock: terms.append(lock.token))

            if not interrupted(lead, line):
                break
        assert line > 20
        assert terms
        wait_for(lambda: not list(client.list(name)), "all are free")
