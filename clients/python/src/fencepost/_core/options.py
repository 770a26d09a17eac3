"""What a client is told: servers, TLS, token, label. Read once, when the client is made."""

from __future__ import annotations

import getpass
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from fencepost._core import address, failure
from fencepost._core.address import Address
from fencepost._core.convert import seconds, text
from fencepost._core.credentials import Credentials
from fencepost._facts import (
    DEFAULT_SERVER,
    ENVIRONMENT_CA,
    ENVIRONMENT_CERT,
    ENVIRONMENT_CREDENTIALS,
    ENVIRONMENT_KEY,
    ENVIRONMENT_SERVER,
    HOLDER_BYTES_MAX,
)
from fencepost.errors import Refused

# The longest time for retries: a day.
_RETRY_FOR_MAX = 86_400

Token = str | Callable[[], str]
"""A bearer token, or a function that returns one, asked before each connection and call."""

AsyncToken = Token | Callable[[], Awaitable[str]]
"""The same for asyncio, where the function may be a coroutine."""


@dataclass(frozen=True)
class Tls:
    """Files of TLS, all PEM. They are read for each connection, so that a rotation needs no restart."""

    ca_file: str | os.PathLike[str] | None = None
    """The authorities of the servers. Without it, those of this machine."""
    cert_file: str | os.PathLike[str] | None = None
    """The certificate of this client, with its intermediates, for servers that ask for one."""
    key_file: str | os.PathLike[str] | None = None
    """The private key of ``cert_file``."""


@dataclass(frozen=True)
class TlsFiles:
    """The contents of the files."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None


@dataclass(frozen=True)
class Options:
    """The checked options of a client."""

    servers: tuple[Address, ...]
    holder: str
    tls: Tls
    token: AsyncToken | None = field(repr=False)  # a secret
    retry_for: float

    def read_tls(self) -> TlsFiles:
        """Reads the files; raises OSError if one cannot be read."""
        ca = self.tls.ca_file or ssl.get_default_verify_paths().cafile
        return TlsFiles(_read(ca), _read(self.tls.cert_file), _read(self.tls.key_file))

    @staticmethod
    def authorization(token: object) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of one call. Raises Refused if a function returned something that is no token."""
        try:
            return (("authorization", f"Bearer {_check_token(token)}"),)
        except (TypeError, ValueError) as error:
            raise Refused("UNAUTHENTICATED", "", str(error)) from error

    @staticmethod
    def no_token(error: Exception) -> Refused:
        """Returns the error of a call for which a function did not return a token."""
        why = failure.no_token(repr(error))
        return Refused(why.code, why.reason, why.message)


def check(
    servers: str | Iterable[str] | None,
    holder: str | None,
    tls: Tls | None,
    token: AsyncToken | None,
    credentials: str | os.PathLike[str] | None,
    retry_for: float | timedelta,
    environment: Mapping[str, str] = os.environ,
) -> Options:
    """Checks the options and fills in what is not given."""
    if servers is None:
        servers = environment.get(ENVIRONMENT_SERVER) or DEFAULT_SERVER
    addresses = address.parse_list(servers)
    retry_seconds = seconds(retry_for, "retry_for", f"from 0 to {_RETRY_FOR_MAX} seconds", _RETRY_FOR_MAX)
    if holder is None:
        holder = default_holder()
    elif len(text(holder, "holder").encode()) > HOLDER_BYTES_MAX:
        raise ValueError(f"the holder has {len(holder.encode())} bytes, the maximum is {HOLDER_BYTES_MAX}")
    if tls is not None and not isinstance(tls, Tls):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"tls must be a Tls, not {type(tls).__name__}")
    token = _token(token, credentials, environment)
    plain = [it for it in addresses if not it.tls]
    if tls is not None and (outside := [it for it in plain if not it.path]):
        raise ValueError(f"TLS files are given, but {outside[0]} is an address without TLS: write https://{outside[0]}")
    if token is not None and (open_to_all := [it for it in plain if not it.is_local]):
        raise ValueError(f"a token would be sent to {open_to_all[0]} in plain text: write https://{open_to_all[0]}")
    if token is not None and not callable(token):
        _check_token(token)
    files = tls or Tls(*(environment.get(it) or None for it in (ENVIRONMENT_CA, ENVIRONMENT_CERT, ENVIRONMENT_KEY)))
    if (files.cert_file is None) != (files.key_file is None):
        raise ValueError("cert_file and key_file belong together: give both, or neither")
    options = Options(addresses, holder, files, token, retry_seconds)
    if len(plain) < len(addresses):
        options.read_tls()
    return options


def _token(
    token: AsyncToken | None, credentials: str | os.PathLike[str] | None, environment: Mapping[str, str]
) -> AsyncToken | None:
    """Returns where tokens come from."""
    if token is not None and credentials is not None:
        raise ValueError("token and credentials are two sources of one token: give one of them")
    if credentials is not None:
        return Credentials(credentials, "credentials")
    file = environment.get(ENVIRONMENT_CREDENTIALS)
    return Credentials(file, ENVIRONMENT_CREDENTIALS) if token is None and file else token


def _check_token(token: object) -> str:
    """Checks what a header cannot carry, and says so without the token."""
    if not isinstance(token, str):
        raise TypeError(f"the token must be a str, not {type(token).__name__}")
    if not token:
        raise ValueError("the token is empty")
    if "\n" in token or "\r" in token:
        raise ValueError("the token has a line end: strip it, for example after reading it from a file")
    if not (token.isascii() and token.isprintable()) or token != token.strip():
        raise ValueError("the token must consist of printable ASCII characters, without spaces around it")
    return token


def default_holder() -> str:
    """Returns ``user@host:pid``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = "unknown"
    label = f"{user}@{socket.gethostname()}:{os.getpid()}"
    return "".join(it for it in label if it.isprintable()).encode()[-HOLDER_BYTES_MAX:].decode(errors="ignore")


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
