"""The `web_fetch` tool, clause by clause, with a real HTTP server."""

from __future__ import annotations

import asyncio
import gzip
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from interlock.app.agents.tools import ready_made_tools
from interlock.engine.agents import (
    AbortSignal,
    C,
    LocalRuntime,
    T,
    ToolContext,
    ToolError,
    ToolInputError,
    ToolOutput,
    ToolResultEvent,
    WebFetchTool,
    create_web_fetch_tool,
)
from interlock.engine.agents.tools.web import fetch as web_fetch

from ..script import until, watched
from .test_web_fetch_in_agents import HERE, NOTICE, Site, fetch


@pytest.fixture(scope="module", name="site")
def http_site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


class TestRequest:
    async def test_method(self, site: Site) -> None:
        """A-124: the method is GET by default; a given one is sent in capitals."""
        url = site.page("/method", b"ok")
        await fetch(url)
        assert (site.requests[-1][0], site.requests[-1][3]) == ("GET", b"")
        await fetch(url, method="post", body="x")
        assert (site.requests[-1][0], site.requests[-1][3]) == ("POST", b"x")

    @pytest.mark.parametrize(
        "args",
        [{}, {"url": 5}, {"url": "http://x", "headers": {"a": 1}}, {"url": "http://x", "follow": True}],
    )
    async def test_arguments(self, args: dict[str, object]) -> None:
        """A-124: the url is required, headers map strings to strings, and nothing else is accepted."""
        with pytest.raises(ToolInputError, match="Invalid arguments for web_fetch"):
            await WebFetchTool.execute(args, ToolContext(LocalRuntime(), AbortSignal()))

    @pytest.mark.parametrize("headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "\ud800"}, {"X A": "a"}])
    async def test_unsendable_header_is_an_error(self, site: Site, headers: dict[str, str]) -> None:
        """A-126: a header that HTTP cannot send is an error, and nothing is sent."""
        url = site.page("/headers", b"ok")
        before = len(site.requests)
        with pytest.raises(ToolError, match=r"Request failed|HTTP cannot send"):
            await fetch(url, headers=headers)
        assert len(site.requests) == before

    @pytest.mark.parametrize("name", ["Host", "host", "Transfer-Encoding"])
    async def test_host_and_length_headers_are_fixed(self, site: Site, name: str) -> None:
        """A header cannot name another host than the URL, which rules check, or another body length."""
        url = site.page("/other", b"ok")
        before = len(site.requests)
        with pytest.raises(ToolError, match=f"The header '{name}' follows from the URL and the body"):
            await fetch(url, headers={name: "chunked"}, method="POST", body="x")
        assert len(site.requests) == before

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_redirects(self, site: Site, status: int) -> None:
        """A-124, A-127: every redirect is followed; the metadata has the final URL."""
        end = site.page("/end", b"there")
        start = site.page(f"/start{status}", status=status, headers={"location": "/end"})
        made = await HERE.execute({"url": start}, ToolContext(LocalRuntime(), AbortSignal()))
        assert made.text.endswith("\n\nthere")
        assert made.metadata == {"status": 200, "url": end}

    @pytest.mark.parametrize("status", [400, 404, 500, 503])
    async def test_error_status_is_no_error_result(self, site: Site, status: int) -> None:
        """A-124: no status is an error result."""
        url = site.page(f"/status{status}", b"sorry", status)
        w = await watched(C(c1=("web_fetch", {"url": url})), T("ok"), tools=[HERE])
        await w.say("go")
        [result] = [event for event in w.events if isinstance(event, ToolResultEvent)]
        assert not result.is_error
        assert result.result.startswith(f"Status: {status} ")
        assert result.result.endswith("\n\nsorry")


class TestBody:
    async def test_sixty_kibibytes(self, site: Site) -> None:
        """A-125: of 60 KiB exactly 51,200 bytes are shown, then the notice."""
        text = await fetch(site.page("/sixty", b"a" * 61_440))
        assert text == "Status: 200 OK\nContent-Type: text/plain\n\n" + "a" * 51_200 + NOTICE

    async def test_limit_applies_to_the_decompressed_body(self, site: Site) -> None:
        """A-125: the limit applies to the decompressed body."""
        url = site.page("/gzip", gzip.compress(b"a" * 60_000), headers={"content-encoding": "gzip"})
        assert (await fetch(url)).split("\n\n", 1)[1] == "a" * 51_200 + NOTICE

    @pytest.mark.parametrize("size", [51_200, 51_201])
    async def test_further_byte_in_a_later_piece_counts(self, site: Site, size: int) -> None:
        """A-125: a further byte counts even if it arrives in a separate piece."""

        def serve(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            for start, end in ((0, 51_200), (51_200, size)):
                handler.wfile.write(b"a" * (end - start))
                handler.wfile.flush()

        site.pages[f"/pieces{size}"] = serve
        text = await fetch(site.url(f"/pieces{size}"))
        assert text.endswith(NOTICE) == (size > 51_200)

    async def test_content_type_is_cut(self, site: Site) -> None:
        """The content type is cut as well."""
        text = await fetch(site.page("/type", b"ok", headers={"content-type": "a" * 60_000}))
        assert text == f"Status: 200 OK\nContent-Type: {'a' * 200}\n\nok"

    @pytest.mark.parametrize("status", [204, 304, 200])
    async def test_missing_body_gives_empty_text(self, site: Site, status: int) -> None:
        """A-127: a missing body gives an empty text."""
        url = site.page(f"/none{status}", status=status, headers={"content-length": "0"})
        assert (await fetch(url)).endswith("\nContent-Type: unknown\n\n")


def bomb(window: int) -> bytes:
    """Return a few kilobytes that decompress to 32 MiB."""
    packer = zlib.compressobj(9, wbits=window)
    return packer.compress(bytes(2**25)) + packer.flush()


GZIP, DEFLATE, RAW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


class TestEncoding:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("encoding", "window"), [("gzip", GZIP), ("x-gzip", GZIP), ("deflate", DEFLATE), ("deflate", RAW)]
    )
    async def test_decompression_bomb_is_decoded_only_as_shown(
        self, site: Site, encoding: str, window: int
    ) -> None:
        """A-125: a small body that decompresses to a large one is only decoded as far as shown."""
        body = bomb(window)
        assert len(body) < 35_000
        url = site.page(f"/bomb{window}", body, headers={"content-encoding": encoding})
        await fetch(site.page("/before", b"ok"))
        tracemalloc.start()
        try:
            text = await fetch(url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert text.endswith("\0" * 51_200 + NOTICE)
        assert peak < 2**22

    async def test_body_in_pieces_is_decoded_to_its_end(self, site: Site) -> None:
        """A body in many pieces is decoded to its end."""
        body = gzip.compress(b"".join(b"%d " % number for number in range(9_000)))

        def serve(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-encoding", "gzip")
            handler.end_headers()
            for start in range(0, len(body), 1_000):
                handler.wfile.write(body[start : start + 1_000])
                handler.wfile.flush()

        site.pages["/gzip-pieces"] = serve
        assert (await fetch(site.url("/gzip-pieces"))).endswith(" 8998 8999 ")

    @pytest.mark.parametrize(("encoding", "window"), [("gzip", GZIP), ("deflate", RAW)])
    async def test_data_after_the_encoded_body_is_ignored(
        self, site: Site, encoding: str, window: int
    ) -> None:
        """Data after the end of an encoded body is neither awaited nor kept."""
        packer = zlib.compressobj(wbits=window)
        body = packer.compress(b"all of it") + packer.flush()
        release = threading.Event()

        def serve(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.send_header("content-encoding", encoding)
            handler.end_headers()
            handler.wfile.write(body)
            handler.wfile.flush()
            release.wait(10)

        site.pages[f"/end{window}"] = serve
        tool = create_web_fetch_tool(timeout=5, private=True)
        try:
            assert (await fetch(site.url(f"/end{window}"), tool)).endswith("\n\nall of it")
        finally:
            release.set()

    async def test_unencoded_body_is_requested(self, site: Site) -> None:
        """The request asks for an unencoded body."""
        await fetch(site.page("/plain", b"ok"))
        assert site.requests[-1][2]["accept-encoding"] == "identity"

    @pytest.mark.slow
    @pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "nonsense"])
    async def test_undecodable_encoding_is_refused(self, site: Site, encoding: str) -> None:
        """Nested encodings, and those that cannot be decoded in pieces, are refused by name."""
        url = site.page("/nested", bomb(GZIP), headers={"content-encoding": encoding})
        with pytest.raises(ToolError, match=f"The body is encoded as '{encoding}', which cannot be read"):
            await fetch(url)

    @pytest.mark.parametrize("encoding", ["gzip", "deflate"])
    async def test_body_that_contradicts_its_headers(self, site: Site, encoding: str) -> None:
        """A body that does not match its headers is an error."""
        url = site.page("/broken", b"no such thing", headers={"content-encoding": encoding})
        with pytest.raises(ToolError, match="The body is not encoded as its headers say"):
            await fetch(url)


class TestFailure:
    async def test_fifteen_seconds(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A-126: the ready-made tool has a total timeout of 15 seconds."""
        given: list[float | None] = []
        real = asyncio.timeout

        def spy(seconds: float | None) -> asyncio.Timeout:
            given.append(seconds)
            return real(seconds)

        monkeypatch.setattr(web_fetch.asyncio, "timeout", spy)
        await fetch(site.page("/fast", b"ok"))
        assert given[0] == 15.0

    async def test_timeout_of_all_hops(self, site: Site) -> None:
        """A-126: a chain of redirects has no more time than one request; the result is an error."""
        release = threading.Event()

        def stuck(handler: BaseHTTPRequestHandler) -> None:
            release.wait(10)

        site.pages["/stuck"] = stuck
        url = site.page("/to-stuck", status=302, headers={"location": "/stuck"})
        w = await watched(
            C(c1=("web_fetch", {"url": url})),
            T("ok"),
            tools=[create_web_fetch_tool(timeout=0.3, private=True, follow_redirects=True)],
        )
        assert f'result c1 err "Request timed out after 0.3s: {url}"' in await w.say("go")
        release.set()

    async def test_abort_ends_the_request(self, site: Site) -> None:
        """A-126: the run's abort ends the request; the result is an error."""
        asked, release = threading.Event(), threading.Event()

        def stuck(handler: BaseHTTPRequestHandler) -> None:
            asked.set()
            release.wait(10)

        site.pages["/abort"] = stuck
        w = await watched(C(c1=("web_fetch", {"url": site.url("/abort")})), T("ok"), tools=[HERE])
        w.session.send("go")
        await until(asked.is_set)
        w.session.abort()
        await w.session.wait_for_idle()
        release.set()
        [result] = [event for event in w.events if isinstance(event, ToolResultEvent)]
        assert (result.is_error, result.result) == (True, "The operation was aborted")

    @pytest.mark.parametrize("url", ["http://[1", "nonsense", "ftp://127.0.0.1/", "http://127.0.0.1:1/"])
    async def test_invalid_url_is_an_error_result(self, url: str) -> None:
        """A-126, A-127: an invalid URL, another scheme and a refused connection are error results."""
        w = await watched(C(c1=("web_fetch", {"url": url})), T("ok"), tools=[HERE])
        await w.say("go")
        [result] = [event for event in w.events if isinstance(event, ToolResultEvent)]
        assert result.is_error
        assert result.result


class TestEveryHop:
    async def test_checked_before_anything_is_sent(self, site: Site) -> None:
        """A-127: the check gets the first URL, each redirect's and the last, each before its request."""
        end = site.page("/hop3", b"end")
        middle = site.page("/hop2", status=307, headers={"location": "/hop3"})
        start = site.page("/hop1", status=302, headers={"location": middle})
        before = len(site.requests)
        seen: list[tuple[str, int]] = []
        await fetch(
            start,
            create_web_fetch_tool(
                check_url=lambda url: seen.append((url, len(site.requests) - before)),
                private=True,
                follow_redirects=True,
            ),
        )
        assert seen == [(start, 0), (middle, 1), (end, 2)]

    @pytest.mark.parametrize(
        "target", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "data:,x"]
    )
    async def test_redirect_to_another_scheme_is_refused(self, site: Site, target: str) -> None:
        """A-127: a redirect to a scheme other than http and https is refused."""
        url = site.page("/away", status=302, headers={"location": target})
        with pytest.raises(ToolError, match=r"Only http and https URLs|Invalid URL"):
            await fetch(url)

    async def test_redirect_target_is_shown_to_the_gate(self, site: Site) -> None:
        """A-127: the console's tool shows a redirect's target, so that the gate sees that URL too."""
        inner = site.page("/unseen", b"secret")
        outer = site.page("/outer-unseen", b"", status=302, headers={"Location": inner})
        fetching = ready_made_tools(private=True)["web_fetch"]
        said = await fetching.execute({"url": outer}, ToolContext(LocalRuntime(), AbortSignal()))
        assert isinstance(said, ToolOutput)
        assert said.text.startswith(f"Status: 302 Found\nLocation: {inner}\n\n")
        assert "secret" not in said.text
        assert [request[1] for request in site.requests].count("/unseen") == 0
