"""HTTP to the public internet only."""

from __future__ import annotations

from typing import Final
from urllib.request import getproxies, proxy_bypass

import httpx

from .addresses import public_addresses

CONNECT_SECONDS: Final = 5.0
"""Seconds for one address to answer before the next one is tried."""


class PublicTransport(httpx.AsyncBaseTransport):
    """Connects to exactly the addresses that were checked: a name is resolved once (A-127).

    A proxy from the environment is used for names whose addresses were checked here. The proxy resolves
    them again, and its operator controls what it may reach. Raises `ToolError` for other addresses.
    """

    def __init__(self) -> None:
        self._direct = httpx.AsyncHTTPTransport()
        self._proxies: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` to the first of its host's addresses that accepts a connection."""
        url = request.url
        host = url.raw_host.decode("ascii")
        addresses = await public_addresses(host, url.port or (443 if url.scheme == "https" else 80))
        if (proxy := _proxy(url)) is not None:
            transport = self._proxies.setdefault(proxy, httpx.AsyncHTTPTransport(proxy=proxy))
            return await transport.handle_async_request(request)
        refusal: httpx.TransportError | None = None
        for address in addresses:
            try:
                return await self._direct.handle_async_request(_to(str(address), request))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                refusal = error
        raise refusal or httpx.ConnectError(f"'{url.host}' has no address")

    async def aclose(self) -> None:
        """Close every connection."""
        for transport in (self._direct, *self._proxies.values()):
            await transport.aclose()


def _to(address: str, request: httpx.Request) -> httpx.Request:
    """Direct `request` to one address; `Host` header and certificate name are still the host's."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={
            **request.extensions,
            "sni_hostname": request.url.raw_host.decode("ascii"),
            "timeout": {**request.extensions.get("timeout", {}), "connect": CONNECT_SECONDS},
        },
    )


def _proxy(url: httpx.URL) -> str | None:
    """Return the environment's proxy for `url`."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(url.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
