"""What the client leaves of its calls to the end of the interpreter.

gRPC's threads are daemons: the interpreter stops them wherever they are, even where one has the lock of a call. If the
call is collected after that, its __del__ waits for the lock forever. The programs here have a thread that ends with the
lock, as one of gRPC does only when it is unlucky.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.processes import Server
from test_process import child, ended, read

BEGIN = """
import atexit, gc, logging, sys, threading
import grpc

def end():
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(timeout=2)
    # Only the locks: a call that is used here would not be collected.
    for lock in [it._state.condition for it in gc.get_objects() if isinstance(it, grpc.Call)]:
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
    print("ends")

# The first to be registered is the last to be called, and after it the interpreter stops the threads.
atexit.register(end)
# The collector finds all at the end, as it does in a program that is short.
gc.disable()
logging.disable()
from fencepost import Client, Unavailable
"""

CLOSED = """
with Client(sys.argv[2]) as client, client.lock(sys.argv[1]):
    pass
"""

WATCHED = """
with Client(sys.argv[2]) as client, client.watch() as watch:
    client.acquire(sys.argv[1]).release()
    next(watch)
    threading.Timer(0.1, watch.close).start()
    for event in watch:
        pass
"""

NOT_CLOSED = """
watch = Client(sys.argv[2]).watch()
"""


@pytest.mark.parametrize("program", [CLOSED, WATCHED, NOT_CLOSED], ids=["closed", "watched", "not-closed"])
def test_the_calls_of_a_client_do_not_hold_up_the_end(program: str, server: Server, name: str) -> None:
    with child(BEGIN + program, name, server.address) as process:
        assert read(process) == "ends"
        ended(process)


LOST = """
client = Client(sys.argv[2], retry_for=1)
lock = client.acquire(sys.argv[1], ttl=1)
print("held")
lock.lost.wait()
client.close()
"""

# It keeps the error, as a program does for a log.
WATCH_ENDED = """
client = Client(sys.argv[2], retry_for=1)
watch = client.watch()
print("watched")
try:
    next(watch)
except Unavailable as error:
    last = error
"""


@pytest.mark.parametrize("program", [LOST, WATCH_ENDED], ids=["lost", "watch"])
def test_the_calls_that_a_server_ended_do_not_hold_up_the_end(program: str, tmp_path: Path, name: str) -> None:
    with Server(tmp_path) as server, child(BEGIN + program, name, server.address) as process:
        read(process)
        server.kill()
        assert read(process) == "ends"
        ended(process)
