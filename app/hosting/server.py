"""Assembly of a server: the hub, its rules, admission of clients, and agents started by consoles."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
import termios
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from ...engine.approvals.policy import ApprovalPolicy, Credential
from ...engine.core.approvers import Operators
from ...engine.core.sanitize import visible
from ...engine.gate.types import Mode
from ...engine.gateway.cluster.shared_hub import HOSTED, SharedHub, open_hub
from ...engine.gateway.oidc.logins import OperatorLogins
from ...engine.gateway.protocol.address import Address
from ...engine.gateway.protocol.token_paths import agent_token_file, operator_token_file
from ...engine.gateway.protocol.tokens import (
    Kind,
    TokenError,
    TokenFile,
    alone,
    read_secret,
    write_private,
)
from ...engine.gateway.server.login_requests import LoginRequests
from ...engine.gateway.server.rule_sets import RuleSets
from ...engine.gateway.server.server import Gateway
from ...engine.history.database.location import Location
from ...engine.history.errors import JournalDisturbed, JournalError
from ...engine.history.model.state import SessionState, SessionSummary
from ...engine.history.redaction.redaction import Redaction
from ...engine.hub.api import MOST_RULES, AgentStarter, Outcome, ReplacedIn, RunningRules
from ...engine.hub.hub import Hub, Nets
from ...engine.net.net import SkillNet
from ...rules.compiler import forget_grammars
from ..agents.builder import Prepared
from ..config.gateway import GatewaySettings
from ..config.loader import SettingsError
from ..config.notifications import NotifySettings, notify_settings
from ..config.oidc import OidcSettings
from ..config.operators import operators, report_approvers, with_keys
from ..config.rule_texts import RuleTexts, find_loosened_rule
from ..config.rules_compiler import LANGUAGE
from ..sessions.server_rules import ServerRules
from ..sessions.start import requested_agent, resume_or_branch, start
from ..terminal.gc import settle_collector
from .audit.settings import AuditSettings, audit_settings
from .audit.streams import AuditStreams
from .certificate import Certificate
from .farewell import close_aloud
from .headless import Answer, automatic_answers
from .idle_exit import wait_until_unused
from .live_rules import ExternalRules, LiveRules
from .notifications.notifier import ChatSource, Notifications, no_chat, notifications_of
from .rules_replacement import OperatorTerms, ReplaceableRules
from .server_urls import public_url

NO_TRACES = "OTEL_… variables ask for traces, which need a package: pip install 'interlock[otel]'"
if TYPE_CHECKING:
    from .http_listener import HttpPart

NOTHING_JUDGED = "no rules were given: every call is allowed and recorded. Name files with --rules"
SUCCESSOR = "interlock"
"""Name recorded as the operator who resumed the sessions of a server that ended."""
FILES = 512
"""Open files that a server needs besides its connections."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Configuration of a server; for `rules` and `mode` see `interlock serve --help`.

    Rules in `texts` were read earlier, to be checked; these texts apply even if the files have changed
    since.
    """

    database: Location
    address: Address
    rules: tuple[str, ...]
    mode: Mode
    settings: GatewaySettings
    tokens: TokenFile
    redaction: Redaction
    policy: ApprovalPolicy
    operators: Callable[[], Operators] = operators
    """Reads the operators."""
    oidc: OidcSettings | None = None
    """Provider through which operators may log in; `None` for tokens only."""
    certificate: Certificate | None = None
    texts: RuleTexts = field(default_factory=RuleTexts)
    idle_exit: float | None = None
    """Seconds without a session and a connection after which the server ends; `None` for never."""
    advertised: str | None = None
    """URL on which other machines reach it, for the list of servers that share a database."""
    answer: Answer | None = None
    """Answer to every request in place of operators, for tests; `None` for none."""
    metrics: Address | None = None
    """Address for monitoring; `None` for none."""
    trace_arguments: bool = False
    """True if traces include the arguments and results of calls, masked."""
    approvals: Address | None = None
    """Address for clients of the Agent Approval Protocol; `None` for none."""
    chat: ChatSource = no_chat
    """Terms on which this process accepts clicks in a chat."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names in the certificate; `None` without TLS."""
        return None if self.certificate is None else self.certificate.names


