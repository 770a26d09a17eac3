"""A name server with one name, whose address a test changes."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

_HEAD = 12
_A = 1


class Names:
    """Answers each query for an IPv4 address with the one of now, and has no other records."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.queries = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ends = False
        self._thread.start()

    def target(self, port: int) -> str:
        """The name as gRPC resolves it, with this server."""
        return f"dns://127.0.0.1:{self._socket.getsockname()[1]}/locks.example:{port}"

    def _serve(self) -> None:
        while True:
            query, client = self._socket.recvfrom(512)
            if self._ends:
                return
            end = query.index(0, _HEAD) + 5  # the name, its type and its class
            question, kind = query[_HEAD:end], query[end - 3]
            found = kind == _A
            head = query[:2] + b"\x85\x80" + bytes((0, 1, 0, found, 0, 0, 0, 0))
            # The name is that of the question; it may be kept for an hour.
            record = (
                b"\xc0\x0c\x00\x01\x00\x01" + (3600).to_bytes(4, "big") + b"\x00\x04" + socket.inet_aton(self.address)
            )
            self.queries += found
            self._socket.sendto(head + question + (record if found else b""), client)

    def __enter__(self) -> Names:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
            it.sendto(b"end", self._socket.getsockname())
        self._thread.join()
        self._socket.close()
