"""The real server, as a child process."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from itertools import zip_longest
from pathlib import Path
from types import TracebackType

from fencepost.testing import _faults

# Seconds until the server has to listen, and to stop: far more than it takes on a busy machine.
_START_MAX = 30.0
_STOP_MAX = 10.0


# The store of the server, unless the options name another one.
_MEMORY = "memory:"


def _store(options: tuple[str, ...]) -> str | None:
    """The store that options of the server name."""
    for option, after in zip_longest(options, options[1:]):
        if option == "--store":
            return after
        if option.startswith("--store="):
            return option.removeprefix("--store=")
    return None


class Server:
    """Runs the real server on a free port of this machine, with its locks in memory, for a ``with`` statement.

    The program is the one that ``FENCEPOST_BIN`` names, else ``fencepost`` on the ``PATH``. It fails when the test says
    so: :meth:`pause`, :meth:`lose` and :meth:`drop_reply`.
    """

    def __init__(self, *options: str) -> None:
        """
        Args:
            options: More options of ``fencepost serve``, such as ``"--ttl-min", "200ms"``. With ``"--store"`` and
                another store than ``memory:``, :meth:`lose` and :meth:`drop_reply` raise :exc:`RuntimeError`.

        Raises:
            FileNotFoundError: there is no such program.
            RuntimeError: the server does not start; the message has its log.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="fencepost-")
        ports, log = Path(self._folder.name, "ports"), Path(self._folder.name, "log")
        program = os.environ.get("FENCEPOST_BIN") or "fencepost"
        command = [program, "serve", "--listen", "127.0.0.1:0", "--port-file", str(ports)]
        command += ["--admin-listen", "none", "--admin-service", "everywhere"]
        store = _store(options)
        if store is None:
            command += ["--store", _MEMORY]
        fails = store in (None, _MEMORY)
        if fails:
            command += ["--test-faults", "127.0.0.1:0"]
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(  # noqa: S603
                    [*command, *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
        except OSError:
            self._folder.cleanup()
            raise
        end = time.monotonic() + _START_MAX
        while not ports.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                said = log.read_text()
                self.stop()
                raise RuntimeError(f"{program} serve does not start: {said}")
            time.sleep(0.01)
        addresses = ports.read_text().splitlines()
        self.address = addresses[0]
        """Where it listens, as :class:`fencepost.Client` takes it."""
        self._faults = addresses[-1] if fails else None

    def pause(self) -> None:
        """Stops the process (``SIGSTOP``): connections stay open, and nobody answers."""
        self._process.send_signal(signal.SIGSTOP)
        # The signal is sent before the process stops. macOS has no waitid.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Ends the pause. Leases that ran out meanwhile have expired."""
        self._process.send_signal(signal.SIGCONT)

    def lose(self, name: str) -> None:
        """Revokes the lease of a lock, as an operator does.

        Raises:
            KeyError: nobody holds the lock.
            ValueError: a lock cannot have this name.
            TimeoutError: the server is paused.
        """
        _faults.lose(self._faults, name)

    def drop_reply(self) -> None:
        """Loses a reply: the next acquire, release, renewal, conversion or description that succeeds takes effect, but
        in place of its reply all connections of the server end. Clients connect and ask again. Two calls lose two
        replies.

        Raises:
            TimeoutError: the server is paused.
        """
        _faults.drop_reply(self._faults)

    def stop(self) -> None:
        """Ends the server. Twice does no harm."""
        if self._process.poll() is None:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(_STOP_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
