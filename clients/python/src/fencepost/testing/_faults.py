"""Orders to the port of the real server that makes faults for tests: ``fencepost serve --test-faults``."""

from __future__ import annotations

from http import HTTPStatus
from http.client import HTTPConnection

# Seconds until the server has to answer. A paused one does not.
_TIMEOUT = 10.0


def lose(address: str | None, name: str) -> None:
    """Revokes the lease of a lock."""
    status, text = _post(address, "/lose", name)
    if status == HTTPStatus.NOT_FOUND:
        raise KeyError(text)
    if status == HTTPStatus.BAD_REQUEST:
        raise ValueError(text)
    _expect_done(status, text)


def drop_reply(address: str | None) -> None:
    """Loses the next reply."""
    _expect_done(*_post(address, "/drop-reply"))


def _post(address: str | None, path: str, body: str = "") -> tuple[int, str]:
    """Returns the status and the text of the reply. Uses no web proxy: ``http.client`` knows none."""
    if address is None:
        raise RuntimeError("only a server with --store memory: takes orders to fail")
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=_TIMEOUT)
    try:
        connection.request("POST", path, body.encode())
        reply = connection.getresponse()
        return reply.status, reply.read().decode().strip()
    finally:
        connection.close()


def _expect_done(status: int, text: str) -> None:
    if status != HTTPStatus.NO_CONTENT:
        raise RuntimeError(f"the server answered {status}: {text}")
