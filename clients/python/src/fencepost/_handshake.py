"""A TLS handshake that shows why it failed, over bytes that a probe passes on."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from contextlib import suppress

from fencepost._core.address import Address
from fencepost._core.options import Options
from fencepost._facts import (
    TLS_CLIENT_CERTIFICATE_MISSING,
    TLS_CLIENT_CERTIFICATE_REFUSED,
    TLS_EXPIRED,
    TLS_NOT_TLS,
    TLS_UNTRUSTED,
    TLS_WRONG_NAME,
)

# The first byte of each record of TLS: from a change of keys to data.
_RECORD_TYPES = range(0x14, 0x18)
_VERSION_MAJOR = 3

# The codes of OpenSSL's verification.
_EXPIRED = 10
_NOT_YET_VALID = 9
_WRONG_NAMES = (62, 64)
_UNTRUSTED = (2, 18, 19, 20, 21)

_ALERT = re.compile(r"ALERT_(\w+)")

# The alerts of servers that miss a client certificate. TLS 1.2 has none of its own for that.
_MISSING = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "ACCESS_DENIED")


class TlsFailed(Exception):
    """Why TLS with a server failed."""

    def __init__(self, text: str, permanent: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.permanent = permanent


class Handshake:
    """A connection with TLS."""

    def __init__(
        self, options: Options, address: Address, receive: Callable[[], bytes], send: Callable[[bytes], object]
    ) -> None:
        self._receive = receive
        self._send = send
        self._has_received = False
        self._shows_certificate = options.tls.cert_file is not None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = _context(options).wrap_bio(self._in, self._out, server_hostname=address.host)

    def shake(self) -> None:
        """Raises TlsFailed, or an OSError of the connection."""
        self._run(self._tls.do_handshake)
        if self._tls.selected_alpn_protocol() != "h2":
            raise TlsFailed("the server offers no HTTP/2 (ALPN h2) on this port", permanent=False)

    def write(self, data: bytes) -> None:
        self._run(lambda: self._tls.write(data))

    def read(self) -> bytes:
        """Returns the next bytes, none at the end. In TLS 1.3 a refusal of the client's certificate arrives here."""
        return self._run(lambda: self._tls.read(4096)) or b""

    def _run(self, step: Callable[[], bytes | int | None]) -> bytes | None:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise self._failure(error) from error
            else:
                self._flush()
                return result if isinstance(result, bytes) else None

    def _flush(self) -> None:
        if self._out.pending:
            self._send(self._out.read())

    def _fill(self) -> None:
        data = self._receive()
        if not data:
            raise ConnectionResetError
        if not self._has_received and not is_tls(data):
            raise TlsFailed(TLS_NOT_TLS)
        self._has_received = True
        self._in.write(data)

    def _failure(self, error: ssl.SSLError) -> TlsFailed:
        if isinstance(error, ssl.SSLCertVerificationError):
            return _certificate(error)
        alert = _ALERT.search(error.reason or "")
        if alert is None:
            return TlsFailed(f"the TLS handshake failed: {error.reason or error}", permanent=False)
        if self._shows_certificate:
            return TlsFailed(f"{TLS_CLIENT_CERTIFICATE_REFUSED} (TLS alert {alert[1]})")
        if alert[1] in _MISSING:
            return TlsFailed(TLS_CLIENT_CERTIFICATE_MISSING)
        return TlsFailed(f"the server sent the TLS alert {alert[1]}", permanent=False)


def _context(options: Options) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    try:
        authorities = options.read_tls().ca
        if authorities is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=authorities.decode())
        if options.tls.cert_file is not None:
            context.load_cert_chain(options.tls.cert_file, options.tls.key_file)
    except (OSError, ValueError) as error:  # of ssl too
        raise TlsFailed(f"the files of TLS cannot be used: {error}", permanent=False) from error
    return context


def hello() -> bytes:
    """Returns the start of a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    return out.read()


def is_tls(data: bytes) -> bool:
    """Whether a connection that begins so speaks TLS."""
    return bool(data) and data[0] in _RECORD_TYPES and (len(data) == 1 or data[1] == _VERSION_MAJOR)


def _certificate(error: ssl.SSLCertVerificationError) -> TlsFailed:
    if error.verify_code in _UNTRUSTED:
        return TlsFailed(TLS_UNTRUSTED)
    if error.verify_code in _WRONG_NAMES:
        return TlsFailed(TLS_WRONG_NAME)
    if error.verify_code == _EXPIRED:
        return TlsFailed(TLS_EXPIRED)
    if error.verify_code == _NOT_YET_VALID:
        return TlsFailed("the server's certificate is not valid yet, by the clock of this machine")
    return TlsFailed(f"the server's certificate cannot be used: {error.verify_message}")
