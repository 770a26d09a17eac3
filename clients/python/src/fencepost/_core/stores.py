"""Which store each server has. The servers of one client must share a store: a lock of one would exclude nobody on
another, and a lease that moves there would be lost.
"""

from __future__ import annotations


class Stores:
    """The ids of the stores, as the servers last told them."""

    def __init__(self, servers: int) -> None:
        self._ids: list[str | None] = [None] * servers

    def told(self, server: int, store_id: str) -> int | None:
        """A server told the id of its store. Returns another server that had a different one, if this is news."""
        if self._ids[server] == store_id:
            return None
        self._ids[server] = store_id
        return next((it for it, known in enumerate(self._ids) if known not in (None, store_id)), None)
