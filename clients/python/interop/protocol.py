"""The protocol of the interop suite, whichever client a driver uses: requests, answers and events are lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fencepost
from fencepost import aio

Request = Mapping[str, Any]
Answer = dict[str, Any]
Lock = fencepost.Lock | aio.Lock
LockSet = fencepost.LockSet | aio.LockSet

_writes = threading.Lock()


def write(line: Answer) -> None:
    """Writes a line. Without a buffer: a thread that holds one when the process ends would crash it."""
    rest = f"{json.dumps(line)}\n".encode()
    with _writes:
        while rest:
            rest = rest[os.write(1, rest) :]


def client_options(request: Request) -> dict[str, Any]:
    tls = None
    if request.get("ca") or request.get("cert"):
        tls = fencepost.Tls(request.get("ca"), request.get("cert"), request.get("key"))
    return {
        "servers": request["servers"],
        "holder": request.get("holder"),
        "tls": tls,
        "token": request.get("token"),
    }


def acquire_options(request: Request) -> dict[str, Any]:
    label = request["lock"]
    told: list[fencepost.LockMode] = []

    def wanted(mode: fencepost.LockMode) -> None:
        if not told:  # each session that keeps the lock calls this once
            write({"event": "wanted", "lock": label, "mode": mode.value})
        told.append(mode)

    def lost(loss: fencepost.Loss) -> None:
        write({"event": "lost", "lock": label, "reason": loss.reason.value, "successor_token": loss.successor_token})

    options: dict[str, Any] = {
        "wait": request.get("wait_ms", 0) / 1000,
        "metadata": request.get("metadata"),
        "shared": request.get("shared", False),
        "tell_when_wanted": request.get("tell_when_wanted", False),
        "on_lost": lost,
        "on_at_risk": lambda: write({"event": "at_risk", "lock": label}),
    }
    if options["tell_when_wanted"]:
        options["on_wanted"] = wanted
    if "ttl_ms" in request:
        options["ttl"] = request["ttl_ms"] / 1000
    for option in ("max_hold", "min_hold", "lock_delay"):
        if f"{option}_ms" in request:
            options[option] = request[f"{option}_ms"] / 1000
    for option in ("semaphore", "permits", "permit_limit_version", "owner", "max_waiters"):
        options[option] = request.get(option)
    return options


def names(request: Request) -> list[str | tuple[str, fencepost.LockMode]]:
    """The names of a set, whose shared locks have their mode with them."""
    return [*request["names"], *((name, fencepost.LockMode.SHARED) for name in request.get("shared", ()))]


def acquire_all_options(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {"wait": request.get("wait_ms", 0) / 1000}
    if "ttl_ms" in request:
        options["ttl"] = request["ttl_ms"] / 1000
    return options


def granted(lock: Lock) -> Answer:
    of_grant: Answer = {"grant_id": lock.grant_id, "previous_end": lock.previous_end.value}
    of_semaphore: Answer = {"permits": lock.permits, "slot": lock.slot or 0}
    return {"token": lock.token, "mode": lock.mode.value, **of_grant, **of_semaphore}


def converted(lock: Lock, done: bool) -> Answer:
    return {"converted": done, "token": lock.token, "mode": lock.mode.value}


def _first(lock: fencepost.LockInfo) -> Answer:
    holder = lock.holders[0] if lock.holders else None
    return {"holder": holder.holder if holder else None, "token": holder.token if holder else 0}


def info(lock: fencepost.LockInfo) -> Answer:
    return {**_first(lock), "waiters": lock.waiters}


def waiter(it: fencepost.Waiter) -> Answer:
    return {"holder": it.holder, "owner": it.owner, "mode": it.mode.value}


def observed(lock: fencepost.LockInfo) -> None:
    holder = lock.holders[0] if lock.holders else None
    said: Answer = {
        "metadata": holder.metadata if holder else None,
        "description": holder.description if holder else 0,
    }
    write({"event": "observed", "name": lock.name, "holders": lock.holder_count, **_first(lock), **said})


def event(it: fencepost.Event) -> None:
    write({"event": "watch", "kind": it.kind.value, "name": it.name, "token": it.token, "holder": it.holder})


def _if_valid(lock: Lock | LockSet, act: Callable[[], Answer]) -> Answer:
    if lock.valid():
        return act()
    loss = lock.loss
    return {
        "ok": False,
        "error": "lost",
        "message": f"{lock!r} is not held",
        "reason": loss.reason.value if loss else "released",
        "successor_token": loss.successor_token if loss else None,
    }


def valid(lock: Lock | LockSet) -> Answer:
    return {"valid": lock.valid(), "remaining_ms": round(lock.remaining() * 1000)}


def append(lock: Lock, path: str) -> Answer:
    """Appends the token to a file, if the lock is valid."""

    def act() -> Answer:
        with Path(path).open("a") as file:
            file.write(f"{lock.token}\n")
        return {}

    return _if_valid(lock, act)


def increment(lock: Lock | LockSet, path: str) -> Answer:
    """Adds 1 to the number in a file, if the lock is valid."""
    file = Path(path)

    def act() -> Answer:
        value = int(file.read_text() if file.exists() else 0) + 1
        file.write_text(str(value))
        return {"value": value}

    return _if_valid(lock, act)


def error(request: Request, failure: BaseException) -> Answer:
    answer: Answer = {"id": request.get("id"), "ok": False, "message": str(failure)}
    match failure:
        case fencepost.NotAllAcquired():
            back: Answer = {"message": str(failure), "name": failure.name, "given_back": list(failure.given_back)}
            return error(request, failure.cause) | back
        case fencepost.Contended() | fencepost.TimedOut():
            kind = "contended" if isinstance(failure, fencepost.Contended) else "timed_out"
            holder = failure.holders[0].holder if failure.holders else None
            count = failure.holder_count
            return answer | {"error": kind, "holder": holder, "holders": count, "waiters": failure.waiters}
        case fencepost.LockLost():
            more = {"reason": failure.reason.value, "successor_token": failure.successor_token}
            return answer | {"error": "lost"} | more
        case fencepost.OutcomeUnknown():
            return answer | {"error": "outcome_unknown"}
        case fencepost.Unavailable():
            return answer | {"error": "refused", "code": "UNAVAILABLE", "reason": failure.reason}
        case fencepost.Refused():
            return answer | {"error": "refused", "code": failure.code, "reason": failure.reason}
        case fencepost.ClientClosed():
            return answer | {"error": "closed"}
        case asyncio.CancelledError() | KeyboardInterrupt():
            return answer | {"error": "cancelled"}
        case _:
            return answer | {"error": "bad_request", "message": repr(failure)}
