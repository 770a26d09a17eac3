"""A TCP proxy that can swallow what passes."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

# The size of one read.
CHUNK = 65536


class Proxy:
    """Passes connections on to a port of this machine."""

    def __init__(self, port: int, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._target = port
        self._listener = socket.create_server(listen)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._drops_replies = threading.Event()
        self._drops_requests = threading.Event()
        self.connections = 0
        self.dropped = threading.Event()
        """Set when a reply was swallowed."""
        threading.Thread(target=self._accept, daemon=True).start()

    def drop_replies(self) -> None:
        """From now on nothing of the server arrives; the connections stay open."""
        self.dropped.clear()
        self._drops_replies.set()

    def blackhole(self) -> None:
        """From now on nothing passes in either direction; the connections stay open."""
        self._drops_requests.set()
        self._drops_replies.set()

    def silence(self) -> None:
        """From now on nothing passes on the connections that are open, and they stay open; new ones work."""
        drops_requests, drops_replies = self._drops_requests, self._drops_replies
        self._drops_requests, self._drops_replies = threading.Event(), threading.Event()
        drops_requests.set()
        drops_replies.set()

    def cut(self) -> None:
        """Closes all connections; new ones pass."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for it in sockets:
            _close(it)

    def heal(self) -> None:
        """Cuts the connections, and lets everything pass on new ones."""
        self.cut()
        self._drops_replies.clear()
        self._drops_requests.clear()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _close(near)
                continue
            with self._lock:
                self.connections += 1
                self._sockets += [near, far]
            threading.Thread(target=self._pass, args=(near, far, self._drops_requests), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, self._drops_replies), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, drops: threading.Event) -> None:
        try:
            while data := source.recv(CHUNK):
                if drops.is_set():
                    if drops is self._drops_replies:
                        self.dropped.set()
                    continue
                target.sendall(data)
        except OSError:
            pass
        _close(source)
        _close(target)


def _close(it: socket.socket) -> None:
    try:
        it.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    it.close()
