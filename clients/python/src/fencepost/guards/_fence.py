"""What all guards share."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from fencepost._facts import NAME_BYTES_MAX
from fencepost.errors import FencepostError, StaleToken

_PARAMETER = re.compile(r":(\w+)")


class Held(Protocol):
    """What a guard needs to know of a lock: both kinds of ``Lock`` have it, and so may a message of a queue.

    Of a semaphore, pass on ``permits`` and ``slot`` as well, as attributes of these names.
    """

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int: ...

    @property
    def grant_id(self) -> str: ...


def fence_name(lock: Held) -> str:
    """Returns the name of the fence that a guard raises for a lock: the lock's own name, or ``NAME#SLOT`` for one
    permit of a semaphore. Holders of a semaphore work side by side, so only the tokens of one slot are in an order.

    Raises:
        FencepostError: it has several permits, and so no slot, or the name of the fence is too long for the table.
    """
    slot = _slot(lock)
    if slot is None:
        return lock.name
    fence = f"{lock.name}#{slot}"
    if len(fence.encode()) > NAME_BYTES_MAX:
        raise FencepostError(f"the fence {fence} is longer than {NAME_BYTES_MAX} bytes: give the lock a shorter name")
    return fence


def fence_key(lock: Held, key: str) -> str:
    """Returns the key of the fence in Redis, which is ``key``, or ``KEY#SLOT`` for one permit of a semaphore."""
    slot = _slot(lock)
    return key if slot is None else f"{key}#{slot}"


def _slot(lock: Held) -> int | None:
    slot: int | None = getattr(lock, "slot", None)
    permits: int | None = getattr(lock, "permits", None)
    if permits and not slot:
        raise FencepostError(
            f"{lock.name} is held with several permits of a semaphore, so it has no slot, and a store cannot order its "
            "token: take one permit each, or check the token with check_token right before the write"
        )
    return slot or None


def values(lock: Held) -> dict[str, Any]:
    """Returns the parameters of the statement that raises a fence, in the order of their numbers."""
    return {"lock_name": fence_name(lock), "token": lock.token, "grant_id": lock.grant_id}


def shared(lock: Held) -> Held:
    """Returns a lock that readers share. Refuses that of a semaphore, in which there are no readers."""
    if _slot(lock) is not None:
        raise FencepostError(
            f"{lock.name} is held as a semaphore, not as a shared lock: raise its fence in the transaction of the write"
        )
    return lock


def pyformat(statement: str) -> str:
    """Writes the parameters as ``%(name)s``."""
    return _PARAMETER.sub(r"%(\1)s", statement)


def numbered(statement: str) -> str:
    """Writes the parameters as ``$1`` to ``$3``."""
    numbers = {"lock_name": "$1", "token": "$2", "grant_id": "$3"}
    return _PARAMETER.sub(lambda match: numbers[match[1]], statement)


def create(run: Callable[[str], object], found: Callable[[], int], create_it: str, add_column: str) -> None:
    """Creates the table of fences, or brings one of an earlier version up to date.

    Many processes may start at once: what another one has done meanwhile is an error here, and no harm.

    Args:
        run: Runs a statement.
        found: Counts the columns for shared locks in the table: 1 or 0.
        create_it: The statement that creates the table.
        add_column: The statement that adds the column for shared locks.
    """
    if found():
        return
    try:
        run(create_it)
        if not found():
            run(add_column)
    except Exception:
        if not found():
            raise


def no_transaction() -> FencepostError:
    """Returns the error for a fence that was raised outside of a transaction."""
    return FencepostError(
        "the guard is not in a transaction: begin one, so that no other holder writes between the guard and the write"
    )


def own_transaction() -> FencepostError:
    """Returns the error for a shared token that is raised within a transaction."""
    return FencepostError(
        "raise_shared is a transaction of its own, so that readers do not wait for one another: end the open one"
    )


def refused(lock: Held, newest: int) -> FencepostError:
    """Returns the error for the token of a reader, if the store has seen no token higher than ``newest``."""
    if newest < lock.token:
        return FencepostError(
            f"token {lock.token} of {lock.name} was not raised in this store: call raise_shared once after the grant"
        )
    return StaleToken(lock.name, lock.token, newest)
