"""Certificates made on the spot."""

from __future__ import annotations

import subprocess
from pathlib import Path


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.ca = folder / "ca.pem"
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", self.ca, "-subj", "/CN=ca", "-days", 2)

    def issue(self, name: str, names: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """Returns a certificate, by default for this machine, and its key."""
        cert, key, request = (self.folder / f"{name}.{it}" for it in ("pem", "key", "csr"))
        made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}")
        openssl("req", *made, "-keyout", key, "-out", request, "-addext", f"subjectAltName={names}")
        signed = ("-CA", self.ca, "-CAkey", self.folder / "ca.key", "-copy_extensions", "copy", "-days", 2)
        openssl("x509", "-req", "-in", request, *signed, "-out", cert)
        return cert, key
