"""Addresses of servers, and the other options of a client."""

from __future__ import annotations

from pathlib import Path

import pytest

import fencepost
from fencepost._core import address, options
from fencepost._core.address import Address


@pytest.mark.parametrize(
    ("text", "shown", "target"),
    [
        ("127.0.0.1:7421", "127.0.0.1:7421", "dns:///127.0.0.1:7421"),
        ("localhost", "localhost:7420", "dns:///localhost:7420"),
        ("HTTP://my_host-1:1/", "my_host-1:1", "dns:///my_host-1:1"),
        ("https://locks.internal", "https://locks.internal:7420", "dns:///locks.internal:7420"),
        ("[::1]:7421", "[::1]:7421", "ipv6:[::1]:7421"),
        ("http://[fd00::2]", "[fd00::2]:7420", "ipv6:[fd00::2]:7420"),
        ("unix:/run/a.sock", "unix:/run/a.sock", "unix:/run/a.sock"),
        (" UNIX:///run/a.sock ", "unix:/run/a.sock", "unix:/run/a.sock"),
    ],
)
def test_all_forms(text: str, shown: str, target: str) -> None:
    parsed = address.parse(text)
    assert str(parsed) == shown
    assert parsed.target == target
    assert address.parse(shown) == parsed


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "it is empty"),
        ("http://", "it is empty"),
        ("https://a:1/locks", "has a path"),
        ("a:1/", "has a path"),
        ("a:0", "from 1 to 65535"),
        ("a:65536", "from 1 to 65535"),
        ("a:+1", "from 1 to 65535"),
        ("a:１", "from 1 to 65535"),
        ("a:", "from 1 to 65535"),
        ("unix:", "absolute path"),
        ("unix:a.sock", "absolute path"),
        ("unix:/run/", "absolute path"),
        ("dns:///localhost:7420", "the scheme"),
        ("redis://localhost", "the scheme"),
        (":7420", "the host is missing"),
        ("7420", "the host is missing"),
        ("::1", "brackets"),
        ("[::1", "brackets"),
        ("[::1]7420", "brackets"),
        ("[localhost]:1", "brackets"),
        ("a:b:1", "brackets"),
        ("1.2.3:7420", "the host must be"),
        ("256.0.0.1", "the host must be"),
        ("höst:1", "the host must be"),
    ],
)
def test_an_error_names_the_rule(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        address.parse(text)
    assert repr(text) in str(caught.value)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ValueError, match="not supported") as caught:
        address.parse("http://user:secret@localhost")
    assert "secret" not in str(caught.value)


def test_lists() -> None:
    assert [str(it) for it in address.parse_list("a, b:1,unix:/c")] == ["a:7420", "b:1", "unix:/c"]
    assert address.parse_list(["a"]) == (Address("a"),)
    with pytest.raises(ValueError, match="no server given"):
        address.parse_list([])


def check(**given: object) -> options.Options:
    values: dict[str, object] = {"servers": None, "holder": None, "tls": None, "token": None, "credentials": None}
    values["retry_for"] = 10.0
    return options.check(**(values | {"environment": {}} | given))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_servers_come_from_the_environment() -> None:
    assert check().servers == (Address("127.0.0.1"),)
    assert check(environment={"FENCEPOST_SERVER": "a,b"}).servers == (Address("a"), Address("b"))
    assert check(servers="c", environment={"FENCEPOST_SERVER": "a"}).servers == (Address("c"),)


@pytest.mark.parametrize("servers", ["", [], [""]])
def test_an_empty_list_is_not_the_default(servers: str | list[str]) -> None:
    # As of Client(os.environ.get("LOCKS", "")).
    with pytest.raises(ValueError, match="write host:port"):
        check(servers=servers)


def test_the_default_holder_says_who_it_is() -> None:
    user, _, rest = check().holder.partition("@")
    assert user
    assert rest.rpartition(":")[2].isdigit()
    with pytest.raises(ValueError, match="the maximum is 256"):
        check(holder="ü" * 129)
    with pytest.raises(ValueError, match="holder has a character that UTF-8 cannot encode, at 1"):
        check(holder="a\udc00")


def test_nothing_secret_goes_out_in_plain_text(tmp_path: Path) -> None:
    for local in ("127.0.0.1", "localhost", "[::1]", "unix:/run/a", "127.8.9.10:1"):
        assert check(servers=local, token="secret").token == "secret"
    with pytest.raises(ValueError, match="write https://10.0.0.1:7420"):
        check(servers=["localhost", "10.0.0.1"], token="secret")
    ca = tmp_path / "ca.pem"
    ca.write_text("not read")
    with pytest.raises(ValueError, match="an address without TLS"):
        check(servers="localhost", tls=fencepost.Tls(ca))
    with pytest.raises(ValueError, match="belong together"):
        check(servers="https://localhost", tls=fencepost.Tls(ca, cert_file=ca))
    with pytest.raises(FileNotFoundError):
        check(servers="https://localhost", environment={"FENCEPOST_CA": str(tmp_path / "missing")})
    assert check(servers="https://localhost", tls=fencepost.Tls(ca)).read_tls().ca == b"not read"
