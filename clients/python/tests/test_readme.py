"""The recipes of the README do what it says. Its other programs run in start.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from conftest import PATIENCE
from start import snippets
from support.processes import Server, wait_for

from fencepost import Client, LeaseEnd

NAME = "nightly-report"


@pytest.mark.parametrize("work", ["    time.sleep(1)", "await asyncio.sleep(1)"], ids=["threads", "asyncio"])
def test_sigterm_releases_the_locks(work: str, server: Server) -> None:
    (program,) = [it for it in snippets() if "SIGTERM" in it and work in it]
    longer = program.replace("sleep(1)", f"sleep({PATIENCE})")
    environment = os.environ | {"FENCEPOST_SERVER": server.address}
    with Client(server.address) as client:
        with subprocess.Popen([sys.executable, "-c", longer], env=environment, stderr=subprocess.PIPE) as process:
            wait_for(lambda: bool(client.get(NAME).holders), "it holds the lock")
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=PATIENCE)
            assert (process.returncode, complaints) == (128 + signal.SIGTERM, b"")
        assert client.get(NAME).previous_end is LeaseEnd.RELEASED


def test_without_the_recipe_the_lock_stays(server: Server, name: str) -> None:
    program = (
        f"import time\nfrom fencepost import Client\nwith Client() as it, it.lock({name!r}): time.sleep({PATIENCE})"
    )
    environment = os.environ | {"FENCEPOST_SERVER": server.address}
    with Client(server.address) as client:
        with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
            wait_for(lambda: bool(client.get(name).holders), "it holds the lock")
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
        assert client.get(name).holders, "the test above shows something"
