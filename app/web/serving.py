"""Serving the console to browsers, from a server started here or a running one."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import webbrowser
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ...engine.core.sanitize import visible
from ...engine.gateway.client.console import ConsoleClient
from ...engine.gateway.client.login import LoginExchange
from ...engine.gateway.oidc.client import ProviderClient
from ...engine.gateway.oidc.provider import Provider
from ...engine.gateway.protocol.address import TOKEN, Address, check_private, server_url
from ...engine.gateway.protocol.server_proof import digest_of
from ...engine.gateway.protocol.token_paths import operator_token_file, token_file
from ...engine.gateway.protocol.tokens import TokenError, TokenFile, check_secret, read_secret
from ...engine.history.database.location import absolute
from ..config.approvals import approval_settings
from ..config.arguments import database, redaction, refuse, report_directory
from ..config.gateway import gateway_settings
from ..config.loader import SettingsError
from ..config.oidc import OidcSettings, oidc_settings
from ..config.trust import rule_texts
from ..hosting.certificate import Certificate, server_certificate
from ..hosting.notifications.notifier import no_chat
from ..hosting.notifications.slack import ChatTerms, chat_terms
from ..hosting.server import (
    NOTHING_JUDGED,
    RunningServer,
    ServerOptions,
    end_requested,
    own_tokens,
    reload_certificate,
    running_server,
)
from ..sources.deep_link import DeepLink
from ..terminal.qr_code import qr_lines
from .chat.decisions import SlackDecisions
from .environment import tab_environment
from .logins import LoginFile, Logins, login_file
from .oidc.consoles import OperatorConsoles
from .oidc.sign_in import SignIn
from .server import ConsoleServer
from .tabs import Console

PORT = 8738
NO_CLICKS = (
    "clicks in Slack are not taken with --connect: requests are decided from there where `interlock web` "
    "has a server of its own"
)


@dataclass(frozen=True, slots=True)
class SessionServer:
    """The server whose sessions are shown, by its URL; `own` is set if it runs in this process."""

    url: str
    own: RunningServer | None = None


Running = Callable[[], AsyncGenerator[SessionServer, None]]


class Chat:
    """The terms on which clicks in a chat are accepted, which can be read again."""

    def __init__(self, terms: ChatTerms) -> None:
        self._terms: ChatTerms | None = terms

    def current(self) -> ChatTerms | None:
        """Return the present terms; `None` if clicks are no longer accepted."""
        return self._terms

    def read_again(self) -> str:
        """Read the terms again, and return a message on the result; after an error nothing changes."""
        try:
            self._terms = chat_terms()
        except SettingsError as error:
            return f"SIGHUP: decisions from Slack stay as they are: {error}"
        if self._terms is None:
            return "SIGHUP: nobody decides from Slack any more"
        return f"SIGHUP: decisions from Slack are those of {self._terms.people}"


def serve_console(args: argparse.Namespace) -> None:
    """Serve the console to browsers until stopped, according to the options of `interlock web`.

    Raises `JournalError`, `NetError`, `RuleError`, `SettingsError`, `TokenError`, `ValueError` and
    `OSError`.
    """
    listen = Address.parse(args.listen) if args.listen else Address(port=PORT)
    certificate = server_certificate(listen, args.certificate, args.key)
    _check_reach(listen, private=certificate is not None)
    terms = chat_terms()
    chat = None if terms is None or args.connect is not None else Chat(terms)
    if args.connect is not None:
        if terms is not None:
            refuse("web", NO_CLICKS)
        server, token = _attached(args), _token(args)
    else:
        server, token = _started(args, chat)
    logins = _logins(args, listen, token)
    asyncio.run(_serve(args, listen, certificate, logins, server, token, chat))


async def _serve(
    args: argparse.Namespace,
    listen: Address,
    certificate: Certificate | None,
    logins: Logins,
    server: Running,
    token: str,
    chat: Chat | None,
) -> None:
    provider = oidc_settings()
    async with asynccontextmanager(server)() as sessions:
        url = sessions.url
        environment = tab_environment(token)
        sign_in = _sign_in(provider, url, token)
        hub = None if sessions.own is None else sessions.own.gateway.hub
        front = ConsoleServer(
            lambda link: Console(_line(args, url, link), environment),
            logins=logins,
            phone=lambda: ConsoleClient(url, token),
            deny_reasons=approval_settings().deny_reasons,
            sign_in=sign_in,
            operators=OperatorConsoles(
                lambda link, own: Console(_line(args, url, link), tab_environment(own)),
                lambda own: ConsoleClient(url, own),
            ),
            chat=None if hub is None or chat is None else SlackDecisions(hub, chat.current),
        )
        try:
            if certificate is None:
                await front.start(listen.host, listen.port)
            else:
                await front.start(listen.host, listen.port, certificate.tls, certificate.names)
        except OSError as error:
            raise OSError(
                f"cannot listen on {listen}: {error.strerror}; choose another address with --listen"
            ) from error
        if hub is not None and hub.web_page is None:
            hub.keys.page = front.url

        def hung_up() -> None:
            _renew(front, certificate)
            if sessions.own is not None:
                sessions.own.read_again()
            if chat is not None:
                _say(chat.read_again())

        try:
            end = end_requested(hung_up)
            link = front.link()

            def show(link: str) -> None:
                print(f"Open {link}", flush=True)
                _print_phone_link(front.phone_link(link), with_code=not args.no_qr)

            show(link)
            another = "Enter prints another; " if sys.stdin.isatty() else ""
            print(
                f"It logs one browser in, once, within 10 minutes. {another}Ctrl+C ends it.", flush=True
            )
            if sign_in is not None:
                print(
                    f"People log in with {sign_in.issuer}, which must know {sign_in.redirect(front.url)}",
                    flush=True,
                )
            if listen.is_local:
                print(
                    "A phone reaches this machine with --listen and --certificate, or by a tunnel.",
                    flush=True,
                )
            with _on_enter(lambda: show(front.link())), _page_to(link) as leading:
                if args.open:
                    await asyncio.to_thread(webbrowser.open, leading)
                await end.wait()
        finally:
            await front.close()


def _sign_in(provider: OidcSettings | None, url: str, token: str) -> SignIn | None:
    """Create the logins through the provider of `[oidc]`.

    They get tokens of the server at `url`, which knows `token`.
    """
    if provider is None:
        return None
    client = ProviderClient(
        Provider(provider.issuer), provider.client_id, provider.scopes, provider.secret()
    )
    return SignIn(client, LoginExchange(url, token))


def _print_phone_link(link: str, *, with_code: bool) -> None:
    """Print the link to the page for phones; in a terminal as a QR code as well."""
    print(f"On a phone {link}", flush=True)
    if with_code and sys.stdout.isatty():
        print("\n".join(qr_lines(link)), flush=True)


def _logins(args: argparse.Namespace, listen: Address, token: str) -> Logins:
    """Create the logins of browsers.

    They outlast a restart if the same server is shown, or the own server has the same journal, with the
    same operator's token.
    """
    if not listen.port:  # A random port makes each start another origin.
        return Logins()
    own = args.connect is None
    target = str(absolute(database(args))) if own else server_url(args.connect or None)
    return Logins(file=LoginFile(login_file(listen), digest_of(f"{token} {target}")))


def _renew(front: ConsoleServer, certificate: Certificate | None) -> None:
    result = reload_certificate(certificate)
    if certificate is not None:
        front.certify(certificate.names)
    _say(result)


def _say(result: str) -> None:
    print(f"interlock web: {visible(result)}", file=sys.stderr, flush=True)


def _line(args: argparse.Namespace, url: str, link: DeepLink) -> list[str]:
    """Return the command line of a tab.

    Modules are not imported from the working directory, where agents write.
    """
    line = [sys.executable, "-P", "-m", "interlock.app.cli", "console", "--connect", url]
    # A browser can show every symbol, whatever the server's locale.
    line.append("--ascii" if args.ascii else "--no-ascii")
    return [*line, *(["--theme", args.theme] if args.theme else []), *link.options]


def _attached(args: argparse.Namespace) -> Running:
    """Return a function that provides a running server. Raises `ValueError`."""
    for name in ("agents", "rules", "mode", "db", "redact", "operator"):
        if name in args.typed:
            option = "--as" if name == "operator" else f"--{name}"
            raise ValueError(f"{option} is for a server that is started here; leave out one of the two")
    url = server_url(args.connect or None)
    check_private(url)

    async def server() -> AsyncGenerator[SessionServer, None]:
        yield SessionServer(url)

    return server


def _token(args: argparse.Namespace) -> str:
    """Return the operator's token for a running server. Raises `TokenError`."""
    secret = os.environ.get(TOKEN)
    if secret is None or "token_file" in args.typed:
        return read_secret(args.token_file or operator_token_file())
    check_secret(secret, TOKEN)
    return secret


