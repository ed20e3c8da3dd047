"""Keeping `web_fetch` on the public internet."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.agents import ToolError, create_web_fetch_tool, private_addresses_refused
from interlock.engine.agents.tools.addresses import is_public

from ..test_web_fetch import Site, fetch


@pytest.fixture(scope="module", name="site")
def served() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names and their addresses, in place of a server of names."""
    known: dict[str, list[str]] = {}

    async def getaddrinfo(self: object, host: str, port: int, **options: object) -> list[object]:
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in known[host]]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return known


class TestAddress:
    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",
            "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "240.0.0.1",
            "255.255.255.255",
            "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
            "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::",
        ],
    )  # fmt: skip
    def test_private(self, address: str) -> None:
        """A-127: loopback, private, link-local, shared, metadata, multicast, reserved; wrapped, too."""
        assert not is_public(ipaddress.ip_address(address))

    @pytest.mark.parametrize(
        "address",
        ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
    )
    def test_public(self, address: str) -> None:
        """A-127: the public internet can be reached."""
        assert is_public(ipaddress.ip_address(address))

    @given(st.integers(0, 2**32 - 1))
    def test_wrapped(self, number: int) -> None:
        """A-127: an IPv4 address that is not public is not public in any IPv6 wrapping."""
        inner = ipaddress.IPv4Address(number)
        if not is_public(inner):
            for wrapped in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
                assert not is_public(ipaddress.IPv6Address(wrapped))


class TestUrl:
    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "[::1]", "0"],
    )
    async def test_spellings(self, host: str) -> None:
        """A-127: a loopback address is one however it is written."""
        with pytest.raises(ToolError, match="is not on the public internet"):
            await private_addresses_refused(f"http://{host}:8080/x")

    async def test_names(self, names: dict[str, list[str]]) -> None:
        """A-127: a name is what it resolves to; one bad address among good ones is enough."""
        names.update({"good.example": ["1.1.1.1"], "bad.example": ["1.1.1.1", "10.0.0.1"]})
        await private_addresses_refused("https://good.example/")
        with pytest.raises(ToolError, match=r"'bad\.example' is 10\.0\.0\.1, which is not on the public"):
            await private_addresses_refused("https://bad.example/")
        with pytest.raises(ToolError, match=r"Cannot resolve the host 'none\.example'"):
            await private_addresses_refused("https://none.example/")

    async def test_user_and_port(self, names: dict[str, list[str]]) -> None:
        """A-127: the host is the one that the request goes to, not one that the URL pretends."""
        names.update({"1.1.1.1": ["1.1.1.1"], "inner.example": ["10.0.0.1"]})
        with pytest.raises(ToolError, match=r"'inner.example' is 10.0.0.1"):
            await private_addresses_refused("http://1.1.1.1@inner.example:80/")

    @pytest.mark.parametrize("url", ["http://[1", "http://a..b/", "http://0177.0.0.1/", "http:///x"])
    async def test_no_host(self, url: str) -> None:
        """A-127: what has no host that can be looked up is refused."""
        with pytest.raises(ToolError):
            await private_addresses_refused(url)


class TestTool:
    async def test_first_url(self, site: Site) -> None:
        """A-127: with it the tool sends nothing to this machine."""
        url = site.page("/inner", b"secret")
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(url, create_web_fetch_tool(check_url=private_addresses_refused))
        assert site.requests == []

    async def test_redirect(self, site: Site) -> None:
        """A-127: nor does a redirect lead there."""
        inner = site.page("/inner", b"secret")
        outer = site.page("/outer", status=302, headers={"location": inner})

        async def outer_is_public(url: str) -> None:
            if url != outer:
                await private_addresses_refused(url)

        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(outer, create_web_fetch_tool(check_url=outer_is_public))
        assert [request[1] for request in site.requests] == ["/outer"]
