"""Calls in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

ResultT = TypeVar("ResultT")


def in_thread(call: Callable[[], ResultT]) -> Future[ResultT]:
    """Runs a call that may take for ever if a test fails: the close of its client ends it."""
    future: Future[ResultT] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
