"""What all guards share."""

from __future__ import annotations

import re
from typing import Any, Protocol

from fencepost.errors import FencepostError

_PARAMETER = re.compile(r":(\w+)")


class Held(Protocol):
    """What a guard needs to know of a lock: both kinds of ``Lock`` have it, and so may a message of a queue."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int: ...

    @property
    def grant_id(self) -> str: ...


def values(lock: Held) -> dict[str, Any]:
    """Returns the parameters of the statement that raises a fence, in the order of their numbers."""
    return {"lock_name": lock.name, "token": lock.token, "grant_id": lock.grant_id}


def pyformat(statement: str) -> str:
    """Writes the parameters as ``%(name)s``."""
    return _PARAMETER.sub(r"%(\1)s", statement)


def numbered(statement: str) -> str:
    """Writes the parameters as ``$1`` to ``$3``."""
    numbers = {"lock_name": "$1", "token": "$2", "grant_id": "$3"}
    return _PARAMETER.sub(lambda match: numbers[match[1]], statement)


def no_transaction() -> FencepostError:
    """Returns the error for a fence that was raised outside of a transaction."""
    return FencepostError(
        "the guard is not in a transaction: begin one, so that no other holder writes between the guard and the write"
    )
