"""URLs of a server, for its own machine and for the list of servers."""

from __future__ import annotations

import socket

import pytest

from interlock.app.hosting.server_urls import local_url, public_url
from interlock.engine.gateway.protocol.address import Address


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Hub-2")


class TestServerOfOneAddress:
    @pytest.mark.parametrize(
        "text", ["127.0.0.1:8737", "[::1]:8737", "hub.example:8737", "unix:gate.sock"]
    )
    def test_is_named_by_it(self, text: str) -> None:
        """Both URLs have the address that the server was given."""
        address = Address.parse(text)
        assert local_url(address, None) == public_url(address, None) == address.url

    def test_has_tls_with_a_certificate(self) -> None:
        """The scheme is wss."""
        assert public_url(Address("10.0.0.2"), ("a.example",)) == "wss://10.0.0.2:8737"


class TestServerOfAllAddresses:
    @pytest.mark.parametrize(("host", "here"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])
    def test_is_named_by_its_machine(self, host: str, here: str) -> None:
        """Nobody can connect to 0.0.0.0, and several servers would have the same name."""
        assert local_url(Address(host), None) == f"ws://{here}:8737"
        assert public_url(Address(host), None) == "ws://hub-2:8737"

    @pytest.mark.parametrize(
        ("names", "local", "public"),
        [
            (("all.example", "hub-2.example"), "all.example", "hub-2.example"),
            (("all.example",), "all.example", "hub-2"),
            ((), "hub-2", "hub-2"),
        ],
    )
    def test_is_named_by_its_certificate(self, names: tuple[str, ...], local: str, public: str) -> None:
        """A console needs a name that the certificate covers; the list needs the one of this machine."""
        address = Address("0.0.0.0", 8737)
        assert local_url(address, names) == f"wss://{local}:8737"
        assert public_url(address, names) == f"wss://{public}:8737"