def rule_sets(
    files: Sequence[str],
    settings: GatewaySettings,
    texts: RuleTexts | None = None,
    known: Operators | None = None,
) -> RuleSets:
    """Compile every rule set once, so that errors are found at start.

    Files that are not among `texts` are read here and never again: agents may be able to write those of a
    working directory, and choose when a set is compiled. Approvals that none of the `known` operators
    could give are errors, or printed. Raises `RuleError`, and `SettingsError` for a working directory's
    set that takes calls from the rules in `files` or from a set of the user's applied with it.
    """
    rule_files, added = settings.rules, settings.added
    read = (texts or RuleTexts()).with_files(
        [*files, *(file for each in rule_files.values() for file in each)]
    )

    def compiled(names: tuple[str, ...]) -> Mapping[str, SkillNet]:
        chosen = [*files, *(file for name in names for file in rule_files[name])]
        return read.compile(*chosen).registry if chosen else {}

    for name in rule_files:
        compiled((name,))
    registry = compiled(tuple(sorted(rule_files)))
    if known is not None:
        report_approvers("serve", registry.values(), known)
    users = [each[: len(each) - len(added.get(name, ()))] for name, each in rule_files.items()]
    for name, of_directory in added.items():
        for others in ((), *users):
            if (rule := find_loosened_rule(read, (*files, *others), of_directory)) is not None:
                raise SettingsError(
                    f"[gateway]: rules: {name}: what this set of the working directory names would no "
                    f"longer be covered by '{rule}'; name the tools in rules of your own"
                )
    return RuleSets(compiled, rule_files)


async def serve(serving: ServerOptions, ready: Callable[[Address], None]) -> None:
    """Serve until a signal or idleness ends the server; `ready` receives the address.

    Raises the errors of its parts at start.
    """
    async with running_server(serving) as running:
        gateway, address = running.gateway, running.address

        def hung_up() -> None:
            _complain(reload_certificate(serving.certificate))
            running.read_again()

        end = end_requested(hung_up)
        ready(address)
        ends: list[asyncio.Task[object]] = [
            asyncio.ensure_future(end.wait()),
            asyncio.ensure_future(gateway.hub.lost()),
        ]
        if serving.idle_exit is not None:
            ends.append(asyncio.ensure_future(wait_until_unused(gateway, serving.idle_exit)))
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
        for each in done:
            each.result()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server: its gateway, address, notifications and audit streams."""

    gateway: Gateway
    address: Address
    serving: ServerOptions
    notifications: Notifications
    streams: AuditStreams
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def read_again(self) -> None:
        """Read operators, `[notify]` and `[audit]` again, and print the result.

        After an error nothing changes.
        """
        _complain(reload_operators(self.gateway.hub, self.serving.operators))
        for reading in (self._read_notifications(), self._read_streams()):
            task = asyncio.get_running_loop().create_task(reading)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _read_notifications(self) -> None:
        _complain(await reload_notifications(self.notifications, notify_settings))

    async def _read_streams(self) -> None:
        _complain(await reload_streams(self.streams, audit_settings))


@asynccontextmanager
async def running_server(serving: ServerOptions) -> AsyncGenerator[RunningServer]:
    """Run a server while the context is open. Raises the errors of its parts at start."""
    hook, audit = notify_settings(), audit_settings()
    texts = await asyncio.to_thread(serving.texts.with_files, serving.rules)
    operators = await asyncio.to_thread(serving.operators)
    keyed = await asyncio.to_thread(with_keys, operators, serving.database, sure=True)
    rules = await asyncio.to_thread(rule_sets, serving.rules, serving.settings, texts, keyed)
    hub = open_hub(
        serving.database, redaction=serving.redaction, policy=serving.policy, language=LANGUAGE
    )

    external = _GatewayRules(serving.settings)
    streams = AuditStreams(hub, audit, _complain)
    try:
        hub.know_operators(operators)
        hub.serve_keys(serving.settings.page or None, _complain)
        for line in key_lines(hub):
            _complain(line)
        starter = HubStarter(hub, serving.rules, serving.mode, texts, external)
        gateway = Gateway(
            hub,
            serving.tokens,
            rules=rules,
            mode=serving.mode,
            agents_may_shadow=serving.settings.agents_may_shadow,
            limits=serving.settings.limits,
            hosts=serving.settings.hosts,
            origins=serving.settings.origins,
            starter=starter,
            logins=_login_requests(hub, serving),
        )
        external.gateway = gateway
        address = await gateway.start(
            serving.address,
            tls=serving.certificate and serving.certificate.tls,
            names=serving.names or (),
        )
        hub.name_server(serving.advertised or public_url(address, serving.names))
        if isinstance(hub, SharedHub):
            hub.taken_over, hub.warn_operators = _Successor(hub, starter).take, _complain
            hub.begun_anew = gateway.call_back
            for weakness in await asyncio.to_thread(hub.durability):
                _complain(weakness)
        await hub.share()
        await streams.start()
        for state in streams.states:
            _complain(f"audit stream to {state.name}")
        forget_grammars()
        settle_collector()
        try:
            async with (
                _traces(gateway.hub, serving),
                _http_side(gateway, serving, streams),
                notifications_of(hub, hook, _complain, serving.chat) as notifications,
                automatic_answers(hub, serving.answer, sys.stdout),
            ):
                yield RunningServer(gateway, address, serving, notifications, streams)
        finally:
            await gateway.close()
    finally:
        try:
            await close_aloud(hub)
        finally:
            await streams.finish()


@asynccontextmanager
async def _traces(hub: Hub, serving: ServerOptions) -> AsyncGenerator[None]:
    """While the context is open, send traces if OpenTelemetry's variables name a receiver."""
    async with AsyncExitStack() as stack:
        if is_traced(os.environ):
            try:
                from .monitoring.tracing import tracing
            except ImportError:
                _complain(NO_TRACES)
            else:
                await stack.enter_async_context(tracing(hub, arguments=serving.trace_arguments))
        yield


