"""TLS between client and server. What is said when it fails: test_diagnosis.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import Server
from support.tls import Authority

import fencepost
from fencepost import Client, Tls, aio


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


def test_a_file_that_disappears(authority: Authority, tls_server: Server, tmp_path: Path) -> None:
    copy = tmp_path / "ca.pem"
    copy.write_bytes(authority.ca.read_bytes())
    with Client(f"https://localhost:{tls_server.port}", tls=Tls(copy, *authority.issue("third"))) as client:
        copy.unlink()
        for call in (client.acquire, client.get):
            with pytest.raises(fencepost.Refused, match="cannot read the files of TLS: .*No such file"):
                call("tls")
