"""The `web_fetch` tool with a real HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from interlock.engine.agents import (
    AbortSignal,
    LocalRuntime,
    Tool,
    ToolContext,
    ToolError,
    WebFetchTool,
    create_web_fetch_tool,
)

# The servers of these tests are on this machine.
HERE = create_web_fetch_tool(private=True, follow_redirects=True)
NOTICE = "\n\n[Output truncated at 50.0KB.]"


class Site:
    """A server whose pages are functions of the request; it records the requests."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.pages: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {key.lower(): value for key, value in self.headers.items()}
                site.requests.append((self.command, self.path, headers, self.rfile.read(length)))
                site.pages[self.path](self)

        for method in ("GET", "POST", "PUT"):
            setattr(Handler, f"do_{method}", Handler.handle_any)
        self.server = ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, path: str, host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.server.server_port}{path}"

    def page(
        self, path: str, body: bytes = b"", status: int = 200, headers: dict[str, str] | None = None
    ) -> str:
        """Serve `body` at `path` and return the URL."""

        def serve(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for key, value in ({"content-type": "text/plain"} if headers is None else headers).items():
                handler.send_header(key, value)
            handler.end_headers()
            handler.wfile.write(body)

        self.pages[path] = serve
        return self.url(path)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


async def fetch(url: str, tool: Tool = HERE, **args: object) -> str:
    """Return the tool's text."""
    ctx = ToolContext(LocalRuntime(), AbortSignal())
    return (await tool.execute({"url": url, **args}, ctx)).text


class TestInterface:
    def test_schema(self) -> None:
        """A-124: the schema has url, method, headers and body; only the url is required."""
        assert WebFetchTool.name == "web_fetch"
        parameters = WebFetchTool.parameters
        assert list(parameters["properties"]) == ["url", "method", "headers", "body"]
        assert parameters["required"] == ["url"]


class TestResponse:
    async def test_text(self, site: Site) -> None:
        """A-124: the text has status, content type and body."""
        url = site.page("/hello", b"hello world")
        assert await fetch(url) == "Status: 200 OK\nContent-Type: text/plain\n\nhello world"

    async def test_no_content_type(self, site: Site) -> None:
        """A-124: a missing content type is shown as unknown."""
        assert "\nContent-Type: unknown\n" in await fetch(site.page("/bare", b"x", headers={}))

    async def test_not_found(self, site: Site) -> None:
        """A-124: an error status is a normal result."""
        assert (await fetch(site.page("/gone", b"no", 404))).startswith("Status: 404 Not Found\n")

    async def test_no_body(self, site: Site) -> None:
        """A-127: a missing content gives an empty text."""
        text = await fetch(site.page("/empty", status=204, headers={}))
        assert text == "Status: 204 No Content\nContent-Type: unknown\n\n"

    async def test_request(self, site: Site) -> None:
        """A-124: method, headers and body are sent as given."""
        url = site.page("/echo", b"ok")
        await fetch(url, method="put", headers={"X-Mine": "1"}, body="grün")
        method, _, headers, body = site.requests[-1]
        assert (method, headers["x-mine"], body) == ("PUT", "1", "grün".encode())


class TestCutting:
    @pytest.mark.parametrize(
        ("size", "cut"), [(51_199, False), (51_200, False), (51_201, True), (61_440, True)]
    )
    async def test_limit(self, site: Site, size: int, cut: bool) -> None:
        """A-125: the body is cut at 51,200 bytes, with a notice only if something is missing."""
        text = await fetch(site.page(f"/big{size}", b"a" * size))
        body = text.split("\n\n", 1)[1]
        assert body == "a" * min(size, 51_200) + (NOTICE if cut else "")

    @pytest.mark.parametrize("before", [51_199, 51_198, 51_197, 51_196])
    @pytest.mark.parametrize("character", ["é", "€", "😀"])
    async def test_whole_characters(self, site: Site, before: int, character: str) -> None:
        """A-125: the cut never splits a character."""
        url = site.page(f"/cut{before}", b"a" * before + character.encode() * 5)
        body = (await fetch(url)).split("\n\n", 1)[1]
        fits = (51_200 - before) // len(character.encode())
        assert body == "a" * before + character * fits + NOTICE

    async def test_own_limit(self, site: Site) -> None:
        """The limit can be configured."""
        tool = create_web_fetch_tool(max_bytes=1024, private=True)
        text = await fetch(site.page("/kb", b"a" * 2000), tool)
        assert text.endswith("a\n\n[Output truncated at 1.0KB.]")


class TestRedirects:
    async def test_followed(self, site: Site) -> None:
        """A-124: redirects are followed, including relative ones."""
        site.page("/to", b"there")
        url = site.page("/from", status=302, headers={"location": "to"})
        assert (await fetch(url)).endswith("\n\nthere")

    async def test_circular_redirect_is_an_error(self, site: Site) -> None:
        """A circular redirect is an error."""
        url = site.page("/round", status=302, headers={"location": "/round"})
        with pytest.raises(ToolError, match="More than 20 redirects"):
            await fetch(url)

    async def test_every_hop_is_checked(self, site: Site) -> None:
        """A-127: the check gets every URL before it is requested."""
        seen: list[str] = []

        async def check(url: str) -> None:
            seen.append(url)
            if url.endswith("/secret"):
                raise ToolError("not there")

        site.page("/secret", b"secret")
        url = site.page("/lure", status=302, headers={"location": "/secret"})
        before = len(site.requests)
        with pytest.raises(ToolError, match="not there"):
            await fetch(url, create_web_fetch_tool(check_url=check, private=True, follow_redirects=True))
        assert seen == [url, site.url("/secret")]
        assert [r[1] for r in site.requests[before:]] == ["/lure"]

    @pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
    async def test_redirect_to_another_scheme_is_refused(self, site: Site, target: str) -> None:
        """A-127: a redirect cannot leave http and https."""
        url = site.page("/away", status=302, headers={"location": target})
        with pytest.raises(ToolError, match="Only http and https URLs can be fetched"):
            await fetch(url)

    @pytest.mark.slow
    async def test_credentials_stay_within_the_origin(self, site: Site) -> None:
        """Credentials are forwarded within an origin, but not to another."""
        site.page("/end", b"end")
        inside = site.page("/in", status=307, headers={"location": "/end"})
        outside = site.page("/out", status=307, headers={"location": site.url("/end", "localhost")})
        sent = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Mine": "1"}
        await fetch(inside, headers=sent)
        assert site.requests[-1][2]["authorization"] == "Bearer x"
        await fetch(outside, headers=sent)
        headers = site.requests[-1][2]
        assert "authorization" not in headers
        assert "cookie" not in headers
        assert (headers["x-mine"], headers["host"].split(":")[0]) == ("1", "localhost")

    @pytest.mark.parametrize(
        ("status", "method", "body"),
        [(302, "GET", b""), (303, "GET", b""), (307, "POST", b"data"), (308, "POST", b"data")],
    )
    async def test_post_is_repeated_only_if_required(
        self, site: Site, status: int, method: str, body: bytes
    ) -> None:
        """A POST is repeated only if the status requires it."""
        site.page("/posted", b"ok")
        url = site.page(f"/post{status}", status=status, headers={"location": "/posted"})
        await fetch(url, method="POST", body="data", headers={"Content-Type": "text/x"})
        assert (site.requests[-1][0], site.requests[-1][3]) == (method, body)
        assert ("content-type" in site.requests[-1][2]) == (method == "POST")


class TestFailure:
    @pytest.mark.parametrize(
        "url", ["ftp://example.org/x", "file:///etc/passwd", "example.org", "http://", "", "http://[1"]
    )
    async def test_other_urls(self, url: str) -> None:
        """A-126, A-127: only http and https URLs can be fetched."""
        with pytest.raises(ToolError):
            await fetch(url)

    async def test_refused_connection_is_an_error(self) -> None:
        """A-126: a refused connection is an error."""
        site = Site()
        url = site.url("/")
        site.server.shutdown()
        site.server.server_close()
        with pytest.raises(ToolError, match="Request failed"):
            await fetch(url)

    async def test_time_limit_covers_slow_bodies(self, site: Site) -> None:
        """A-126: the time limit covers everything, including a slow body."""
        release = threading.Event()

        def trickle(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(b"a")
            handler.wfile.flush()
            release.wait(10)

        site.pages["/slow"] = trickle
        tool = create_web_fetch_tool(timeout=0.2, private=True)
        with pytest.raises(ToolError, match=r"Request timed out after 0\.2s"):
            await fetch(site.url("/slow"), tool)
        release.set()
