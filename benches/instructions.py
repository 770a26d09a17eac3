#!/usr/bin/env python3
"""Counts the instructions that a pair of acquire and release costs the server, under callgrind: they hardly depend on
what else the machine does. Each named program serves with its memory store, and one client makes pairs, one after
another, by unary calls and by a session. The cost of a pair is the difference of two runs of different lengths. The
first program also serves with access rules, and with a quota; beside them stands the cost of the same requests, with
their token, without rules. Runs alternate, so that a drift shows in all of them.

    make setup && target/python/bin/python benches/instructions.py target/release/fencepost [older/fencepost ...]
"""

import hashlib
import os
import queue
import re
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import grpc

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
SHORT, LONG = 100, 1_100
TOKEN = "instructions"
ACCESS = f"""mode = "enforce"
[[token]]
name = "bench"
sha256 = "{hashlib.sha256(TOKEN.encode()).hexdigest()}"
[[rule]]
who = ["bench"]
may = ["acquire"]
locks = ["bench/"]
"""
# Nothing of it is ever used up.
QUOTA = """[[quota]]
who = ["bench"]
acquires_per_second = 1000000
waits = 1000
leases = 1000
streams = 1000
connections = 1000
"""


def stubs(folder: Path):
    proto = "fencepost/v1/lock.proto"
    out = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}/proto", *out, proto], check=True)
    sys.path.insert(0, str(folder))
    from fencepost.v1 import lock_pb2, lock_pb2_grpc

    return lock_pb2, lock_pb2_grpc.LockServiceStub


def acquire(pb):
    request = pb.AcquireRequest(lock_name="bench/lock", holder="bench", request_id=str(uuid.uuid4()), attempt=1)
    request.ttl.seconds = 30
    return request


def unary(pb, service, metadata, pairs: int) -> None:
    for _ in range(pairs):
        answer = service.Acquire(acquire(pb), metadata=metadata)
        assert answer.outcome == pb.AcquireResponse.OUTCOME_ACQUIRED, answer
        service.Release(pb.ReleaseRequest(lock_name="bench/lock", lease_id=answer.lease.lease_id), metadata=metadata)


def session(pb, service, metadata, pairs: int) -> None:
    requests: queue.SimpleQueue = queue.SimpleQueue()
    answers = service.Session(iter(requests.get, None), metadata=metadata)

    def ask(number: int, **message):
        requests.put(pb.SessionRequest(operation=number, **message))
        while True:
            answer = next(answers)
            if answer.operation == number:
                return answer
            if answer.HasField("beat"):
                requests.put(pb.SessionRequest(answer=pb.BeatAnswer(beat=answer.beat.beat)))

    for pair in range(pairs):
        answer = ask(2 * pair + 1, acquire=pb.SessionAcquire(request=acquire(pb), handle=pair + 1))
        assert answer.acquire.outcome == pb.AcquireResponse.OUTCOME_ACQUIRED, answer
        release = pb.ReleaseRequest(lock_name="bench/lock", lease_id=answer.acquire.lease.lease_id)
        assert ask(2 * pair + 2, release=release).HasField("release")
    requests.put(None)


def counted(program: str, arguments: list[str], client) -> int:
    """The instructions of a server from its start to its end, in which the client uses it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, "serve"]
        command += ["--listen", "127.0.0.1:0", "--admin-listen", "none", *arguments]
        with log.open("w") as errors:
            # One thread: which of several one wakes would be a matter of chance.
            server = subprocess.Popen(command, stderr=errors, env={**os.environ, "TOKIO_WORKER_THREADS": "1"})
        try:
            while not (found := re.search(r"listening.*?(127\.0\.0\.1:\d+)", log.read_text())):
                assert server.poll() is None, log.read_text()
                time.sleep(0.05)
            with grpc.insecure_channel(found[1]) as channel:
                client(channel)
        finally:
            server.terminate()
            server.wait()
        return int(re.search(r"Collected : (\d+)", log.read_text())[1])


def main() -> None:
    programs = sys.argv[1:] or sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        pb, stub = stubs(folder)
        (folder / "rules.toml").write_text(ACCESS)
        (folder / "quota.toml").write_text(ACCESS + QUOTA)
        first = programs[0]
        variants = [(program, program, [], False) for program in programs]
        variants.append((f"{first}, with a token that it ignores", first, [], True))
        for kind in ["rules", "quota"]:
            variants.append((f"{first}, with {kind}", first, ["--access", f"{folder}/{kind}.toml"], True))
        for way in [unary, session]:
            costs: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for name, program, arguments, token in variants:
                    metadata = [("authorization", f"Bearer {TOKEN}")] if token else []

                    def run(pairs: int) -> int:
                        return counted(program, arguments, lambda channel: way(pb, stub(channel), metadata, pairs))

                    costs.setdefault(name, []).append((run(LONG) - run(SHORT)) / (LONG - SHORT))
            print(f"instructions of a pair by {way.__name__}, median and all:")
            for name, all_of in costs.items():
                print(f"  {statistics.median(all_of):>9,.0f}  {name}  {[round(one) for one in all_of]}", flush=True)


if __name__ == "__main__":
    main()