@asynccontextmanager
async def _http_side(
    gateway: Gateway, serving: ServerOptions, streams: AuditStreams
) -> AsyncGenerator[None]:
    """While the context is open, answer over HTTP as configured; parts at one address share its port."""
    parts: dict[Address, list[HttpPart]] = {}
    async with AsyncExitStack() as stack:
        # The libraries are imported only by servers that have such an address.
        if serving.metrics is not None:
            from .monitoring.endpoints import Endpoints
            from .monitoring.metrics import Metrics

            metrics = Metrics(gateway.hub, gateway, streams)
            await stack.enter_async_context(metrics.watching())
            endpoints = Endpoints(gateway.hub, metrics, serving.tokens, serving.metrics)
            parts.setdefault(serving.metrics, []).append(endpoints)
        if serving.approvals is not None:
            from ...engine.gateway.aap.provider import ApprovalProvider
            from .approval_requests import ApprovalRequests

            settings = serving.settings
            provider = ApprovalProvider(gateway.sessions, serving.tokens, settings.webhooks)
            stack.push_async_callback(provider.close)
            if isinstance(gateway.hub, SharedHub):
                gateway.hub.ended_with_server = provider.take
            await provider.start()
            requests = ApprovalRequests(
                provider, gateway.hub, serving.tokens, settings.limits, settings.hosts
            )
            parts.setdefault(serving.approvals, []).append(requests)
        if parts:
            from .http_listener import listening

            for address, those in parts.items():
                at = listening(address, those, serving.certificate, serving.settings.limits)
                where = await stack.enter_async_context(at)
                scheme = "http" if serving.certificate is None or where.is_local else "https"
                for each in those:
                    _complain(f"{each.title} at {scheme}://{where}{each.path}")
        yield


def is_traced(environ: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's standard variables name a receiver of traces."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environ.get(name) for name in names)


def _login_requests(hub: Hub, serving: ServerOptions) -> LoginRequests | None:
    settings = serving.oidc
    if settings is None:
        return None
    logins = OperatorLogins(settings.terms, serving.tokens, lambda: hub.operators)
    return LoginRequests(logins, settings.offer)


def key_lines(hub: Hub) -> Iterator[str]:
    """Yield lines on valid passkeys, so that one that nobody enrolled is noticed, and on faulty ones."""
    names = [f"{each.key.operator} ({each.key.name})" for each in hub.keys.in_force()]
    if names:
        yield f"passkeys: {', '.join(names)}"
    yield from hub.keys.faults


def _complain(problem: str) -> None:
    print(f"interlock serve: {visible(problem)}", file=sys.stderr, flush=True)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the faster event loop if it is installed, otherwise `None` for Python's own."""
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return None
    return uvloop.new_event_loop


def raise_file_limit(connections: int) -> None:
    """Raise this process's limit of open files to what `connections` need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = connections + FILES
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def end_requested(hung_up: Callable[[], object]) -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set from now on.

    SIGHUP calls `hung_up`, as is usual for servers; it sets the event only if the terminal was closed.
    """
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: end.set() if _is_terminal_closed() else hung_up())
    return end


