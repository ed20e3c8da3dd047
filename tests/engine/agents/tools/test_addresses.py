"""Keeping `web_fetch` on the public internet."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.app.agents.tools import ready_made_tools
from interlock.engine.agents import (
    AbortSignal,
    LocalRuntime,
    ToolContext,
    ToolError,
    WebFetchTool,
    create_web_fetch_tool,
)
from interlock.engine.agents.tools.web import addresses
from interlock.engine.agents.tools.web.addresses import is_public, public_addresses
from tests.support.certificates import certified

from .test_web_fetch_in_agents import Site, fetch

PUBLIC = "127.0.0.2"
"""An address of this machine that these tests treat as public."""


@pytest.fixture
def site() -> Iterator[Site]:
    """A server that no request may reach."""
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server at an address that counts as public."""
    known = {ipaddress.ip_address(PUBLIC), ipaddress.ip_address("127.0.0.3")}
    monkeypatch.setattr(addresses, "is_public", lambda address: address in known)
    public = Site(PUBLIC)
    yield public
    public.server.shutdown()
    public.server.server_close()


class Names:
    """Names and their answers from the name server, in sequence; the last answer repeats."""

    def __init__(self) -> None:
        self._answers: dict[str, list[list[str]]] = {}

    def know(self, host: str, *answers: list[str]) -> None:
        self._answers[host] = list(answers)

    def addresses(self, host: str) -> list[str]:
        """Return the addresses; raise `socket.gaierror` for a name that is unknown and no address."""
        answers = self._answers.get(host)
        if answers is None:
            with contextlib.suppress(ValueError):
                return [str(ipaddress.ip_address(host))]
            raise socket.gaierror(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Replace the system's name resolution."""
    names = Names()

    def getaddrinfo(host: str | bytes, port: int, *_: object, **options: object) -> list[object]:
        known = names.addresses(host if isinstance(host, str) else host.decode())
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in known]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return names


class TestAddress:
    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",
            "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "240.0.0.1",
            "255.255.255.255", "192.0.0.192", "192.0.0.8",
            "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1",
            "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:10.0.0.1", "fec0::1", "64:ff9b:1::a00:1",
            "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::",
        ],
    )  # fmt: skip
    def test_private_addresses(self, address: str) -> None:
        """A-127: loopback, private, link-local, shared, metadata, multicast, reserved; also wrapped."""
        assert not is_public(ipaddress.ip_address(address))

    @pytest.mark.parametrize(
        "address",
        ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
    )
    def test_public_addresses(self, address: str) -> None:
        """A-127: the public internet can be reached."""
        assert is_public(ipaddress.ip_address(address))

    @given(st.integers(0, 2**32 - 1))
    def test_wrapped(self, number: int) -> None:
        """A-127: an IPv4 address that is not public is not public in any IPv6 wrapping."""
        inner = ipaddress.IPv4Address(number)
        if not is_public(inner):
            for wrapped in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
                assert not is_public(ipaddress.IPv6Address(wrapped))


class TestHost:
    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "::1", "0"],
    )
    async def test_spellings(self, host: str) -> None:
        """A-127: a loopback address is recognized in any spelling."""
        with pytest.raises(ToolError, match="is not on the public internet"):
            await public_addresses(host, 80)

    async def test_names(self, names: Names) -> None:
        """A-127: a name counts by its addresses; one private address among public ones is enough."""
        names.know("good.example", ["1.1.1.1", "1.0.0.1", "1.1.1.1"])
        names.know("bad.example", ["1.1.1.1", "10.0.0.1"])
        assert list(map(str, await public_addresses("good.example", 443))) == ["1.1.1.1", "1.0.0.1"]
        with pytest.raises(ToolError, match=r"'bad\.example' is 10\.0\.0\.1, which is not on the public"):
            await public_addresses("bad.example", 443)
        with pytest.raises(ToolError, match=r"Cannot resolve the host 'none\.example'"):
            await public_addresses("none.example", 443)


