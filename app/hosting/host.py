"""Common part of the commands that host agents: the journal, then a console or a headless run."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ...engine.core.sanitize import visible
from ...engine.gateway.cluster.shared_hub import open_hub
from ...engine.history.database.location import Location
from ...engine.history.journal.journal import JournalError
from ...engine.history.redaction.redaction import Redaction
from ...engine.hub.hub import Hub, Outcome
from ..config.approvals import approval_settings
from ..config.arguments import database, journal_options, redaction, refuse
from ..config.loader import SettingsError
from ..config.notifications import attention_settings, notify_settings
from ..config.operators import operators
from ..config.rules_compiler import LANGUAGE
from ..sources.deep_link import DeepLink
from ..terminal.appearance import Appearance
from ..terminal.signals import on_signals, until_signal
from .audit.settings import audit_settings
from .audit.streams import AuditStreams
from .farewell import close_aloud, farewell, farewell_to_server
from .notifications.notifier import notifications_of

Start: TypeAlias = Callable[[Hub], Awaitable[str]]
Follow: TypeAlias = Callable[[Hub, Start], Awaitable[int]]
"""Starts a session, and returns the exit code when the session has ended."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit code of a headless run that Ctrl+C ended."""


def host(args: argparse.Namespace, start: Start, *, follow: Follow | None = None) -> int:
    """Host the session that `start` opens, on a screen or headless. Returns the exit code.

    `follow` runs a headless session that is not an agent's. If the journal cannot be written, nothing
    starts.
    """
    path, hidden = database(args), redaction(args)

    async def without_screen() -> int:
        from .headless import follow as follow_agent

        hook, audit, policy = notify_settings(), audit_settings(), approval_settings().policy
        known = operators()

        def tell(problem: str) -> None:
            print(f"interlock: {problem}", file=sys.stderr)

        hub = open_hub(path, redaction=hidden, policy=policy, language=LANGUAGE)
        hub.know_operators(known)
        await hub.share()
        streams = AuditStreams(hub, audit, tell)
        try:
            await _begin(streams, hub)
            async with notifications_of(hub, hook, tell):
                if follow is not None:
                    return await follow(hub, start)
                return await follow_agent(hub, start, answer=args.answer, out=sys.stdout)
        finally:
            await streams.finish()

    try:
        if args.headless:
            return asyncio.run(until_signal(without_screen()))
        return show(
            path,
            args.operator,
            start,
            hidden,
            getattr(args, "appearance", None),
            named=journal_options(args),
            notice=getattr(args, "journal_notice", ""),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except (JournalError, SettingsError) as error:
        return refuse("", error)


async def _begin(streams: AuditStreams, hub: Hub) -> None:
    """Start sending a hub's record; if that fails, close the hub.

    Raises `SettingsError`.
    """
    try:
        await streams.start()
    except SettingsError:
        await hub.close()
        raise


def show(
    database: Location,
    operator: str,
    start: Start | None,
    redaction: Redaction,
    appearance: Appearance | None = None,
    *,
    named: Sequence[str] = (),
    notice: str = "",
) -> int:
    """Show the console on its own hub until the operator quits, the terminal closes or a signal ends it.

    A `notice` is shown once the session has begun. Afterwards the commands that replay and resume the
    sessions are printed; `named` are the options that name the journal. Raises `SettingsError` before the
    console is shown, and `JournalError` before or after.
    """
    from ..console.app import InterlockConsole
    from ..sources.messages import ActionDone

    attention, hook, approvals = attention_settings(), notify_settings(), approval_settings()
    known, audit = operators(), audit_settings()

    ways_on: list[str] = []

    async def session() -> int:
        hub = open_hub(database, redaction=redaction, policy=approvals.policy, language=LANGUAGE)
        hub.know_operators(known)
        await hub.share()
        app: InterlockConsole | None = None

        def tell(problem: str) -> None:
            if app is not None:
                app.post_message(ActionDone(Outcome(ok=False, message=problem)))

        streams = AuditStreams(hub, audit, tell)
        await _begin(streams, hub)

        async def begin(hub: Hub) -> None:
            if app is not None and notice:
                app.post_message(ActionDone(Outcome(ok=True, message=notice)))
            if start is not None:
                await start(hub)

        def end(code: int) -> None:
            if app is not None:
                app.end(code)

        # Active until the hub is closed: a second signal must not interrupt what the first one began.
        with on_signals(end):
            try:
                app = InterlockConsole(
                    hub,
                    operator=operator,
                    start=None if start is None else begin,
                    appearance=appearance,
                    attention=attention,
                    deny_reasons=approvals.deny_reasons,
                )
                async with notifications_of(hub, hook, tell):
                    await app.run_async()
                with suppress(JournalError):
                    ways_on.extend(await farewell(hub, named))
            finally:
                try:
                    await close_aloud(hub)
                finally:
                    await streams.finish()
        return app.return_code or 0

    code = asyncio.run(session())
    if notice:
        print(visible(notice))
    for line in ways_on:
        print(line)
    return code


def watch(
    database: Location, operator: str, redaction: Redaction, appearance: Appearance | None = None
) -> int:
    """Show a journal, whether another process writes it or not, in a console that changes nothing.

    Raises `SettingsError`, `JournalError` and `FoldError` before it is shown.
    """
    from ..console.app import InterlockConsole
    from ..console.driver import run_until_ended
    from ..sources.read_only import read_only
    from ..sources.watch import WatchedJournal

    attention = attention_settings()

    async def session() -> int:
        journal = WatchedJournal(database, redaction)
        await journal.look()
        journal.follow()
        try:
            app = InterlockConsole(
                read_only(journal), operator=operator, appearance=appearance, attention=attention
            )
            return await run_until_ended(app)
        finally:
            await journal.close()

    return asyncio.run(session())


def attach(
    url: str | None,
    secret: str | None,
    *,
    named: Sequence[str] = ("--connect",),
    read_only: bool = False,
    appearance: Appearance | None = None,
    open_at: DeepLink | None = None,
) -> int:
    """Show the console on a server's hub, which outlives it. The token determines the operator.

    Afterwards the sessions that continue there are printed, with the command that connects again,
    including the options `named`. Raises `SettingsError`, `GatewayError`, `TokenError` and `ValueError`
    before it is shown.
    """
    from ...engine.gateway.client.console import ConsoleClient
    from ...engine.gateway.protocol.address import check_private, server_url
    from ..console.app import InterlockConsole
    from ..console.driver import run_until_ended
    from ..sources.read_only import read_only as guarded
    from ..terminal.key_rights import Permission

    attention, approvals = attention_settings(), approval_settings()
    check_private(server_url(url))
    ways_on: list[str] = []

    async def session() -> int:
        client = ConsoleClient(url, secret, read_only=read_only)
        try:
            operator = await client.open()
            looks = read_only or client.rights == "look"
            app = InterlockConsole(
                guarded(client) if looks else client,
                operator=operator,
                permission=Permission("look") if read_only else Permission(client.rights, operator),
                open_at=open_at,
                appearance=appearance,
                attention=attention,
                deny_reasons=approvals.deny_reasons,
            )

            def moved(_: bool) -> None:
                app.post_message(app.ConnectionMoved(client.trouble))

            client.connected = moved
            code = await run_until_ended(app)
            if not app.is_web:  # A browser tab has no terminal to print to.
                ways_on.extend(await farewell_to_server(client, client.trouble, named))
            return code
        finally:
            await client.close()

    code = asyncio.run(session())
    for line in ways_on:
        print(line)
    return code
