"""Refuses processes whose threads gevent or eventlet have replaced with greenlets that gRPC cannot run in: there, every
call would hang.
"""

from __future__ import annotations

import sys

from grpc._cython import cygrpc  # type: ignore[attr-defined]

from fencepost.errors import Refused

_GEVENT = (
    "gevent has patched the threads of this process, and gRPC was not told: calls would hang. Call "
    "grpc.experimental.gevent.init_gevent() after gevent.monkey.patch_all(), before the first client is made"
)
_GEVENT_ASYNCIO = (
    "gevent has patched the threads of this process, and gRPC with asyncio does not work there: calls would hang. Use "
    "fencepost.Client with grpc.experimental.gevent.init_gevent(), or leave threads unpatched: "
    "gevent.monkey.patch_all(thread=False, queue=False)"
)
_GEVENT_QUEUE = (
    "gevent has patched the queues of this process, but not its threads, which would hang with them: use "
    "gevent.monkey.patch_all(thread=False, queue=False)"
)
_EVENTLET = (
    "eventlet has patched the threads of this process, and gRPC does not work there: calls would hang. Leave threads "
    "unpatched, eventlet.monkey_patch(thread=False), or use the client in a process of its own"
)


def check_threads() -> None:
    """Raises Refused if the client with threads would hang."""
    # Of grpc 1.63 and later; where it is missing, nothing is known.
    if _is_patched_by_gevent("threading"):
        if not getattr(cygrpc, "g_gevent_activated", True):
            raise _refused(_GEVENT)
    elif _is_patched_by_gevent("queue"):
        raise _refused(_GEVENT_QUEUE)
    _check_eventlet()


def check_asyncio() -> None:
    """Raises Refused if the client for asyncio would hang."""
    if _is_patched_by_gevent("threading"):
        raise _refused(_GEVENT_ASYNCIO)
    _check_eventlet()


def _is_patched_by_gevent(module: str) -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and monkey.is_module_patched(module)


def _check_eventlet() -> None:
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        raise _refused(_EVENTLET)


def _refused(why: str) -> Refused:
    return Refused("FAILED_PRECONDITION", "", why)
