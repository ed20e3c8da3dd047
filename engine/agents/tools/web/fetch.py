"""The `web_fetch` tool: one HTTP request (A-124 … A-127)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import Field

from ...errors import ToolError, describe
from ...tool import ModelTool, ToolContext, ToolInput, ToolOutput, define_tool
from ..text_limits import kilobytes, whole_characters
from .response_body import body_start

if TYPE_CHECKING:
    import httpx

TIMEOUT_SECONDS = 15.0
MAX_BYTES = 51_200
MAX_REDIRECTS = 20
MAX_HEADER_CHARACTERS = 200
"""Maximum characters of each response header that is shown."""
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
UNENCODED = {"accept-encoding": "identity"}
FORBIDDEN_HEADERS = frozenset({"host", "transfer-encoding"})
"""Headers that could contradict the URL's host or the end of the request."""
BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding", "content-language"})

CheckUrl: TypeAlias = Callable[[str], "Awaitable[None] | None"]


class WebFetchInput(ToolInput):
    """HTTP request."""

    url: Annotated[str, Field(description="The http or https URL to fetch.")]
    method: Annotated[str, Field(description="HTTP method.")] = "GET"
    headers: Annotated[dict[str, str] | None, Field(description="Request headers.")] = None
    body: Annotated[str | None, Field(description="Request body.")] = None


def create_web_fetch_tool(
    *,
    check_url: CheckUrl | None = None,
    timeout: float = TIMEOUT_SECONDS,
    max_bytes: int = MAX_BYTES,
    follow_redirects: bool = False,
    private: bool = False,
) -> ModelTool:
    """Make the tool with its own limits.

    `check_url` gets every URL before it is requested, including redirects, and refuses one by raising.
    `timeout` is the total time in seconds. Without `follow_redirects`, the model reads the target of a
    redirect and has to call again, so that a gate sees every requested URL. With `private`, requests may
    also go to this machine and its network, and not only to the public internet (A-127).
    """

    limits = _FetchLimits(check_url, max_bytes, MAX_REDIRECTS if follow_redirects else 0, private)

    async def fetch(args: WebFetchInput, ctx: ToolContext) -> ToolOutput:
        try:
            async with asyncio.timeout(timeout):
                return await _fetch(args, limits)
        except TimeoutError as error:
            raise ToolError(f"Request timed out after {timeout:g}s: {args.url}") from error

    return define_tool("web_fetch", "Fetch a URL and return the response.", WebFetchInput, fetch)


@dataclass(frozen=True, slots=True)
class _FetchLimits:
    """Limits of a tool's requests."""

    check_url: CheckUrl | None
    max_bytes: int
    redirects: int
    private: bool


async def _fetch(args: WebFetchInput, limits: _FetchLimits) -> ToolOutput:
    import httpx

    from .public_transport import PublicTransport

    for name in args.headers or ():
        if name.strip().lower() in FORBIDDEN_HEADERS:
            raise ToolError(f"The header '{name}' follows from the URL and the body; leave it out")
    transport = None if limits.private else PublicTransport()
    try:
        async with httpx.AsyncClient(
            transport=transport, headers=UNENCODED, follow_redirects=False, timeout=None
        ) as client:
            request = client.build_request(
                args.method.upper(),
                args.url,
                headers=args.headers,
                content=args.body,
            )
            for _ in range(limits.redirects + 1):
                await _check(request.url, limits.check_url)
                response = await client.send(request, stream=True)
                try:
                    location = response.headers.get("location")
                    if not response.has_redirect_location or location is None:
                        return await _output(response, limits.max_bytes)
                    if not limits.redirects:
                        return _redirect_notice(response, location)
                    request = _redirected(client, request, response.status_code, location)
                finally:
                    await response.aclose()
    except httpx.InvalidURL as error:
        raise ToolError(f"Invalid URL {args.url!r}: {error}") from error
    except httpx.HTTPError as error:
        raise ToolError(f"Request failed: {describe(error)}") from error
    except UnicodeError as error:
        raise ToolError(f"The request holds a character that HTTP cannot send: {error}") from error
    raise ToolError(f"More than {limits.redirects} redirects: {args.url}")


async def _check(url: httpx.URL, check_url: CheckUrl | None) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise ToolError(f"Only http and https URLs can be fetched, got '{url}'")
    if check_url is not None:
        waiting = check_url(str(url))
        if inspect.isawaitable(waiting):
            await waiting


def _redirected(
    client: httpx.AsyncClient, request: httpx.Request, status: int, location: str
) -> httpx.Request:
    """Return the next request, like browsers: credentials stay with their origin, POST becomes GET."""
    url = request.url.join(location)
    method = request.method
    dropped_names = {"host"}
    first = request.url
    if (url.scheme, url.host, url.port) != (first.scheme, first.host, first.port):
        dropped_names |= CREDENTIALS
    content: bytes | None = request.content
    if (status == 303 and method not in ("GET", "HEAD")) or (status in (301, 302) and method == "POST"):
        method, content = "GET", None
        dropped_names |= BODY_HEADERS
    headers = {key: value for key, value in request.headers.items() if key.lower() not in dropped_names}
    return client.build_request(method, url, headers=headers, content=content or None)


def _redirect_notice(response: httpx.Response, location: str) -> ToolOutput:
    """Return a redirect as the model reads it."""
    url = response.request.url.join(location)
    return ToolOutput(
        f"Status: {_status(response)}\nLocation: {url}\n\n"
        "[The redirect was not followed. Call web_fetch with this URL if that is what is wanted.]",
        metadata={"status": response.status_code, "url": str(response.url), "location": str(url)},
    )


def _status(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase[:MAX_HEADER_CHARACTERS]}".rstrip()


async def _output(response: httpx.Response, max_bytes: int) -> ToolOutput:
    body = await body_start(response, max_bytes + 1)
    text, notice = body, ""
    if len(body) > max_bytes:
        text = whole_characters(body[:max_bytes])
        notice = f"\n\n[Output truncated at {kilobytes(max_bytes)}.]"
    body_text = text.decode(errors="replace") + notice
    content_type = response.headers.get("content-type", "unknown")[:MAX_HEADER_CHARACTERS]
    return ToolOutput(
        f"Status: {_status(response)}\nContent-Type: {content_type}\n\n{body_text}",
        metadata={"status": response.status_code, "url": str(response.url)},
    )


WebFetchTool = create_web_fetch_tool()
