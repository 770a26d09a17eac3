"""Looks why a server could not be called: one connection of its own, the start of HTTP/2, and the first bytes back.

gRPC hides what a port sent. This runs after a connection or a call has failed, never before one.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

from fencepost._core import timing
from fencepost._core.address import Address
from fencepost._core.failure import Failure, unsent, unsuitable
from fencepost._core.options import Options
from fencepost._facts import (
    NOT_GRPC_BYTES,
    NOT_GRPC_CLOSED,
    NOT_GRPC_CLOSED_PLAIN,
    NOT_GRPC_OTHER,
    NOT_GRPC_SILENT,
    NOT_GRPC_TLS_ALERT,
    TLS_NOT_TLS,
)
from fencepost._handshake import Handshake, TlsFailed, hello, is_tls

# What a client sends first: the preface of HTTP/2, and a frame of no settings.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))

# The start of a TLS alert, with which a TLS server refuses plain text.
_TLS_ALERT = b"\x15\x03"

_FRAME_HEAD = 9
_SETTINGS = 4

# The most bytes that a message shows of a foreign protocol.
_SHOWN_MAX = 60


class Looks:
    """The looks of a client at its servers, one at a time at each."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._running: set[int] = set()

    def look(self, server: int, why: Failure) -> Failure | None:
        """Returns what is wrong with a server, else ``why``. None if another look is on its way."""
        with self._lock:
            if server in self._running:
                return None
            self._running.add(server)
        try:
            return look(self._options, self._options.servers[server]) or why
        finally:
            with self._lock:
                self._running.discard(server)


def look(options: Options, address: Address) -> Failure | None:
    """Returns what is wrong with a server; None if nothing is to be seen. Blocks for ``timing.PROBE_TIMEOUT``, more if
    its name has several addresses, and for the resolution of the name.
    """
    until = time.monotonic() + timing.PROBE_TIMEOUT
    try:
        connection = _connect(address)
    except (socket.gaierror, UnicodeError) as error:
        return unsent(f"{address}: its name cannot be resolved: {_text(error)}")
    except TimeoutError:
        return unsent(f"{address}: no connection within {timing.PROBE_TIMEOUT:g} s")
    except OSError as error:
        return unsent(f"{address}: {_text(error)}")
    with connection:
        try:
            first = _over_tls(options, address, connection, until) if address.tls else _plain(connection, until)
        except TlsFailed as failed:
            return unsuitable(address, f": {failed.text}") if failed.permanent else unsent(f"{address}: {failed.text}")
        except TimeoutError:
            return unsent(f"{address} {NOT_GRPC_SILENT}")
        except OSError:
            first = b""
    return _judge(address, first) if first else _closed(address, until)


def _connect(address: Address) -> socket.socket:
    if not address.path:
        return socket.create_connection((address.host, address.port), timing.PROBE_TIMEOUT)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timing.PROBE_TIMEOUT)
        connection.connect(address.path)
    except BaseException:
        connection.close()
        raise
    return connection


def _plain(connection: socket.socket, until: float) -> bytes:
    connection.sendall(_PREFACE)
    return _first(lambda: receive(connection, until))


def _over_tls(options: Options, address: Address, connection: socket.socket, until: float) -> bytes:
    handshake = Handshake(options, address, lambda: receive(connection, until), connection.sendall)
    handshake.shake()
    handshake.write(_PREFACE)
    return _first(handshake.read)


def _first(read: Callable[[], bytes]) -> bytes:
    """Returns the first bytes, as many as it takes to tell what speaks there."""
    first = b""
    try:
        while not _is_enough(first) and (data := read()):
            first += data
    except OSError:
        if not first:
            raise
    return first


def receive(connection: socket.socket, until: float) -> bytes:
    """Returns the next bytes, none at the end. Raises TimeoutError if the time is over."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(left)
    return connection.recv(4096)


def _is_enough(first: bytes) -> bool:
    return len(first) >= _SHOWN_MAX or _is_http2(first) or b"\n" in first or first.startswith(_TLS_ALERT)


def _is_http2(first: bytes) -> bool:
    # The first frame is that of the server's settings, on stream 0.
    return len(first) >= _FRAME_HEAD and first[3] == _SETTINGS and first[4:_FRAME_HEAD] == bytes(5)


def _judge(address: Address, first: bytes) -> Failure | None:
    if _is_http2(first):
        return None
    if first.startswith(_TLS_ALERT) and not address.tls:
        return unsuitable(address, f" {NOT_GRPC_TLS_ALERT}")
    return unsuitable(address, f" {NOT_GRPC_OTHER.replace('{}', _shown(first))}")


def _closed(address: Address, until: float) -> Failure:
    """Judges a port that closed the connection. It may speak, with TLS in place of plain text, or the other way."""
    other = bool(not address.path and _speaks_otherwise(address, until))
    if address.tls:
        if other:
            return unsuitable(address, f": {TLS_NOT_TLS}")
        return unsent(f"{address} {NOT_GRPC_CLOSED}")
    text = f" {NOT_GRPC_CLOSED if address.path else NOT_GRPC_CLOSED_PLAIN}"
    return unsuitable(address, text) if other else unsent(f"{address}{text}")


def _speaks_otherwise(address: Address, until: float) -> bool:
    try:
        with _connect(address) as connection:
            if address.tls:
                return _is_http2(_plain(connection, until))
            connection.sendall(hello())
            return is_tls(receive(connection, until))
    except OSError:
        return False


def _shown(first: bytes) -> str:
    """Returns the first line, quoted, if it is text."""
    try:
        line = first[:_SHOWN_MAX].splitlines()[0].decode()
    except UnicodeDecodeError:
        return NOT_GRPC_BYTES
    return json.dumps(line, ensure_ascii=False) if line.isprintable() and line else NOT_GRPC_BYTES


def _text(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        # The library adds words of its own to those of the system.
        return os.strerror(error.errno).lower()
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).lower()