def _started(args: argparse.Namespace, chat: Chat | None) -> tuple[Running, str]:
    """Return a function that starts a server in this process, and the operator's token."""
    tokens = TokenFile(token_file())
    agent, console = own_tokens(tokens, args.operator)
    token = read_secret(console)
    identity = tokens.find(token)
    if "operator" in args.typed and identity is not None and identity.name != args.operator:
        raise TokenError(
            f"{console}: the token in it is {identity.name}'s, who would be recorded with every decision "
            f"instead of {args.operator}; leave out --as, or delete the file to have a new one made"
        )
    agents = Address.parse(args.agents) if args.agents else Address()
    _check_agents(agents)
    serving = ServerOptions(
        database=database(args),
        address=agents,
        rules=tuple(args.rules or ()),
        texts=rule_texts(args),
        mode=args.mode or "enforce",
        settings=gateway_settings(),
        tokens=tokens,
        redaction=redaction(args),
        policy=approval_settings().policy,
        oidc=oidc_settings(),
        chat=no_chat if chat is None else chat.current,
    )
    if "token_file" in args.typed:
        raise ValueError("--token-file is for a server that runs already; name that with --connect")
    if not serving.rules:
        refuse("web", NOTHING_JUDGED)
    report_directory(args, "web")

    async def server() -> AsyncGenerator[SessionServer, None]:
        async with AsyncExitStack() as stack:
            try:
                own = await stack.enter_async_context(running_server(serving))
            except OSError as error:
                raise OSError(
                    f"cannot listen on {agents}: {error.strerror}; if a server runs there, go to it "
                    f"with --connect {agents.url}, else choose another address with --agents"
                ) from error
            print(f"agents connect to {own.address} with the token in {agent}", flush=True)
            yield SessionServer(own.address.url, own)

    return server, token


