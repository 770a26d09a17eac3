"""Server addresses as people write them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost._core.convert import text
from fencepost._facts import DEFAULT_PORT

_PORT_MAX = 65535
_HOST = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True)
class Address:
    """The address of a server: host and port, or the path of a Unix socket."""

    host: str = ""
    """Without brackets; empty for a Unix socket."""
    port: int = DEFAULT_PORT
    tls: bool = False
    path: str = ""
    """The path of a Unix socket, or empty."""

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"{'https://' if self.tls else ''}{self._authority()}"

    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """The name that gRPC resolves."""
        if self.path:
            return f"unix:{self.path}"
        return f"ipv6:{self._authority()}" if ":" in self.host else f"dns:///{self._authority()}"

    @property
    def is_local(self) -> bool:
        """Whether nobody outside this machine sees what is sent."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_list(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """Parses a list of addresses, or a text with commas between them."""
    if isinstance(servers, bytes) or not isinstance(servers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"servers must be an address or a list of addresses, not {type(servers).__name__}")
    texts = servers.split(",") if isinstance(servers, str) else [text(it, "a server") for it in servers]
    addresses = tuple(map(parse, texts))
    if not addresses:
        raise ValueError("no server given: write host:port, such as 127.0.0.1:7420")
    return addresses


def parse(written: str) -> Address:
    """Parses ``host:port``, ``host``, ``http(s)://host:port``, ``unix:/path`` or ``unix:///path``."""
    try:
        return _parse(written.strip())
    except _Invalid as rule:
        # What stands in front of @ may be a password.
        shown = "***@" + written.rsplit("@", 1)[1] if "@" in written else written
        raise ValueError(f"invalid server address {shown!r}: {rule}") from None


class _Invalid(Exception):
    """The rule that an address breaks."""


def _parse(text: str) -> Address:
    scheme, separator, rest = text.partition("://")
    if not separator:
        if text.lower().startswith("unix:"):
            return _unix(text[len("unix:") :])
        scheme, rest = "", text
    scheme = scheme.lower()
    if scheme == "unix":
        return _unix(rest)
    if scheme not in ("", "http", "https"):
        raise _Invalid("the scheme must be http://, https:// or unix:; write host:port, or https://host:port for TLS")
    if scheme:
        rest = rest.removesuffix("/")
    if not rest:
        raise _Invalid("it is empty; write host:port, such as 127.0.0.1:7420")
    if "," in rest:
        raise _Invalid("it names several servers; give each by itself")
    if "@" in rest:
        raise _Invalid("a user or a password in front of @ is not supported; write host:port")
    if any(it in rest for it in "/?#"):
        raise _Invalid("nothing may follow host:port, and this has a path")
    host, port = _split(rest)
    return Address(host, _port(port), scheme == "https")


def _unix(path: str) -> Address:
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise _Invalid("a Unix socket needs an absolute path, such as unix:/run/fencepost.sock")
    if "," in path:
        raise _Invalid("it names several servers; give each by itself")
    return Address(path=path)


def _split(text: str) -> tuple[str, str | None]:
    brackets = _Invalid("an IPv6 address needs brackets, such as [::1]:7420")
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or not _is_ipv6(host) or (rest and not rest.startswith(":")):
            raise brackets
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        raise brackets
    host, colon, port = text.partition(":")
    if not host or (not colon and host.isdigit()):
        raise _Invalid("the host is missing; write host:port, such as localhost:7420")
    numeric = all(it.isdigit() or it == "." for it in host)
    if not _HOST.match(host) or (numeric and not _is_ipv4(host)):
        raise _Invalid("the host must be an IP address, or a name of letters, digits, hyphens, underscores and dots")
    return host, port if colon else None


def _port(digits: str | None) -> int:
    if digits is None:
        return DEFAULT_PORT
    # Not int(), which accepts signs, spaces and underscores.
    if not (digits.isascii() and digits.isdigit() and 1 <= int(digits) <= _PORT_MAX):
        raise _Invalid("the port must be a number from 1 to 65535")
    return int(digits)


def _is_ipv4(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True
