"""Starts processes that each acquire a lock with a client of their own.

forks.py HOW SERVER NAME      prints the exit codes
    spawn, forkserver         with that method of multiprocessing, while a client holds a lock
    before                    forks before the first client is made
    after                     forks after all clients are closed, and the threads of gRPC have ended
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

from fencepost import Client

CHILDREN = 3
# gRPC ends its threads about a second after the last channel is closed.
END_TIMEOUT = 30.0


def acquire(server: str, name: str) -> None:
    with Client(server) as client, client.lock(name, wait=END_TIMEOUT) as lock:
        assert lock.valid()


def forked(server: str, name: str) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            acquire(server, name)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def threads_end() -> None:
    end = time.monotonic() + END_TIMEOUT
    while len(list(Path("/proc/self/task").iterdir())) > 1:
        assert time.monotonic() < end
        time.sleep(0.01)


def main() -> None:
    how, server, name = sys.argv[1:]
    if how == "before":
        codes = [forked(server, name) for _ in range(CHILDREN)]
    elif how == "after":
        acquire(server, name)
        threads_end()
        codes = [forked(server, name) for _ in range(CHILDREN)]
    else:
        with Client(server) as client, client.lock(f"{name}/parent") as lock:
            multiprocessing.set_start_method(how)
            children = [multiprocessing.Process(target=acquire, args=(server, name)) for _ in range(CHILDREN)]
            for child in children:
                child.start()
            for child in children:
                child.join()
            codes = [child.exitcode or 0 for child in children]
            assert lock.valid()
    print(*codes)


if __name__ == "__main__":
    main()
