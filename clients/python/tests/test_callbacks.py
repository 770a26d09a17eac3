"""The threads that run the callbacks of users."""

from __future__ import annotations

import sys
import threading

import pytest
from conftest import PATIENCE
from support.processes import wait_for

from fencepost._callbacks import THREADS_MAX, Callbacks


def test_the_number_of_threads_is_bounded() -> None:
    callbacks, go_on = Callbacks(), threading.Event()
    started = threading.Semaphore(0)
    calls: list[int] = []

    def call(subject: int) -> None:
        started.release()
        go_on.wait(PATIENCE)
        calls.append(subject)

    count = 3 * THREADS_MAX
    for subject in range(count):
        callbacks.call(subject, lambda subject=subject: call(subject))  # type: ignore[misc]
    for _ in range(THREADS_MAX):
        assert started.acquire(timeout=PATIENCE)
    assert callbacks._threads == THREADS_MAX
    assert not started.acquire(blocking=False), "the others wait for a thread"
    go_on.set()
    wait_for(lambda: sorted(calls) == list(range(count)), "all have run")
    wait_for(lambda: callbacks._threads == 0, "the threads end")


def test_the_calls_about_one_subject_are_in_order() -> None:
    callbacks, go_on = Callbacks(), threading.Event()
    calls: list[int] = []
    callbacks.call("a", lambda: go_on.wait(PATIENCE))
    for number in range(100):
        callbacks.call("a", lambda number=number: calls.append(number))  # type: ignore[misc]
    other = threading.Event()
    callbacks.call("b", other.set)
    assert other.wait(PATIENCE)
    assert calls == []
    go_on.set()
    wait_for(lambda: len(calls) == 100, "all have run")
    assert calls == list(range(100))


def test_errors_are_logged_and_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    callbacks, done = Callbacks(), threading.Event()

    def fail() -> None:
        raise RuntimeError("of the user")

    for call in (fail, sys.exit, done.set):
        callbacks.call("a", call)
    assert done.wait(PATIENCE)
    assert caplog.messages == ["a callback raised an error"] * 2
