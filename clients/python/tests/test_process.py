"""What happens to a process: its exit, an interrupt, a pause, a fork."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO

import pytest
from conftest import PATIENCE
from support import forks
from support.processes import Server, wait_for

import fencepost
from fencepost import Client


@contextmanager
def child(program: str, *arguments: str) -> Generator[subprocess.Popen[str], None, None]:
    """Runs a program of Python; it has the lock name and the address as arguments."""
    command = [sys.executable, "-u", "-c", program, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[str]) -> str:
    output: IO[str] | None = process.stdout
    assert output is not None
    return output.readline().strip()


# How long a process may take to end.
EXIT_TIMEOUT = 5.0


def ended(process: subprocess.Popen[str]) -> None:
    """The process ends by itself, and has nothing to complain of."""
    _, complaints = process.communicate(timeout=EXIT_TIMEOUT)
    assert (process.returncode, complaints) == (0, "")


HOLD = """
import sys, time
from fencepost import Client
client = Client(sys.argv[2])
lock = client.acquire(sys.argv[1], ttl=2)
print("held")
"""

HOLD_AIO = """
import asyncio, sys
from fencepost.aio import Client
async def main():
    # Of the module: a lock that is collected while its loop still runs is released.
    global client, lock
    client = Client(sys.argv[2])
    lock = await client.acquire(sys.argv[1], ttl=2)
    print("held")
    {end}
asyncio.run(main())
"""


AT_THE_END = """
class AtTheEnd:
    sleep = staticmethod(time.sleep)
    def __del__(self):
        try:
            {call}
        except ClientClosed as error:
            print("interpreter ends" in str(error))
from fencepost import ClientClosed
at_the_end = AtTheEnd()
"""

OPEN_GENERATOR = """
import sys
from fencepost import Client
client = Client(sys.argv[2])
def hold():
    with client.lock(sys.argv[1], ttl=2) as lock:
        yield lock
holding = hold()
next(holding)
print("held")
"""

OPEN_STACK = """
import contextlib, sys
from fencepost import Client
stack = contextlib.ExitStack()
client = stack.enter_context(Client(sys.argv[2]))
lock = stack.enter_context(client.lock(sys.argv[1], ttl=2))
print("held")
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (HOLD + AT_THE_END.format(call="lock.release()"), "True"),
        (HOLD + AT_THE_END.format(call="client.try_acquire('another')"), "True"),
        (HOLD + AT_THE_END.format(call="client.get('another')"), "True"),
        (HOLD + AT_THE_END.format(call="print(lock.valid()); client.close()"), "True"),
        (HOLD + AT_THE_END.format(call="self.sleep(2); print(lock.valid(), lock.loss)"), "False None"),
        (OPEN_GENERATOR, ""),
        (OPEN_STACK, ""),
    ],
    ids=["release", "acquire", "get", "close", "expired", "generator", "stack"],
)
def test_use_at_the_end_of_the_interpreter_does_not_hold_it_up(
    program: str, printed: str, server: Server, name: str
) -> None:
    with child(program, name, server.address) as process:
        assert read(process) == "held"
        output, complaints = process.communicate(timeout=EXIT_TIMEOUT)
        assert (process.returncode, output.strip(), complaints) == (0, printed, "")


@pytest.mark.parametrize(
    "program",
    [
        HOLD,
        HOLD + "import os; sys.exit(0)",
        HOLD + "import threading; threading.Thread(target=client.acquire, args=(sys.argv[1],), "
        "kwargs={'wait': 60}, daemon=True).start()",
        HOLD + "next(iter(client.list())); watch = client.watch()",
        HOLD_AIO.format(end=""),
        HOLD_AIO.format(end="asyncio.create_task(client.acquire(sys.argv[1], wait=60)); await asyncio.sleep(0.1)"),
    ],
    ids=["return", "exit", "waiting", "watching", "aio", "aio-waiting"],
)
def test_a_process_that_ends_without_close_is_gone(program: str, server: Server, client: Client, name: str) -> None:
    with child(program, name, server.address) as process:
        assert read(process) == "held"
        ended(process)
    # The lock is free after its TTL.
    with client.lock(name, wait=PATIENCE) as lock:
        assert lock.previous_end is fencepost.LeaseEnd.EXPIRED


# A background job of a shell inherits SIGINT as ignored, and its children do.
WAIT = """
import signal, sys
from fencepost import Client
signal.signal(signal.SIGINT, signal.default_int_handler)
client = Client(sys.argv[2])
print("waits")
try:
    client.acquire(sys.argv[1], wait=600)
except KeyboardInterrupt:
    print("interrupted")
client.close()
"""


