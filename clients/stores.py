#!/usr/bin/env python3
"""Starts real stores for the tests of the guards: PostgreSQL, MariaDB and Redis, from Debian's packages postgresql,
mariadb-server and redis-server (or the program that FENCEPOST_REDIS_SERVER names). They listen on free ports of
127.0.0.1 and keep their data in a temporary folder.

    clients/stores.py                   starts all
    clients/stores.py postgres redis    starts these

Prints one line of JSON when all of them serve:

    {"postgres": "postgresql://USER:PASSWORD@HOST:PORT/DATABASE", "redis": "redis://HOST:PORT",
     "mysql": {"host": ..., "port": ..., "user": ..., "password": ..., "database": ...}}

At the end of its input it stops them, deletes the folder and exits.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HOST = "127.0.0.1"
# The user, the password and the database of each store.
NAME = "fencepost"
# Seconds until a store has to serve, and to stop. Generous: a busy machine starts them in a few.
START_MAX = 60
STOP_MAX = 10
# Another process may take a free port before the store listens there. Then the store ends, and gets another one.
PORTS_MAX = 5


def program(name):
    """The path of a program. Debian keeps those of PostgreSQL in a folder of their version."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    path = str(versions[-1]) if versions else shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
    if path is None:
        raise SystemExit(f"stores: {name} is missing: apt-get install postgresql mariadb-server redis-server")
    return path


def free_port():
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return listener.getsockname()[1]


class Stores:
    """The running stores."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="fencepost-stores-"))
        self.processes = []
        # PostgreSQL and MariaDB refuse to run as root.
        self.user = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def prepare(self, *command):
        """Runs a command to its end."""
        done = subprocess.run(command, **self.options(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise SystemExit(f"stores: {command[0]} failed:\n{done.stdout}")

    def options(self):
        environment = {"PATH": os.environ["PATH"] + ":/usr/sbin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        return {"cwd": self.folder, "env": environment, "stdin": subprocess.DEVNULL, **self.user}

    def start(self, command, is_ready):
        """Starts a store on a free port. `command` and `is_ready` take the port, which is returned."""
        for _ in range(PORTS_MAX):
            port = free_port()
            path = self.folder / f"{port}.log"
            with path.open("wb") as log:
                process = subprocess.Popen(command(port), **self.options(), stdout=log, stderr=log)
            self.processes.append(process)
            deadline = time.monotonic() + START_MAX
            while process.poll() is None:
                if is_ready(port):
                    return port
                if time.monotonic() > deadline:
                    raise SystemExit(f"stores: {command(port)[0]} does not serve:\n{path.read_text()}")
                time.sleep(0.05)
        raise SystemExit(f"stores: {command(port)[0]} ended:\n{path.read_text()}")

    def postgres(self):
        data, server, ready = self.folder / "postgres", program("postgres"), program("pg_isready")
        self.prepare(
            program("initdb"), "--pgdata", data, "--username", NAME, "--auth", "trust", "--encoding", "UTF8",
            "--no-locale", "--no-sync",
        )  # fmt: skip
        settings = ["-c", f"listen_addresses={HOST}", "-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off"]
        port = self.start(
            lambda port: [server, "-D", data, "-p", str(port), *settings],
            lambda port: subprocess.run([ready, "-q", "-h", HOST, "-p", str(port)], check=False).returncode == 0,
        )
        return f"postgresql://{NAME}:{NAME}@{HOST}:{port}/postgres"

    def mysql(self):
        data, first, server = self.folder / "mysql", self.folder / "first.sql", program("mariadbd")
        # When it starts, it deletes the temporary tables that it finds, in /tmp those of others too.
        options = ["--no-defaults", f"--datadir={data}", f"--tmpdir={self.folder}"]
        options.append("--innodb-flush-log-at-trx-commit=0")
        self.prepare(program("mariadb-install-db"), *options, "--auth-root-authentication-method=normal")
        first.write_text(
            f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4;\n"
            f"CREATE USER {NAME}@'%' IDENTIFIED BY '{NAME}';\nGRANT ALL ON {NAME}.* TO {NAME}@'%';\n"
        )

        def is_ready(port):
            # The server greets before it reads anything. It runs the statements before it listens.
            try:
                with socket.create_connection((HOST, port), timeout=1) as connection:
                    return connection.recv(1) != b""
            except OSError:
                return False

        # Without names: no user without a name and no reverse lookup gets in the way of the user above.
        more = [f"--bind-address={HOST}", f"--init-file={first}", "--skip-name-resolve"]
        port = self.start(
            lambda port: [server, *options, *more, f"--port={port}", f"--socket={self.folder}/mysql.sock"], is_ready
        )
        return {"host": HOST, "port": port, "user": NAME, "password": NAME, "database": NAME}

    def redis(self):
        server = os.environ.get("FENCEPOST_REDIS_SERVER") or program("redis-server")

        def is_ready(port):
            try:
                with socket.create_connection((HOST, port), timeout=1) as connection:
                    connection.sendall(b"PING\r\n")
                    return connection.recv(5) == b"+PONG"
            except OSError:
                return False

        options = ["--bind", HOST, "--save", "", "--appendonly", "no"]
        port = self.start(lambda port: [server, "--port", str(port), *options], is_ready)
        return f"redis://{HOST}:{port}"

    def stop(self):
        for process in self.processes:
            # SIGTERM makes PostgreSQL wait for its clients, and MariaDB ignores SIGINT.
            process.send_signal(signal.SIGINT if process.args[0].endswith("postgres") else signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(STOP_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder)


def main():
    known = ["postgres", "mysql", "redis"]
    chosen = sys.argv[1:] or known
    if not set(chosen) <= set(known):
        raise SystemExit(f"stores: choose among {', '.join(known)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    stores = Stores()
    try:
        with ThreadPoolExecutor() as pool:
            started = {name: pool.submit(getattr(stores, name)) for name in chosen}
        print(json.dumps({name: store.result() for name, store in started.items()}), flush=True)
        sys.stdin.read()
    finally:
        stores.stop()


main()
