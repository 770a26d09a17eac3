"""What a client reports as it happens, with asyncio: events of locks, and the states of one lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost._channel import OBSERVE, WATCH
from fencepost._core import convert
from fencepost.aio._follow import Follow
from fencepost.types import Event, EventKind, LockInfo
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost.aio._calls import Calls


class Watch(Follow[pb.WatchRequest, pb.WatchResponse, Event]):
    """Events of locks, in an ``async for`` loop, inside an ``async with`` statement.

    If the stream ends, it continues on the next server, with an event of kind ``MISSED``.
    """

    def __init__(self, calls: Calls, prefix: str) -> None:
        super().__init__(calls, WATCH, pb.WatchRequest(prefix=convert.text(prefix, "prefix")))

    def _item(self, message: pb.WatchResponse) -> Event | None:
        return convert.event(message)

    def _opened_again(self) -> Event:
        return Event(EventKind.MISSED)


class Observation(Follow[pb.ObserveRequest, pb.ObserveResponse, LockInfo]):
    """The states of a lock, in an ``async for`` loop, inside an ``async with`` statement.

    If it reads slowly it gets the newest state, and misses those between. If the stream ends, it continues on the next
    server, with the state of then. A queue that grows or shrinks, renewals and the end of a delay are no news.
    """

    def __init__(self, calls: Calls, name: str) -> None:
        super().__init__(calls, OBSERVE, pb.ObserveRequest(lock_name=convert.text(name, "name")))

    def _item(self, message: pb.ObserveResponse) -> LockInfo:
        return convert.lock_info(message.lock)
