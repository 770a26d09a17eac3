"""What is known of the servers that could not be called: why, and whether another try could be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fencepost._core.failure import Failure, unsent


class Unreached:
    """The last failure of each server, until it works again."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._failures: dict[int, Failure] = {}
        self._is_diagnosed: set[int] = set()

    def note(self, server: int, failure: Failure) -> None:
        """A connection or a call failed. A diagnosis says more, so it is kept until the next one."""
        if failure.permanent:
            self.diagnose(server, failure)
        elif server not in self._is_diagnosed:
            self._failures[server] = failure

    def diagnose(self, server: int, failure: Failure) -> None:
        """It is known why a server cannot be called."""
        self._failures[server] = failure
        self._is_diagnosed.add(server)

    def works(self, server: int) -> None:
        self._failures.pop(server, None)
        self._is_diagnosed.discard(server)

    def forget(self) -> Failure:
        """Returns the failure of now. The next call tries all servers."""
        failure = self.failure()
        self._failures.clear()
        self._is_diagnosed.clear()
        return failure

    @property
    def is_hopeless(self) -> bool:
        """Whether no server can be called until somebody changes an address or a certificate."""
        return len(self._failures) == len(self._names) and all(it.permanent for it in self._failures.values())

    @property
    def _no_room(self) -> Failure | None:
        """The refusal of a server that has no room for a session now."""
        refusals = [replace(it, sent=False) for it in self._failures.values() if it.is_no_room]
        return max(refusals, key=lambda it: it.is_over_quota, default=None)

    def why(self, last: Failure | None, is_sent: bool) -> Failure:
        """Returns why a request has no answer, whose last transmission failed so. If it is not sent, it waits for a
        session.
        """
        no_room = None if is_sent else self._no_room
        return no_room or last or self.failure()

    def failure(self) -> Failure:
        """Returns the failure of a call for which no server could be reached."""
        if self._no_room is not None:
            return self._no_room
        failures = [self._failures[it] for it in sorted(self._failures)]
        if not failures:
            return unsent("; ".join(f"{it}: no connection in time" for it in self._names))
        is_foreign = all(it.code == "UNIMPLEMENTED" for it in failures)
        return Failure(
            "UNIMPLEMENTED" if is_foreign else "UNAVAILABLE",
            "; ".join(it.message for it in failures),
            sent=False,
            permanent=self.is_hopeless,
        )