def _is_terminal_closed() -> bool:
    """Return whether standard output is a terminal that was closed."""
    try:
        termios.tcgetattr(1)
    except termios.error as error:
        return error.args[0] in (errno.EIO, errno.ENXIO)
    return False


def reload_certificate(certificate: Certificate | None) -> str:
    """Read the certificate again, and return a message on the result."""
    return "SIGHUP: there is no certificate to read again" if certificate is None else certificate.renew()


def reload_operators(hub: Hub, read: Callable[[], Operators]) -> str:
    """Read the operators again, and return a message on the result; after an error nothing changes."""
    try:
        operators = read()
    except SettingsError as error:
        return f"SIGHUP: the operators stay as they are: {error}"
    hub.know_operators(operators)
    listed = operators.listed or ()
    return f"SIGHUP: the operators were read again: {len(listed) or 'none'} in [operators]"


async def reload_notifications(
    notifications: Notifications, read: Callable[[], NotifySettings | None]
) -> str:
    """Read `[notify]` again, and return a message on the result; after an error nothing changes."""
    try:
        notify = await asyncio.to_thread(read)
    except SettingsError as error:
        return f"SIGHUP: notifications stay as they are: {error}"
    await notifications.change(notify)
    return f"SIGHUP: [notify] was read again: {'there is none' if notify is None else 'in use'}"


async def reload_streams(streams: AuditStreams, read: Callable[[], AuditSettings | None]) -> str:
    """Read `[audit]` again, and return a message on the result; after an error nothing changes."""
    try:
        await streams.change(await asyncio.to_thread(read))
    except SettingsError as error:
        return f"SIGHUP: audit streams stay as they are: {error}"
    names = [state.name for state in streams.states]
    return f"SIGHUP: [audit] was read again: {', '.join(names) or 'there is none'}"


def own_tokens(tokens: TokenFile, operator: str) -> tuple[Path, Path]:
    """Return the token files of this user's own agents and console, creating missing ones.

    The agents' token gets the console's operator as its owner, unless it has one. Raises `TokenError`.
    """
    console = own_token(tokens, "operator", operator)
    deciding = tokens.find(read_secret(console))
    agent = own_token(tokens, "agent", "agent")
    judged = tokens.find(read_secret(agent))
    if deciding is not None and judged is not None and judged.owner is None:
        tokens.set_owner(judged.name, deciding.name)
    return agent, console


def own_token(tokens: TokenFile, kind: Kind, name: str) -> Path:
    """Return the file with this user's own token, for clients on this machine; create it if missing.

    A revoked token is not replaced. Raises `TokenError`.
    """
    path = agent_token_file() if kind == "agent" else operator_token_file()
    # If two servers start at once, one creates the token and the other finds it.
    with alone(path):
        _make_own(tokens, kind, name, path)
    return path


def _make_own(tokens: TokenFile, kind: Kind, name: str, path: Path) -> None:
    with suppress(FileNotFoundError):
        path.stat()
        identity = tokens.find(read_secret(path))
        if identity is not None and identity.kind == kind:
            return
        raise TokenError(f"{path}: the token in it is not valid; delete the file to have a new one made")
    kinds = {each.name: each.kind for each in tokens.tokens() if each.login is None}
    if kinds.get(name, kind) != kind:
        raise TokenError(
            f"'{name}' is the name of an {kinds[name]}'s token; revoke that, or choose another with --as"
        )
    write_private(path, (tokens.rotate(name) if name in kinds else tokens.issue(kind, name)) + "\n")


