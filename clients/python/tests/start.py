"""Does what a new user does: runs the first lines of the README, and the examples, with an installed package.

start.py PYTHON FOLDER      with that interpreter, in a folder of its own
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.processes import Server, binary

HERE = Path(__file__).resolve().parent.parent


def snippets() -> list[str]:
    """The programs of the README that stand alone."""
    readme = (HERE / "README.md").read_text()
    alone = re.compile(r"^from fencepost(\.aio)? import", re.MULTILINE)
    return [it for it in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if alone.search(it)]


def main() -> None:
    python, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with Server(folder / "server") as server:
        environment = {it: os.environ[it] for it in ("PATH", "HOME") if it in os.environ}
        environment |= {"FENCEPOST_SERVER": server.address, "FENCEPOST_BIN": binary()}
        programs = [(f"README {it.splitlines()[0]}", ["-c", it]) for it in snippets()]
        programs += [(it.name, [str(it)]) for it in sorted((HERE / "examples").glob("*.py"))]
        for name, arguments in programs:
            subprocess.run([python, "-W", "error", *arguments], check=True, timeout=60, cwd=folder, env=environment)
            print(f"{name}: ok")


if __name__ == "__main__":
    main()
