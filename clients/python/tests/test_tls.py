"""TLS, with certificates made on the spot."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import Server

import fencepost
from fencepost import Client, Tls, aio


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

    def issue(self, name: str) -> tuple[Path, Path]:
        """Returns a certificate for this machine, and its key."""
        cert, key, request = (self.folder / f"{name}.{it}" for it in ("pem", "key", "csr"))
        made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}")
        openssl("req", *made, "-keyout", key, "-out", request, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
        signed = ("-CA", self.ca, "-CAkey", self.folder / "ca.key", "-copy_extensions", "copy", "-days", 2)
        openssl("x509", "-req", "-in", request, *signed, "-out", cert)
        return cert, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def tls_server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    cert, key = authority.issue("server")
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--tls-client-ca", str(authority.ca))
    with Server(tmp_path_factory.mktemp("tls-server"), *options) as server:
        yield server


async def test_both_sides_show_certificates(authority: Authority, tls_server: Server) -> None:
    tls = Tls(authority.ca, *authority.issue("client"))
    address = f"https://localhost:{tls_server.port}"
    with Client(address, tls=tls, token="secret") as client:
        with client.lock("tls") as lock:
            assert client.get("tls").newest_token == lock.token
    async with aio.Client(address, tls=tls, token="secret") as async_client:
        async with async_client.lock("tls") as again:
            assert (await async_client.get("tls")).newest_token == again.token


def test_the_environment_names_the_files(
    authority: Authority, tls_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = authority.issue("environment")
    for variable, value in (("CA", authority.ca), ("CERT", cert), ("KEY", key)):
        monkeypatch.setenv(f"FENCEPOST_{variable}", str(value))
    monkeypatch.setenv("FENCEPOST_SERVER", f"https://127.0.0.1:{tls_server.port}")
    with Client() as client, client.lock("tls-environment"):
        pass


def test_strangers_are_refused(authority: Authority, tls_server: Server, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger")
    address = f"https://localhost:{tls_server.port}"
    with Client(address, tls=Tls(stranger.ca, *authority.issue("other")), retry_for=0.3) as client:
        with pytest.raises(fencepost.Unavailable, match=r"(?i)certificate|handshake"):
            client.acquire("tls")
    with Client(f"localhost:{tls_server.port}", retry_for=0.3) as client:
        with pytest.raises(fencepost.Unavailable):
            client.acquire("tls")


def test_a_missing_client_certificate(authority: Authority, tls_server: Server) -> None:
    with Client(f"https://127.0.0.1:{tls_server.port}", tls=Tls(authority.ca), retry_for=2) as client:
        with pytest.raises(fencepost.Unavailable, match="may require a client certificate"):
            client.acquire("tls")


def test_a_file_that_disappears(authority: Authority, tls_server: Server, tmp_path: Path) -> None:
    copy = tmp_path / "ca.pem"
    copy.write_bytes(authority.ca.read_bytes())
    with Client(f"https://localhost:{tls_server.port}", tls=Tls(copy, *authority.issue("third"))) as client:
        copy.unlink()
        for call in (client.acquire, client.get):
            with pytest.raises(fencepost.Refused, match="cannot read the files of TLS: .*No such file"):
                call("tls")
