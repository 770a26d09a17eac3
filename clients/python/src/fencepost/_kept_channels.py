"""The channels that calls share. One that failed gets no more calls: the next one connects anew, with a new look at the
name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fencepost.errors import ClientClosed

ChannelT = TypeVar("ChannelT")


class Kept(Generic[ChannelT]):
    """A channel, and how many calls use it."""

    def __init__(self, channel: ChannelT) -> None:
        self.channel = channel
        self.users = 0


class KeptChannels(Generic[ChannelT]):
    """The channels of one client, at most one to each server that takes new calls."""

    def __init__(self, open_channel: Callable[[int], ChannelT]) -> None:
        self._open = open_channel
        self._lock = threading.Lock()
        self._kept: dict[int, Kept[ChannelT]] = {}
        self._in_use: set[Kept[ChannelT]] = set()
        self._closed = False

    def take(self, server: int) -> Kept[ChannelT]:
        """Returns the channel to a server, to be given back. Raises Refused if a file of TLS cannot be read."""
        with self._lock:
            if self._closed:
                raise ClientClosed
            kept = self._kept.get(server)
            if kept is None:
                kept = self._kept[server] = Kept(self._open(server))
            kept.users += 1
            self._in_use.add(kept)
            return kept

    def give_back(self, server: int, kept: Kept[ChannelT], works: bool) -> ChannelT | None:
        """Ends a use. Returns the channel if it is to be closed: it failed, and no other call uses it."""
        with self._lock:
            kept.users -= 1
            if not kept.users:
                self._in_use.discard(kept)
            if not works and self._kept.get(server) is kept:
                del self._kept[server]
            is_over = self._kept.get(server) is not kept and not kept.users and not self._closed
            return kept.channel if is_over else None

    def close(self) -> list[ChannelT]:
        """Returns all channels, to be closed: calls on them end."""
        with self._lock:
            self._closed = True
            channels = [it.channel for it in {*self._kept.values(), *self._in_use}]
            self._kept.clear()
            self._in_use.clear()
            return channels