class TestSilence:
    async def test_unanswered_lookup_blocks_no_other_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Names without an answer do not block other work in threads."""
        release = threading.Event()

        def getaddrinfo(*_: object, **options: object) -> list[object]:
            release.wait(20)
            raise socket.gaierror(-3, "Temporary failure in name resolution")

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        waiting = [asyncio.create_task(public_addresses("silent.example", 80)) for _ in range(40)]
        other = asyncio.create_task(asyncio.to_thread(bool))
        done, _ = await asyncio.wait({other}, timeout=5)
        release.set()
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert done == {other}
        assert all(isinstance(each, ToolError) for each in failures)


class TestTool:
    """The tool with its default check."""

    async def test_first_url(self, site: Site) -> None:
        """A-127: nothing is sent to this machine, and the error has the remedy."""
        url = site.page("/inner", b"secret")
        for tool in (WebFetchTool, create_web_fetch_tool(), ready_made_tools()["web_fetch"]):
            with pytest.raises(ToolError, match=r"not on the public internet.*private = true"):
                await tool.execute({"url": url}, ToolContext(LocalRuntime(), AbortSignal()))
        assert site.requests == []

    async def test_user_and_port(self, names: Names) -> None:
        """A-127: the host that the request goes to is checked, not the user part of the URL."""
        names.know("1.1.1.1", ["1.1.1.1"])
        names.know("inner.example", ["10.0.0.1"])
        with pytest.raises(ToolError, match=r"'inner.example' is 10.0.0.1"):
            await fetch("http://1.1.1.1@inner.example:80/", WebFetchTool)

    async def test_looked_up_name_is_spelled_as_requested(self, names: Names) -> None:
        """The looked-up name has the same spelling as the name in the request."""
        names.know("strasse.example", ["1.1.1.1"])
        names.know("xn--strae-oqa.example", ["10.0.0.1"])
        with pytest.raises(ToolError, match=r"'xn--strae-oqa.example' is 10.0.0.1"):
            await fetch("http://straße.example/", WebFetchTool)

    @pytest.mark.parametrize(
        "url", ["http://[1", "http://a..b/", "http://0177.0.0.1/", "http:///x", "http://[::ffff:7f00:1]/"]
    )
    async def test_no_host(self, url: str) -> None:
        """A-127: a URL without a host that can be looked up is refused."""
        with pytest.raises(ToolError):
            await fetch(url, WebFetchTool)

    async def test_redirect(self, public: Site, site: Site, names: Names) -> None:
        """A-127: a redirect is not followed by default; if followed, none leads to a private address."""
        names.know("public.example", [PUBLIC])
        inner = site.page("/inner", b"secret")
        public.page("/outer", status=302, headers={"location": inner})
        outer = public.url("/outer", "public.example")
        assert (await fetch(outer, WebFetchTool)).startswith(f"Status: 302 Found\nLocation: {inner}\n")
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch(outer, create_web_fetch_tool(follow_redirects=True))
        assert site.requests == []

    async def test_connection_goes_to_the_checked_address(
        self, public: Site, site: Site, names: Names
    ) -> None:
        """A-127: the connection goes to the address that was checked."""
        port = public.server.server_port
        inside = ThreadingHTTPServer(("127.0.0.1", port), site.server.RequestHandlerClass)
        threading.Thread(target=inside.serve_forever, args=(0.01,), daemon=True).start()
        site.page("/", b"secret")
        public.page("/", b"public")
        names.know("turncoat.example", [PUBLIC], ["127.0.0.1"])
        try:
            text = await fetch(f"http://turncoat.example:{port}/", WebFetchTool)
        finally:
            inside.shutdown()
            inside.server_close()
        assert text.endswith("\n\npublic")
        assert site.requests == []
        assert public.requests[-1][2]["host"] == f"turncoat.example:{port}"

    async def test_next_address(self, public: Site, names: Names) -> None:
        """If an address refuses connections, the others are tried."""
        names.know("two.example", ["127.0.0.3", PUBLIC])
        public.page("/", b"public")
        assert (await fetch(public.url("/", "two.example"), WebFetchTool)).endswith("\n\npublic")

    @pytest.mark.parametrize("name", ["named.example", "other.example"])
    async def test_certificate(
        self, public: Site, names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """The certificate is requested by the host's name and must match it."""
        certificate, key = certified(tmp_path, "named.example")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        monkeypatch.setattr(
            public.server, "socket", context.wrap_socket(public.server.socket, server_side=True)
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        names.know(name, [PUBLIC])
        public.page("/", b"public")
        url = f"https://{name}:{public.server.server_port}/"
        if name == "named.example":
            assert (await fetch(url, WebFetchTool)).endswith("\n\npublic")
        else:
            with pytest.raises(ToolError, match="certificate verify failed"):
                await fetch(url, WebFetchTool)

    async def test_proxy(self, site: Site, names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
        """The environment's proxy is used, but only for names with public addresses."""
        monkeypatch.setenv("http_proxy", site.url(""))
        monkeypatch.delenv("no_proxy", raising=False)
        names.know("public.example", ["1.1.1.1"])
        names.know("inner.example", ["10.0.0.1"])
        site.page("http://public.example/x", b"by proxy")
        assert (await fetch("http://public.example/x", WebFetchTool)).endswith("\n\nby proxy")
        with pytest.raises(ToolError, match="not on the public internet"):
            await fetch("http://inner.example/x", WebFetchTool)