def _check_reach(listen: Address, *, private: bool) -> None:
    """Raise `ValueError` for an address where the traffic of browsers could be read by others."""
    if listen.path is not None or not (private or listen.is_local):
        raise ValueError(
            f"--listen {listen}: expected an address of this machine only, like 127.0.0.1:{PORT}; from "
            f"elsewhere, serve TLS with --certificate and --key, or go through SSH: "
            f"ssh -L {PORT}:127.0.0.1:{PORT} HOST"
        )


def _check_agents(agents: Address) -> None:
    """Raise `ValueError` for an address over which tabs and agents must not send their tokens."""
    if not agents.is_local:
        raise ValueError(
            f"--agents {agents}: expected an address of this machine only, or unix:PATH; for agents "
            "elsewhere run `interlock serve` with --certificate and --key, and show it with "
            "interlock web --connect wss://HOST:PORT"
        )


@contextmanager
def _on_enter(act: Callable[[], object]) -> Generator[None, None, None]:
    """Call `act` for each line typed in the terminal, if there is one."""
    if not sys.stdin.isatty():
        yield
        return
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

    def typed() -> None:
        if os.read(stdin, 4096):
            act()
        else:
            loop.remove_reader(stdin)

    loop.add_reader(stdin, typed)
    try:
        yield
    finally:
        loop.remove_reader(stdin)


@contextmanager
def _page_to(link: str) -> Generator[str, None, None]:
    """Create a page, readable only by this user, that redirects to `link`: command lines are public."""
    with tempfile.TemporaryDirectory(prefix="interlock-") as directory:
        page = Path(directory) / "login.html"
        page.write_text(f'<meta http-equiv="refresh" content="0;url={escape(link)}">\n')
        yield page.as_uri()