def test_an_interrupt_ends_a_wait(server: Server, client: Client, name: str) -> None:
    with client.lock(name), child(WAIT, name, server.address) as process:
        assert read(process) == "waits"
        wait_for(lambda: client.get(name).waiters == 1, "the child waits")
        process.send_signal(signal.SIGINT)
        assert read(process) == "interrupted"
        ended(process)
        wait_for(lambda: client.get(name).waiters == 0, "the child has left the queue", timeout=2.5)


PAUSED = """
import sys
from fencepost import Client
client = Client(sys.argv[2])
lock = client.acquire(sys.argv[1], ttl=1)
print(lock.token)
for line in sys.stdin:
    print(lock.valid(), lock.lost.is_set())
    try:
        lock.check()
    except Exception as error:
        print(type(error).__name__, error.reason.value)
    print(lock.release().end.value)
"""


def test_a_paused_process_finds_its_lock_lost_before_it_writes(server: Server, client: Client, name: str) -> None:
    with child(PAUSED, name, server.address) as process:
        token = int(read(process))
        process.send_signal(signal.SIGSTOP)
        with client.lock(name, wait=PATIENCE) as lock:
            assert lock.token > token
            assert lock.previous_end is fencepost.LeaseEnd.EXPIRED
            assert process.stdin is not None
            process.stdin.write("go on\n")
            process.stdin.flush()
            process.send_signal(signal.SIGCONT)
            assert read(process) == "False True"
            assert read(process).startswith("LockLost ")
            assert read(process) in ("unspecified", "superseded")
            assert lock.valid(), "the late release changed nothing"


FORKED = """
import os, signal, sys
from fencepost import Client, ClientClosed
client = Client(sys.argv[2])
with client.lock(sys.argv[1]) as lock:
    client.get(sys.argv[1])
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # it does not hang
        answers = [lock.valid()]
        for call in (lambda: client.acquire("a"), lock.release, lambda: client.get("a")):
            try:
                call()
            except ClientClosed as error:
                answers.append("fork" in str(error))
        client.close()
        os.write(writing, " ".join(map(str, answers)).encode())
        os._exit(0)
    os.close(writing)
    print(os.waitpid(pid, 0)[1], os.read(reading, 100).decode())
    print(lock.valid(), len(client.get(sys.argv[1]).holders))
client.close()
"""


def test_a_fork_does_not_share_the_client(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without this, about every sixth child crashes although it does nothing (grpcio 1.85). The child calls nothing of
    # gRPC.
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    with child(FORKED, name, server.address) as process:
        assert read(process) == "0 False True True True"
        assert read(process) == "True 1"
        ended(process)


FORKED_AIO = """
import asyncio, os, signal, sys
from fencepost import ClientClosed
from fencepost.aio import Client

def answer(call):
    try:
        call().send(None)  # the event loop of the parent must not run here
    except ClientClosed as error:
        return "fork" in str(error)

async def main():
    async with Client(sys.argv[2]) as client, client.lock(sys.argv[1]) as lock:
        await client.get(sys.argv[1])
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)  # it does not hang
            answers = [lock.valid()]
            for call in (lambda: client.acquire("a"), lock.release, lambda: client.get("a")):
                answers.append(answer(call))
            try:
                client.close().send(None)
            except StopIteration:
                answers.append("closed")
            os.write(writing, " ".join(map(str, answers)).encode())
            os._exit(0)
        os.close(writing)
        print(os.waitpid(pid, 0)[1], os.read(reading, 100).decode())
        print(lock.valid(), len((await client.get(sys.argv[1])).holders))
asyncio.run(main())
"""


def test_a_fork_does_not_share_the_client_of_asyncio(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    with child(FORKED_AIO, name, server.address) as process:
        assert read(process) == "0 False True True True closed"
        assert read(process) == "True 1"
        ended(process)


@pytest.mark.parametrize("how", ["spawn", "forkserver", "before", "after"])
def test_processes_that_make_their_own_clients(how: str, server: Server, name: str) -> None:
    command = [sys.executable, forks.__file__, how, server.address, name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert (done.stdout, done.stderr) == ("0 0 0\n", "")


BUSY = """
import sys, time
from fencepost import Client
client = Client("127.0.0.1:1", retry_for=3)
start = time.process_time()
try:
    client.acquire("a")
except Exception as error:
    print(type(error).__name__)
print(time.process_time() - start)
"""


def test_no_busy_loop_without_servers() -> None:
    with child(BUSY) as process:
        started = time.monotonic()
        assert read(process) == "Unavailable"
        assert time.monotonic() - started > 1
        assert float(read(process)) < 1
