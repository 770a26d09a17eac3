"""Processes that the tests start, and stop by their ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

# Far more than a start takes, on a busy machine.
START_TIMEOUT = 30.0


def binary() -> str:
    """Returns the server under test: FENCEPOST_BIN, else the debug build of this repository."""
    built = Path(__file__).resolve().parents[4] / "target/debug/fencepost"
    return os.environ.get("FENCEPOST_BIN") or str(built)


def wait_for(condition: Callable[[], bool], what: str, timeout: float = START_TIMEOUT) -> None:
    """Waits until something outside this process is so, and fails if it takes too long."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


class Process:
    """A child process."""

    def __init__(self, command: list[str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self._output: IO[bytes] = log.open("ab")
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output)

    def pause(self) -> None:
        self.child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        self.child.terminate()

    def kill(self) -> None:
        """Stops it at once."""
        self.child.kill()
        self.child.wait()
        self._output.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class Server(Process):
    """A Fencepost server on a free port."""

    def __init__(self, folder: Path, *options: str, listen: str = "127.0.0.1:0", admin: str = "none") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ports = folder / "ports"
        ports.unlink(missing_ok=True)
        command = [binary(), "serve", "--listen", listen, "--ttl-min", "200ms"]
        command += ["--admin-listen", admin, "--admin-service", "everywhere"]
        super().__init__([*command, "--port-file", str(ports), *options], folder / "log")
        wait_for(lambda: ports.exists() or self.child.poll() is not None, f"the server listens, see {self.log}")
        assert self.child.poll() is None, self.log.read_text()
        self.address = ports.read_text().splitlines()[0]
        self.port = int(self.address.rpartition(":")[2]) if ":" in self.address and "/" not in self.address else 0

    def __enter__(self) -> Server:
        return self


class Redis(Process):
    """A Redis on a free port."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        program = os.environ.get("FENCEPOST_REDIS_SERVER", "redis-server")
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        super().__init__(command, folder / "log")
        wait_for(self._listens, "Redis listens")
        self.url = f"redis://127.0.0.1:{self.port}"

    def _listens(self) -> bool:
        assert self.child.poll() is None, self.log.read_text()
        with socket.socket() as it:
            return it.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Redis:
        return self
