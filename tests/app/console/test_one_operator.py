"""G-67: one operator tries every key of the console and every method of the console's connection.

A deploy waits for two approvers in another operator's session. No key or call of one operator runs it,
and no decision allows it.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import JsonValue
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.pilot import Pilot
from textual.screen import Screen

from interlock.app import screens
from interlock.app.console.app import InterlockConsole
from interlock.app.hosting.server import HubStarter
from interlock.app.screens.common.guarded_keys import ASLEEP
from interlock.engine.agents import C, T
from interlock.engine.gateway.client.connection import GatewayError
from interlock.engine.gateway.protocol.console_methods import CONSOLE_METHODS
from interlock.engine.gateway.protocol.method import Method
from interlock.engine.history.model.events import (
    ApprovalGiven,
    ApprovalRequested,
    CallDecided,
    ChangeDropped,
    ChangeProposed,
    SessionOpened,
    SessionResumed,
)
from interlock.engine.hub.api import HubApi
from interlock.engine.hub.hub import Hub
from interlock.engine.hub.operations import operations
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...engine.gateway.served import Served
from ...engine.support.shop import Shop, bot, until
from ..connect.seats import served

RULES = "require 2 human-approvals before deploy risk high no grants\nblock rm"
NET = "approve-before-deploy"
LEAVES = {"ctrl+q", "ctrl+c", "ctrl+z", "ctrl+backslash", "q"}
"""Keys that would end the walk or the process."""
CHARACTERS = {
    "space": " ",
    "enter": "\r",
    "question_mark": "?",
    "dollar_sign": "$",
    "plus": "+",
    "at": "@",
}
PATHS: dict[str, tuple[str, ...]] = {
    "ApprovalScreen": ("a",),
    "InputForm": ("a", "e"),
    "SwitchNets": ("n",),
    "Loosen": ("n", "space"),
    "ProposedChange": ("m",),
    "LiveScreen": (),
    "Help": ("question_mark",),
    "StartScreen": ("s",),
    "DecisionsScreen": ("v",),
    "DecisionDetail": ("v", "enter"),
    "FatigueScreen": ("v", "f"),
    "SuggestionsScreen": ("v", "p"),
    "HistoryScreen": ("h",),
    "RulesScreen": ("R",),
    "ReplayScreen": ("r",),
    "Detail": ("r", "enter"),
    "ReplayedDecision": ("r", "o"),
    "GoToScreen": ("r", "g"),
    "WhatIfDialog": ("r", "w"),
    "JudgedScreen": ("r", "w", "ctrl+s"),
    "BacktestScreen": ("r", "b"),
    "Confirm": ("ctrl+x",),
    "TriageScreen": ("Q",),
    "CommentPanel": ("a", "at"),
}
"""Keys from the live screen to the others; the walk also visits screens that are missing here."""
WALKS: dict[str, tuple[str, ...]] = {
    "live": ("",),
    "dialog": ("a",),
    "decisions": ("v",),
    "replay": ("r",),
    "nets": ("n", "m"),
    "other": ("question_mark", "s", "h", "R", "ctrl+x", "Q"),
}
"""First keys of these paths, by the walk that takes them; "" is the live screen."""
BASES = {
    *("RequestPanel", "Panel", "QueueScreen", "RecordedSessionScreen", "SettledScreen"),
    "GuardedKeys",
}
WALKED = {
    *("LiveScreen", "ApprovalScreen", "SwitchNets", "Loosen", "HistoryScreen", "ReplayScreen"),
    *("RulesScreen", "DecisionsScreen", "StartScreen", "BacktestScreen", "WhatIfDialog"),
}
NOT_WALKED: dict[str, tuple[str, set[str]]] = {
    "AnswerForm": ("a flow's question, which runs nothing by itself", {"send_answer"}),
    "ApplyRules": (
        "is there on a connected console, and asks its server as below",
        {"apply('new')", "apply('all')", "proposed", "drop"},
    ),
    "BatchScreen": ("sends what the dialog sends, once a request", {"close", "deny_all", "approve_all"}),
    "ByCommand": ("copies a command", {"copy"}),
    "Detail": ("shows a row", set()),
    "DecisionDetail": ("shows a row, or opens its replay", {"replay"}),
    "FlowPanel": ("shows a flow", set()),
    "GrantScreen": ("is not offered where a rule says 'no grants'", {"give", "page(1)", "page(-1)"}),
    "ProposedChange": ("confirms or takes back through the hub", {"drop"}),
    "RaiseLimit": ("is offered where costs are limited", set()),
    "ReplayedDecision": ("shows a decision", set()),
    "ReviewEdit": ("decides with an edited input, as the hub is asked to below", {"approve_edited"}),
    "SuggestionDetail": ("shows a suggestion, or copies its rule", {"copy_rule", "save"}),
    "AlwaysScreen": ("is not offered where a rule says 'by 2'", {"switch_field", "save", "copy_rule"}),
    "RuleByHand": ("copies a rule", {"copy"}),
    "ShadowPanel": ("is offered for sessions in shadow mode; only enforces", {"enforce"}),
}
"""Screens that the walk may miss, with the reason and the actions they declare."""


async def open_waiting_session(hub: Hub, shop: Shop, by: str, session: str = "s1") -> None:
    """Open a session in which a deploy waits for two approvers."""
    events = hub.subscribe()
    agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
    registry = compile_rules(RULES).registry
    await hub.open_session(agent, SessionConfig(registry, by=by), session_id=session)
    await hub.send(session, "ship it", by=by)
    await until(events, ApprovalRequested)
    events.close()


async def record_decided_session(hub: Hub, shop: Shop) -> None:
    """Open and close a session with a decision, for the screens that list decisions."""
    events = hub.subscribe()
    registry = compile_rules(RULES).registry
    agent = bot(shop, C(rm={}), T("done"))
    await hub.open_session(agent, SessionConfig(registry, by="carl"), session_id="s0")
    await hub.send("s0", "clean up", by="carl")
    await until(events, CallDecided)
    events.close()
    await hub.close_session("s0", by="carl")


async def held(hub: Hub, *shops: Shop) -> None:
    """Assert that no call ran or was allowed, and that the rule is in force in every session."""
    assert [shop.ran for shop in shops] == [[] for _ in shops]
    for summary in await hub.history():
        for event in await hub.recorded(summary.id):
            assert not (isinstance(event.body, CallDecided) and event.body.outcome == "allow")
    for state in await hub.sessions():
        assert (state.mode, NET in state.active) == ("enforce", True)


class Walk:
    """One operator at a console whose clock the walk advances, to avoid real delays."""

    def __init__(self, hub: Hub, operator: str) -> None:
        self.seconds = 0.0
        self.app = InterlockConsole(hub, operator=operator, quiet=0, monotonic=lambda: self.seconds)
        self.pilot: Pilot[None]

    @property
    def here(self) -> str:
        return type(self.app.screen).__name__

    async def press(self, *keys: str) -> None:
        """Press keys without the pilot's wait for an idle processor after each key."""
        for key in keys:
            self.seconds += ASLEEP + 1
            character = CHARACTERS.get(key, key if len(key) == 1 else None)
            self.app.post_message(events.Key(key, character))
            await self.pilot.pause(0)
        await self.settle()

    async def settle(self, turns: int = 2) -> None:
        for _ in range(turns):
            await self.pilot.pause(0.002)

    def painted(self) -> str:
        """Return every line on screen as the operator reads it."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def back(self) -> None:
        """Return to the live screen and close any open line."""
        while len(self.app.screen_stack) > 1:
            await self.settle()
            if len(self.app.screen_stack) > 1:
                await self.app.pop_screen()
        await self.press("escape")

    async def go(self, *path: str) -> None:
        """Go from the live screen by keys, waiting after each for its screen."""
        await self.back()
        for key in path:
            before = self.app.screen
            await self.press(key)
            for _ in range(60):
                if self.app.screen is not before:
                    break
                await self.settle(1)

    async def reach(self, screen: str, path: tuple[str, ...]) -> bool:
        """Tell whether `path` leads to `screen`, even if its rows load slowly."""
        for patience in (0, 20) if screen in NOT_WALKED else (0, 20, 100):
            await self.go(*path[:-1])
            await self.settle(patience)
            if path:
                await self.press(path[-1])
            for _ in range(20 + patience):
                if self.here == screen:
                    await self.settle()
                    return True
                await self.settle(1)
        return False

    def bound(self) -> list[tuple[str, tuple[str, str]]]:
        """Return all keys of the console bound here, shown or not, each with its scope and action.

        An action of the app itself has the scope "everywhere".
        """
        found = self.app.screen.active_bindings.items()
        own = [(key, each) for key, each in found if key not in LEAVES and _is_ours(each)]
        return [
            (key, ("everywhere" if each.node is self.app else self.here, each.binding.action))
            for key, each in own
            if _keeps_console_open(each.binding)
        ]


def paths_of(name: str) -> dict[str, tuple[str, ...]]:
    """Return the paths that a walk takes."""
    return {screen: path for screen, path in PATHS.items() if "".join(path[:1]) in WALKS[name]}


def _keeps_console_open(binding: Binding) -> bool:
    return not binding.action.startswith(("app.quit", "app.suspend"))


def _is_ours(active: ActiveBinding) -> bool:
    """Tell whether a binding is declared by the console, and not by a widget of the toolkit."""
    for each in type(active.node).__mro__:
        declared = each.__dict__.get("BINDINGS", [])
        if any(getattr(binding, "action", None) == active.binding.action for binding in declared):
            return each.__module__.startswith("interlock")
    return True


def all_screens() -> dict[str, type[Screen[object]]]:
    """Return every screen and dialog class of the console, including base classes."""
    for module in pkgutil.walk_packages(screens.__path__, f"{screens.__name__}."):
        importlib.import_module(module.name)
    found: dict[str, type[Screen[object]]] = {}
    left: list[type[Screen[object]]] = [Screen]
    while left:
        each = left.pop()
        left += each.__subclasses__()
        if each.__module__.startswith("interlock"):
            found[each.__name__] = each
    return found


@asynccontextmanager
async def walking(
    hub: Hub, operator: str, size: tuple[int, int] = (80, 24)
) -> AsyncGenerator[Walk, None]:
    walk = Walk(hub, operator)
    async with walk.app.run_test(size=size, notifications=True) as pilot:
        walk.pilot = pilot
        yield walk


class TestEveryKey:
    """`carl` started the sessions; `ada` is another operator."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", WALKS)
    async def test_every_binding_is_pressed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """The walk presses every binding of every screen it reaches, with a reason and a confirmation.

        It takes seconds, since it finds the screens by keys as an operator does.
        """
        monkeypatch.chdir(tmp_path)
        hub, shops = Hub.open(tmp_path / "w.db"), list[Shop]()

        async def ask() -> None:
            """Replace the sessions by two with a waiting deploy each, unless both still wait."""
            if hub.current_freeze() is not None:
                await hub.lift_freeze(by="carl", reason="on with the walk")
            if len(await hub.approvals()) == 2:
                return
            for state in await hub.sessions():
                await held(hub, *shops)
                await hub.close_session(state.id, by="carl")
            for _ in range(2):
                shops.append(Shop())
                await open_waiting_session(hub, shops[-1], "carl", f"s{len(shops)}")

        try:
            shops.append(Shop())
            await record_decided_session(hub, shops[-1])
            await ask()
            async with walking(hub, "ada") as walk:
                await walk.settle(20)
                pressed = await self.explore(walk, ask, name)
            await held(hub, *shops)
        finally:
            await hub.close()
        walked = {screen for screen, _ in pressed}
        here = paths_of(name).keys()
        assert here - NOT_WALKED.keys() - walked == set(), "the walk does not know how to get there"
        assert walked >= WALKED & here
        if name == "live":
            assert pressed >= {("LiveScreen", "mode"), ("LiveScreen", "switch_nets")}
        assert [shop.ran for shop in shops] == [[] for _ in shops]

    async def explore(
        self, walk: Walk, ask: Callable[[], Awaitable[None]], name: str
    ) -> set[tuple[str, str]]:
        """Press each key of each screen once and continue with the screens that appear.

        The walk that begins on the live screen presses the keys that work everywhere.
        """
        paths = paths_of(name)
        known, pressed = set(PATHS), set[tuple[str, str]]()
        todo = list(paths)
        for here in todo:
            await ask()
            if not await walk.reach(here, paths[here]):
                continue
            focused = walk.app.focused
            for key, does in walk.bound():
                if key == "escape" or does in pressed or (name != "live" and does[0] == "everywhere"):
                    continue
                if walk.here != here or walk.app.focused is not focused:
                    await ask()
                    if not await walk.reach(here, paths[here]):
                        break
                    focused = walk.app.focused
                pressed.add(does)
                await walk.press(key)
                there = walk.here
                if there == here:
                    continue
                if there not in known:
                    known.add(there)
                    paths[there] = (*paths[here], key)
                    todo.append(there)
                await walk.press("x", "enter", "y")
        return pressed

    def test_paths_lead_to_every_screen(self) -> None:
        """Each screen has a path or a reason to have none, and the lists name only existing screens."""
        every = all_screens().keys() - BASES
        assert sorted(every - PATHS.keys() - NOT_WALKED.keys()) == [], "the walk does not get there"
        assert every >= NOT_WALKED.keys() | PATHS.keys(), "a screen that is no more"
        assert PATHS.keys() >= WALKED
        taken = sorted(screen for name in WALKS for screen in paths_of(name))
        assert taken == sorted(PATHS), "a path that no walk takes"

    def test_unwalked_screens_have_only_listed_actions(self) -> None:
        """Each screen that the walk may miss declares exactly the actions listed for it."""
        found = all_screens()
        for name, (_, actions) in NOT_WALKED.items():
            declared = found[name].__dict__.get("BINDINGS", [])
            assert {binding.action for binding in declared} == actions, name

    @pytest.mark.slow
    @pytest.mark.parametrize("operator", ["ada", "carl"])
    async def test_random_keys_allow_nothing(
        self, tmp_path: Path, operator: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A hundred and fifty random keys, most of them bound on their screen, run and allow nothing."""
        monkeypatch.chdir(tmp_path)
        hub, shop, chance = Hub.open(tmp_path / "w.db"), Shop(), random.Random(17)
        common = ["y", "x", "enter", "space", "j", "n", "m", "a", "tab", "escape", "ctrl+g", "ctrl+s"]
        try:
            await open_waiting_session(hub, shop, "carl")
            async with walking(hub, operator) as walk:
                for _ in range(150):
                    bound = [key for key, _ in walk.bound()] or common
                    await walk.press(chance.choice(chance.choice([bound, common])))
                await held(hub, shop)
        finally:
            await hub.close()
        assert shop.ran == []


class TestProposal:
    @pytest.mark.slow
    async def test_x_drops_a_proposal(self, tmp_path: Path) -> None:
        """The screen shows a proposal's author, reason and confirmations; `x` drops it."""
        hub, shop = Hub.open(tmp_path / "w.db"), Shop()
        try:
            await open_waiting_session(hub, shop, "carl")
            assert (await hub.set_mode("s1", "shadow", by="ben", reason="too much noise")).ok
            async with walking(hub, "ada", (120, 40)) as walk:
                for _ in range(200):
                    if "ben proposes: shadow mode; confirmed by 1 of 2 (ben): too much" in walk.painted():
                        break
                    await walk.pilot.pause(0.02)
                else:
                    raise AssertionError(walk.painted())
                assert await walk.reach("ProposedChange", ("m",))
                await walk.press("x")
                for _ in range(200):
                    if not (await hub.session("s1")).changes:
                        break
                    await walk.pilot.pause(0.02)
            state = await hub.session("s1")
            assert (state.changes, state.mode) == ({}, "enforce")
            dropped = [e.body for e in await hub.recorded("s1") if isinstance(e.body, ChangeDropped)]
            assert [body.by for body in dropped] == ["ada"]
        finally:
            await hub.close()


class Server:
    """A server with a session that `carl` started from a spec; a deploy waits for two approvers."""

    def __init__(self, served: Served, ran: Path) -> None:
        self.served, self.hub, self.ran = served, served.hub, ran
        self.session = ""
        self.starter: HubStarter
        self.added = 0

    async def begin(self, starter: HubStarter, spec: dict[str, JsonValue]) -> None:
        events = self.hub.subscribe()
        self.starter = starter
        self.session = await starter.start(spec, by="carl")
        await until(events, ApprovalRequested)
        events.close()

    async def held(self) -> None:
        """Assert that nothing ran, no decision allowed a call, and each live session has the rule."""
        assert not self.ran.exists()
        for summary in await self.hub.history():
            for event in await self.hub.recorded(summary.id):
                body = event.body
                assert not (isinstance(body, CallDecided) and body.outcome == "allow"), body
        for state in await self.hub.sessions():
            assert (state.mode, NET in state.active) == ("enforce", True)


AGENT = """
from pathlib import Path
from interlock.engine.agents import Agent, C, ScriptedModel, T, ToolContext, tool

@tool
async def deploy(ctx: ToolContext, env: str = "prod") -> str:
    Path({ran!r}).write_text(env)
    return "deployed"

def make():
    replies = [C(deploy={{"env": "prod"}}) if n % 2 == 0 else T("done") for n in range(200)]
    return Agent(ScriptedModel(replies, name="m"), name="bot", tools=[deploy])
"""
LAX = "block rm\n"
OTHER = "require human-approval before deploy\nblock rm\n"

Attempts = AsyncGenerator[dict[str, JsonValue], None]


@pytest.mark.slow
class TestEveryMethod:
    """Over real sockets, with the token of `ada`; `carl` started the session."""

    async def test_methods_over_the_wire_allow_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One operator's token tries every method of a console's connection in many ways.

        Laxer files replace the rules of the session on the way.
        """
        monkeypatch.chdir(tmp_path)
        ran, rules = tmp_path / "ran", tmp_path / "deploy.rules"
        (tmp_path / "walked_agent.py").write_text(AGENT.format(ran=str(ran)))
        for name in ("server.rules", "deploy.rules"):
            (tmp_path / name).write_text(RULES)
        (tmp_path / "lax.rules").write_text(LAX)
        spec: dict[str, JsonValue] = {
            "agent": "walked_agent:make",
            "import_from": [str(tmp_path)],
            "rules": [str(rules)],
            "task": "ship it",
        }
        methods: dict[str, Method[Any, Any]] = {method.name: method for method in CONSOLE_METHODS}
        assert methods.keys() == ATTEMPTS.keys(), "a method that this walk has no attempts for"
        async with served(tmp_path, server_rules=["server.rules"]) as found:
            server = Server(found, ran)
            starter = cast("HubStarter", found.gateway._starter)
            await server.begin(starter, spec)
            console = found.console()
            await console.open()
            try:
                for files in (RULES, OTHER, LAX):
                    if files != RULES:
                        rules.write_text(files)
                    for name, attempts in ATTEMPTS.items():
                        async for params in attempts(server, spec):
                            asked = methods[name].params.model_validate(params)
                            with suppress(GatewayError, asyncio.TimeoutError):
                                await asyncio.wait_for(console.link.request(methods[name], asked), 5)
                        if name in ("session.send", "session.start", "history.resume"):
                            await asyncio.sleep(0.1)  # time for agents to act on it
                    await server.held()
            finally:
                await console.close()
            made = {
                type(event.body)
                for summary in await found.hub.history()
                for event in await found.hub.recorded(summary.id)
            }
            assert {ChangeProposed, ApprovalGiven, SessionResumed, SessionOpened} <= made
        assert not ran.exists()


async def _requests(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        for digest in (request.digest, "x"):
            for grant in (None, {"scope": "names"}, {"scope": "input", "subagents": True}):
                for edit in (None, {"env": "staging"}, {"env": "prod", "x": 1}, {}):
                    for stop in (False, True):
                        yield {
                            "approval_id": request.id,
                            "approved": True,
                            "digest": digest,
                            "reason": "x",
                            "grant": grant,
                            "input": edit,
                            "stop": stop,
                        }


_KEY: dict[str, JsonValue] = {"credential": "AQ", "client": "AQ"}
_ORIGIN = "https://laptop.example"


async def _key_challenges(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        yield {"approval_id": request.id, "digest": request.digest, "origin": _ORIGIN}


async def _key_starts(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    yield {"origin": _ORIGIN}


async def _new_keys(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    yield {"key": {"id": "k1", "name": "phone", "attestation": "AQ", **_KEY}}


async def _confirmations(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    yield {"key_id": "k1", "code": "1234 5678"}
    yield {"key_id": "k1", "passkey": {"id": "k1", "authenticator": "AQ", "signature": "AQ", **_KEY}}


async def _removals(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    yield {"passkey": "AQ"}


async def _request_ids(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        yield {"approval_id": request.id}


async def _extensions(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        for seconds in (None, 0.05, 1e6):
            yield {"approval_id": request.id, "seconds": seconds}


async def _comments(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        for to in (None, "ben"):
            yield {"approval_id": request.id, "text": "approved by ben", "to": to}


async def _readings(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for request in await server.hub.approvals():
        for reading in (True, False):
            yield {"approval_id": request.id, "reading": reading}


async def _reasons(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for reason in ("", "x"):
        yield {"reason": reason}


async def _live_sessions(server: Server) -> list[str]:
    return [state.id for state in await server.hub.sessions()]


async def _toggles(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        for seconds in (None, 0.05, 600, -1, 1e12):
            for net in (NET, "block-rm"):
                for active in (False, True):
                    off = {"session": session, "net": net, "active": active, "reason": "x"}
                    yield {**off, "seconds": seconds}


async def _modes(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        for seconds in (None, 0.05, 600):
            for mode in ("shadow", "enforce"):
                yield {"session": session, "mode": mode, "reason": "x", "seconds": seconds}


async def _changes(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for state in await server.hub.sessions():
        for change in list(state.changes):
            yield {"session": state.id, "change": change}


async def _sessions(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        yield {"session": session}


async def _sends(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        for mode in ("queue", "steer"):
            yield {"session": session, "text": "deploy to prod", "mode": mode}


async def _starts(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    lax: list[JsonValue] = [str(server.ran.with_name("lax.rules"))]
    for more in (
        {},
        {"rules": lax},
        {"rules": []},
        {"mode": "shadow"},
        {"rules": lax, "active": ["block-rm"]},
    ):
        yield {"spec": {**spec, **more}}


async def _continuations(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for at in (None, 1, 2, 5, 99):
        for nets in ("recorded", "changed"):
            for task in (None, "deploy to prod"):
                yield {"session": server.session, "at": at, "nets": nets, "task": task}


async def _limits(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        yield {"session": session, "max_cost": 100.0, "reason": "x"}


async def _losses(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        yield {"session": session, "reason": "x"}


async def _grants(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    for session in await _live_sessions(server):
        yield {"session": session, "key": "grant-1"}


async def _laxer_rules(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    """Rules for new and live sessions; the last only adds a rule, which one operator may do."""
    server.added += 1
    added = RULES + f"\nblock tool-{server.added}\n"
    for texts in (LAX, OTHER, "", RULES + "\nmap bash.command x as deploy", added):
        for to in ("new", "all"):
            for reason in (None, "x"):
                files: dict[str, JsonValue] = {"server.rules": texts}
                running = (await server.starter.running_rules()).digest
                yield {"files": files, "against": running, "reason": reason, "to": to}
                await server.starter.drop_rules(by="carl")
                await server.held()


async def _single_attempt(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    yield {}


async def _no_attempts(server: Server, spec: dict[str, JsonValue]) -> Attempts:
    """For methods that only read, or only judge recorded calls."""
    return
    yield {}


ATTEMPTS: dict[str, Callable[[Server, dict[str, JsonValue]], Attempts]] = {
    "approval.decide": _requests,
    "approval.reveal": _request_ids,
    "approval.extend": _extensions,
    "approval.take_back": _request_ids,
    "approval.claim": _request_ids,
    "approval.comment": _comments,
    "approval.reading": _readings,
    "approval.unclaim": _request_ids,
    "passkey.challenge": _key_challenges,
    "passkey.begin": _key_starts,
    "passkey.register": _new_keys,
    "passkey.confirm": _confirmations,
    "passkey.remove": _removals,
    "agents.freeze": _reasons,
    "agents.lift": _reasons,
    "grant.revoke": _grants,
    "net.toggle": _toggles,
    "session.set_mode": _modes,
    "change.confirm": _changes,
    "session.raise_limit": _limits,
    "session.accept_loss": _losses,
    "session.compact": _sessions,
    "session.send": _sends,
    "session.start": _starts,
    "session.abort": _sessions,
    "change.drop": _changes,
    "session.end": _sessions,
    "rules.apply": _laxer_rules,
    "rules.drop": _single_attempt,
    "history.resume": _continuations,
    **dict.fromkeys(
        (
            *("sessions.list", "approvals.list", "session.state", "events.subscribe", "call.explain"),
            *("history.sessions", "history.events", "history.origin"),
            *("decisions.scan", "decisions.read", "decisions.event", "decisions.count"),
            *("decisions.shadow", "backtest.run", "backtest.what_if", "approvals.statistics"),
            *("backtest.suggest", "backtest.narrow", "approval.precedents"),
            *("job.next", "job.end", "rules.running", "passkey.list"),
        ),
        _no_attempts,
    ),
}
"""The attempts of one operator for each method, in the most effective order."""


class TestEveryDoor:
    """Keys act through the hub; the walk above tries each of its methods that a console can call."""

    def test_every_changing_hub_method_has_attempts(self) -> None:
        """Each hub method that a console can call and that changes something has attempts above."""
        asked = {name: each.wire_name for name, each in operations(HubApi).items() if each.changes}
        assert {name for name, wired in asked.items() if not wired} == HERE
        assert {name for name in asked.values() if name and ATTEMPTS[name] is _no_attempts} == set()


HERE = {"spawn_in"}
"""Methods without a wire name: the one that runs agents in this process."""
