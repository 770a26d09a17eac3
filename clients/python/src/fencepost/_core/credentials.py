"""A file with a bearer token, for servers that ask for credentials."""

from __future__ import annotations

import os
from pathlib import Path


class Credentials:
    """Returns the token in a file. It is read each time, because others replace it before it expires."""

    def __init__(self, path: str | os.PathLike[str], named_by: str) -> None:
        self._path = Path(path)
        self._named_by = named_by

    def __call__(self) -> str:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{self._named_by} names {self._path}: {error}") from error
        if not token:
            raise ValueError(f"{self._named_by} names {self._path}: it is empty")
        return token
