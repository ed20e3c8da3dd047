"""An MCP server that requires OAuth, with its authorization server, as a program on the port it prints.

Both are the official SDK's. Every browser is logged in, unless the file that OAUTH_ORDERS names contains
`deny`. The file that OAUTH_LOG names has a line for each issued or revoked token. With the order
`secret`, clients get a secret. With `closed PORT METHOD`, registration is refused and only the client
`known` exists, with the secret `hush`, a callback on that port and that method of authentication. With
`forget`, tokens are refused until one is renewed; with `refuse`, they are refused and never renewed.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


def orders() -> str:
    file = Path(os.environ["OAUTH_ORDERS"])
    return file.read_text() if file.exists() else ""


def log(*words: str | None) -> None:
    with Path(os.environ["OAUTH_LOG"]).open("a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


class Provider:
    """An authorization server that keeps its data in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.renewals: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if client_id == "known" and orders().startswith("closed "):
            _, port, method = orders().split()
            return OAuthClientInformationFull.model_validate(
                {
                    "client_id": client_id,
                    "client_secret": None if method == "none" else "hush",
                    "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
                    "token_endpoint_auth_method": method,
                }
            )
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        if orders().startswith("closed "):
            raise RegistrationError("invalid_client_metadata", "nobody is registered here")
        if orders() == "secret":
            client_info.client_secret = secrets.token_urlsafe(16)
            client_info.token_endpoint_auth_method = "client_secret_post"
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if orders() == "deny":
            return construct_redirect_uri(
                str(params.redirect_uri), error="access_denied", state=params.state
            )
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, _client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue("code", client.client_id, authorization_code.resource)

    async def load_refresh_token(
        self, _client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, _scopes: list[str]
    ) -> OAuthToken:
        if orders() == "refuse":
            raise TokenError("invalid_grant", "not any more")
        # A renewal token is valid once; a second use means that it was stolen.
        del self.renewals[refresh_token.token]
        return self._issue("renewed", client.client_id, refresh_token.resource)

    def _issue(self, how: str, client_id: str, resource: str | None) -> OAuthToken:
        log(how, resource)
        token, renewal = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.tokens[token] = AccessToken(token=token, client_id=client_id, scopes=[], resource=resource)
        self.renewals[renewal] = RefreshToken(
            token=renewal, client_id=client_id, scopes=[], resource=resource
        )
        if orders() == "forget":
            Path(os.environ["OAUTH_ORDERS"]).write_text("")
        return OAuthToken(access_token=token, refresh_token=renewal, expires_in=3600)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return None if orders() in {"forget", "refuse"} else self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        log("revoked", token.resource)
        self.tokens.clear()
        self.renewals.clear()


def run() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    server = MCPServer(
        "vault",
        auth_server_provider=Provider(),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            revocation_options=RevocationOptions(enabled=True),
            validate_token_resource=True,
        ),
    )

    @server.tool()
    def read() -> str:
        return "42"

    print(port, flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run([listening])


if __name__ == "__main__":
    run()