class HubStarter(AgentStarter):
    """Starts agents on the server, as consoles specify them; see `agent_file` for the fields.

    The server's own `rules` apply to them, too: a console cannot start a session without them (G-67). The
    rules of `external` agents are replaced together with these.
    """

    def __init__(
        self,
        hub: Hub,
        rules: Sequence[str] = (),
        mode: Mode = "enforce",
        texts: RuleTexts | None = None,
        external: ExternalRules | None = None,
    ) -> None:
        self._hub = hub
        external = external or _GatewayRules(GatewaySettings())
        self._live = LiveRules(hub, external)
        self._running = ReplaceableRules(ServerRules(rules, mode, texts), mode, external, self._live)

    @property
    def _rules(self) -> ServerRules:
        return self._running.rules

    async def running_rules(self) -> RunningRules:
        running = self._running.running()
        size = sum(len(text.encode()) for text in running.files.values())
        if size > MOST_RULES:
            raise ValueError(
                f"The server's rules are {size:,} bytes, and an answer takes {MOST_RULES:,}; "
                "compare the files on its machine"
            )
        return running

    async def apply_rules(
        self,
        files: Mapping[str, str],
        *,
        by: str,
        against: str,
        reason: str | None = None,
        to: ReplacedIn = "new",
        credential: Credential | None = None,
    ) -> Outcome:
        # The reason is recorded in many sessions as metadata, which outlives their content, so it is
        # masked.
        why = self._hub.redaction.text((reason or "").strip())
        before = self._rules
        outcome = await self._running.apply(
            files, against, OperatorTerms(by.strip(), why, credential), to
        )
        if self._rules is before or not isinstance(self._hub, SharedHub):
            return outcome
        try:
            others = await self._hub.other_servers()
        except JournalError:  # the rules are replaced all the same
            others = ["the other servers"]
        return outcome.model_copy(update={"message": outcome.message + _apply_there(others)})

    async def drop_rules(self, *, by: str) -> Outcome:
        return await self._running.drop(by)

    async def start(self, spec: dict[str, JsonValue], *, by: str) -> str:
        rules = self._rules

        def prepare() -> Prepared:
            agent = requested_agent(spec)
            rules.check_mode(agent.mode)
            return rules.agent(agent)

        prepared = await asyncio.to_thread(prepare)
        session = await start(self._hub, prepared, by, self._live.note)
        await self._running.catch_up(session, rules)
        return session

    async def resume(
        self,
        session_id: str,
        *,
        by: str,
        at: int | None = None,
        nets: Nets = "recorded",
        task: str | None = None,
        max_cost: float | None = None,
        reason: str | None = None,
    ) -> str:
        rules = self._rules
        session = await resume_or_branch(
            self._hub,
            session_id,
            by,
            at=at,
            nets=nets,
            task=task,
            max_cost=max_cost,
            reason=reason,
            server=rules,
            note=self._live.note,
        )
        await self._running.catch_up(session, rules)
        return session


def _apply_there(servers: Sequence[str]) -> str:
    """Return a note for an operator whose rules apply at one of several servers only."""
    if not servers:
        return ""
    return (
        f"\nThis server alone runs them. Apply them at {', '.join(servers)} as well: a session continues "
        "at another server only under the same rules."
    )


class _Successor:
    """Continues agents and flows of ended servers here, in the same way as resuming them.

    External agents reconnect by themselves.
    """

    def __init__(self, hub: SharedHub, starter: HubStarter) -> None:
        self._hub = hub
        self._starter = starter
        self._work: set[asyncio.Task[None]] = set()

    def take(self, session: SessionSummary) -> None:
        """Resume a session of another server; a failure is printed, and the session stays resumable."""
        if session.kind in HOSTED:
            task = asyncio.get_running_loop().create_task(self._resume(session.id))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    async def _resume(self, session: str) -> None:
        try:
            await self._starter.resume(session, by=SUCCESSOR)
            state = await self._hub.session(session)
        except JournalDisturbed:
            return  # another server goes on with it
        except Exception as error:
            _complain(f"session '{session}' of a server that ended does not continue here: {error}")
        else:
            _complain(f"session '{session}' of a server that ended {_goes_on(state)}")
        await self._hub.continued(session)


def _goes_on(state: SessionState) -> str:
    """Return how a resumed session goes on; the outcome of the last calls may be unknown."""
    if state.status != "idle":
        return "continues here"
    latest = takewhile(lambda each: each.kind in ("call", "note"), reversed(state.transcript))
    calls = [each.call for each in latest if each.call is not None]
    unknown = [visible(call.tool) for call in reversed(calls) if call.status == "unknown"]
    open_calls = f"the outcome of {', '.join(unknown)} is unknown" if unknown else "nothing was open"
    return f"is here now, and waits for a message: {open_calls}"


class _GatewayRules:
    """The rules of a gateway's external agents; before the gateway exists, nobody is connected."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self.gateway: Gateway | None = None

    def compiled(self, rules: ServerRules) -> RuleSets:
        """See `ExternalRules`."""
        operators = None if self.gateway is None else self.gateway.hub.operators
        return rule_sets(rules.files, self._settings, rules.texts, operators)

    def commit(self, sets: RuleSets) -> None:
        """See `ExternalRules`."""
        if self.gateway is not None:
            self.gateway.replace_rules(sets)

    def rules_of(self, session_id: str) -> Sequence[str] | None:
        """See `ExternalRules`."""
        return None if self.gateway is None else self.gateway.rules_of(session_id)
