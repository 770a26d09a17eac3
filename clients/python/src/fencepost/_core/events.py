"""What happens in the background, for the log: each trouble once, never at the rate of retries, and no secret."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from fencepost._core.lease import Lease
from fencepost._core.stores import Stores
from fencepost._facts import OTHER_STORE
from fencepost.errors import LockLost
from fencepost.types import Loss

logger = logging.getLogger("fencepost")


class Log(Protocol):
    """Where records go."""

    def log(self, level: int, text: str, fields: dict[str, object]) -> None:
        """Writes a record, apart from the engine: it neither blocks nor fails."""
        ...


def write(level: int, text: str, fields: dict[str, object] | None = None, trace: bool = False) -> None:
    """Writes a record, with the error at hand if ``trace``. A handler that fails must not cost a lock."""
    with suppress(Exception):
        logger.log(level, "%s", text, extra=fields, exc_info=trace)


class Events:
    """The events of one client."""

    def __init__(self, log: Log, names: Sequence[str]) -> None:
        self._log = log
        self._names = names
        self._stores = Stores(len(names))
        self._failed: set[int] = set()
        """The servers whose failure was reported, until they work again."""

    def at_risk(self, lease: Lease, cause: str, now: float) -> None:
        left = f"{lease.remaining(now):.1f} s"
        text = f"renewals of {lease.name} fail, it is valid for another {left}: {cause}"
        self._lock(logging.WARNING, text, lease, cause=cause)

    def bounded(self, lease: Lease, now: float) -> None:
        left = f"{lease.remaining(now):.1f} s"
        text = f"{lease.name} reaches its max_hold: no renewal extends it, and it is valid for another {left}"
        self._lock(logging.WARNING, text, lease)

    def renewed_again(self, lease: Lease) -> None:
        self._lock(logging.INFO, f"{lease.name} is renewed again", lease)

    def lost(self, lease: Lease, loss: Loss) -> None:
        error = LockLost(lease.name, lease.token, loss.reason, loss.successor_token)
        self._lock(logging.WARNING, str(error), lease, cause=loss.reason.value)

    def forgotten(self, lease: Lease) -> None:
        text = f"{lease.name} (token {lease.token}) was forgotten without a release, and is released"
        self._lock(logging.WARNING, text, lease)

    def not_released(self, name: str, cause: object) -> None:
        text = f"{name} could not be released in the background: {cause}; it is free after its TTL"
        self._log.log(logging.WARNING, text, {"lock": name, "cause": str(cause)})

    def failed(self, server: int, why: str, following: int) -> None:
        """The session with a server failed, or moves away from it."""
        if server in self._failed:
            return
        self._failed.add(server)
        name = self._names[server]
        why = why.removeprefix(name).removeprefix(":").lstrip()
        text = f"server {name} failed ({why}), trying {self._names[following]}"
        self._log.log(logging.INFO, text, {"server": name, "cause": why})

    def told_store(self, server: int, store_id: str) -> None:
        """A server told the id of its store, which may be another one than that of a server that was used before."""
        other = self._stores.told(server, store_id)
        if other is not None:
            name, why = self._names[server], OTHER_STORE.replace("{}", self._names[other])
            self._log.log(logging.WARNING, f"{name} {why}", {"server": name, "cause": why})

    def works(self, server: int) -> None:
        self._failed.discard(server)

    def _lock(self, level: int, text: str, lease: Lease, **fields: object) -> None:
        self._log.log(level, text, {"lock": lease.name, "token": lease.token, **fields})
