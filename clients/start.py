#!/usr/bin/env python3
"""Measures the start of a new user in each language: from a clean folder to the first lock.

start.py [LANGUAGE …]

Installs the client as its README says, writes the smallest program that holds a lock, and runs it against a server of
its own. Prints the time of each step in seconds. Packages of the registries come from the caches of this machine if
they are there, as on the machine of somebody who works in that language. FENCEPOST_BIN names the server; the default is
the debug build of this repository. Writes to a temporary folder, and to what the builds of the clients use in target.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "clients"

# Far more than a step takes on a busy machine.
STEP_TIMEOUT = 1_200.0
SERVER_TIMEOUT = 30.0

Step = tuple[str, list[str]]

PYTHON = """\
from fencepost import Client

with Client() as client, client.lock("start", wait=30) as lock:
    print("token", lock.token)
"""

TYPESCRIPT = """\
import { Client } from "@fencepost/client";

const client = new Client();
await client.using("start", { wait: 30_000 }, async (lock) => console.log("token", lock.token));
await client.close();
"""

GO = """\
package main

import (
	"context"
	"fmt"
	"log"

	fencepost "github.com/fencepost/fencepost-go"
)

func main() {
	client, err := fencepost.New(fencepost.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	err = client.Do(context.Background(), "start", func(ctx context.Context, token uint64) error {
		fmt.Println("token", token)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
"""

GO_MODULE = """\
module start

go 1.26

require github.com/fencepost/fencepost-go v0.0.0

replace github.com/fencepost/fencepost-go => {clients}/go
"""

JAVA = """\
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;

public class Start {
  public static void main(String[] arguments) {
    try (FencepostClient client = FencepostClient.create();
        FencedLock lock = client.acquire("start").get()) {
      System.out.println("token " + lock.token());
    }
  }
}
"""

RUST = """\
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = fencepost_client::Client::from_env()?;
    let lock = client.acquire("start").await?;
    println!("token {}", lock.token());
    lock.release().await?;
    Ok(())
}
"""

RUST_MANIFEST = """\
[package]
name = "start"
version = "0.0.0"
edition = "2024"

[dependencies]
fencepost-client = {{ path = "{clients}/rust" }}
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[workspace]
"""


def python(folder: Path) -> list[Step]:
    (folder / "start.py").write_text(PYTHON)
    return [
        ("install", [sys.executable, "-m", "venv", "env"]),
        ("install", ["env/bin/pip", "install", "--quiet", "--disable-pip-version-check", str(CLIENTS / "python")]),
        ("run", ["env/bin/python", "start.py"]),
    ]


def typescript(folder: Path) -> list[Step]:
    (folder / "start.mjs").write_text(TYPESCRIPT)
    package = ROOT / "target/clients/typescript/package"
    return [
        ("build the client", ["npm", "--prefix", str(CLIENTS / "typescript"), "ci", "--silent"]),
        ("build the client", ["npm", "--prefix", str(CLIENTS / "typescript"), "run", "--silent", "build"]),
        ("install", ["npm", "install", "--silent", "--install-links", str(package)]),
        ("run", ["node", "start.mjs"]),
    ]


def go(folder: Path) -> list[Step]:
    (folder / "main.go").write_text(GO)
    (folder / "go.mod").write_text(GO_MODULE.format(clients=CLIENTS))
    return [("install", ["go", "mod", "tidy"]), ("run", ["go", "run", "."])]


def java(folder: Path) -> list[Step]:
    (folder / "Start.java").write_text(JAVA)
    version = "0.1.0"
    jar = Path.home() / f".m2/repository/io/fencepost/fencepost-client/{version}/fencepost-client-{version}-shaded.jar"
    maven = ["mvn", "--batch-mode", "--quiet", "--file", str(CLIENTS / "java"), "install", "-DskipTests"]
    return [("build the client", maven), ("run", ["java", "-cp", str(jar), "Start.java"])]


def rust(folder: Path) -> list[Step]:
    (folder / "src").mkdir()
    (folder / "src/main.rs").write_text(RUST)
    (folder / "Cargo.toml").write_text(RUST_MANIFEST.format(clients=CLIENTS))
    return [("install", ["cargo", "build", "--quiet"]), ("run", ["target/debug/start"])]


LANGUAGES = {"python": python, "typescript": typescript, "go": go, "java": java, "rust": rust}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Runs a server. Yields its address."""
    program = os.environ.get("FENCEPOST_BIN", str(ROOT / "target/debug/fencepost"))
    ports = folder / "ports"
    listen = ["--listen", "127.0.0.1:0", "--admin-listen", "none", "--port-file", str(ports)]
    with (folder / "log").open("wb") as log, subprocess.Popen([program, "serve", *listen], stderr=log) as process:
        try:
            end = time.monotonic() + SERVER_TIMEOUT
            while not ports.exists():
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"the server does not start: {(folder / 'log').read_text()}")
                time.sleep(0.01)
            yield ports.read_text().split()[0]
        finally:
            process.terminate()


def measure(language: str, address: str) -> dict[str, float]:
    """Returns the seconds of each step."""
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix=f"fencepost-{language}-") as name:
        folder = Path(name)
        for step, command in LANGUAGES[language](folder):
            begun = time.monotonic()
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "FENCEPOST_SERVER": address},
                timeout=STEP_TIMEOUT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            times[step] = times.get(step, 0.0) + time.monotonic() - begun
            if done.returncode != 0 or (step == "run" and not done.stdout.startswith("token ")):
                raise SystemExit(f"{language}: {' '.join(command)}: {done.returncode}\n{done.stdout}")
    return times


def main() -> None:
    chosen = sys.argv[1:] or list(LANGUAGES)
    unknown = [language for language in chosen if language not in LANGUAGES]
    if unknown:
        raise SystemExit(f"unknown languages: {' '.join(unknown)}; there are {' '.join(LANGUAGES)}")
    with tempfile.TemporaryDirectory(prefix="fencepost-start-") as name, server(Path(name)) as address:
        for language in chosen:
            times = measure(language, address)
            steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in times.items())
            print(f"{language}: {sum(times.values()):.1f} s ({steps})", flush=True)


if __name__ == "__main__":
    main()
