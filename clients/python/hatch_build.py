"""Generates the code of the API from its proto file when a package is built, or installed for development.

The code, ``src/fencepost/v1``, is not checked in.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
PROTO = Path("fencepost/v1/lock.proto")


def source() -> Path:
    """Returns the folder of the proto file: in a source distribution it is beside this file."""
    for folder in (HERE / "proto", HERE.parent.parent / "proto"):
        if (folder / PROTO).is_file():
            return folder
    raise FileNotFoundError(f"{PROTO} is missing: build from the repository or from a source distribution")


def generate() -> None:
    """Writes the generated modules and their types."""
    import grpc_tools
    from grpc_tools import protoc

    standard = Path(grpc_tools.__file__).parent / "_proto"
    output = HERE / "src"
    package = output / PROTO.parent
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    arguments = ["protoc", f"-I{source()}", f"-I{standard}", f"--python_out={output}", f"--pyi_out={output}"]
    if protoc.main([*arguments, str(PROTO)]) != 0:
        raise RuntimeError(f"protoc failed: {' '.join(arguments)}")
    (package / "__init__.py").write_text('"""Messages of the API, generated from lock.proto."""\n')


class CustomBuildHook(BuildHookInterface[Any]):
    """Runs before the wheel or the source distribution is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generates the code, and adds it to what is packed, although git ignores it."""
        if self.target_name == "sdist":
            build_data["force_include"][str(source() / PROTO)] = f"proto/{PROTO}"
            for licence in HERE.parent.parent.glob("LICENSE-*"):
                build_data["force_include"][str(licence)] = licence.name
        else:
            generate()
            build_data["artifacts"].append("src/fencepost/v1")
