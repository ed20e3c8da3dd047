"""G-67: a session continued at a server is under the server's rules, whatever its record says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from interlock.app.agents.builder import Prepared
from interlock.app.flows.builder import prepare_flow
from interlock.app.flows.spec import FlowSpec
from interlock.app.hosting.server import HubStarter
from interlock.app.sessions.flow_start import start_flow
from interlock.app.sessions.start import Note, start
from interlock.engine.gateway.client.connection import GatewayError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.history.model.events import ApprovalRequested, SessionResumed
from interlock.engine.hub.hub import Hub

from ...engine.support.shop import until
from ..flows.shipping import MODULE
from .seats import served

GUARDED = "require 2 human-approvals before deploy risk high no grants\nblock rm\n"
TALKER = """
from interlock.engine.agents import Agent, ScriptedModel, T

def make():
    return Agent(ScriptedModel([T("One.")], name="m"), name="talker")
"""
NETS = {"approve-before-deploy", "block-rm"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talker.py").write_text(TALKER)
    (tmp_path / "server.rules").write_text(GUARDED)
    (tmp_path / "plain.rules").write_text("block mkfs\n")
    return tmp_path


@asynccontextmanager
async def served_with_rules(here: Path) -> AsyncGenerator[tuple[Hub, ConsoleClient]]:
    """A server with rules, and the console of `ada`."""
    async with served(here, server_rules=["server.rules"]) as server:
        console = server.console()
        await console.open()
        try:
            yield server.hub, console
        finally:
            await console.close()


def agent(here: Path) -> dict[str, JsonValue]:
    """Return the spec of an agent that sends one message."""
    return {"agent": "talker:make", "import_from": [str(here)], "task": "x"}


async def run_session(here: Path, **spec: JsonValue) -> str:
    """Run a session, started by `ada` from `spec`, on a server without rules; return its id."""
    async with served(here) as server:
        console = server.console()
        await console.open()
        plain: list[JsonValue] = [str(here / "plain.rules")]
        session = await console.start({**agent(here), "rules": plain, **spec})
        await server.hub.wait(session)
        await console.close()
    return session


class TestShadowMode:
    """A session that began in shadow mode, as its own rules allowed."""

    @pytest.mark.parametrize("at", [None, 1])
    async def test_shadow_session_cannot_continue(self, here: Path, at: int | None) -> None:
        """A shadow session and its branch cannot continue: the server's rules must not be disabled."""
        session = await run_session(here, mode="shadow")
        async with served_with_rules(here) as (hub, console):
            with pytest.raises(GatewayError, match="approve-before-deploy of this host"):
                await console.resume(session, at=at)
            assert await hub.sessions() == []

    async def test_shadow_session_with_the_same_rules_cannot_continue(self, here: Path) -> None:
        """A shadow session is also refused if it was recorded under the same rules."""
        session = await run_session(here, mode="shadow", rules=[str(here / "server.rules")])
        async with served_with_rules(here) as (hub, console):
            with pytest.raises(GatewayError, match="shadow mode"):
                await console.resume(session)
            assert await hub.sessions() == []


class TestSwitchedOff:
    @pytest.mark.slow
    async def test_inactive_recorded_rules_become_active(self, here: Path) -> None:
        """Rules of the server that were inactive in the record become active."""
        rules: list[JsonValue] = [str(here / name) for name in ("server.rules", "plain.rules")]
        session = await run_session(here, rules=rules, active=["block-mkfs"])
        async with served_with_rules(here) as (hub, console):
            await console.resume(session)
            assert set((await hub.session(session)).active) == {*NETS, "block-mkfs"}
            branch = await console.resume(session, at=1)
            assert set((await hub.session(branch)).active) == {*NETS, "block-mkfs"}

    @pytest.mark.slow
    async def test_net_that_now_requires_several_operators_is_on(self, here: Path) -> None:
        """A net that one operator switched off is on again if its rule now requires several."""
        (here / "server.rules").write_text("require human-approval before deploy\n")
        session = await self.run_with_net_off(here, "approve-before-deploy")
        (here / "server.rules").write_text("require human-approval before deploy no grants\n")
        async with served_with_rules(here) as (hub, console):
            await console.resume(session)
            assert (await hub.session(session)).active == ["approve-before-deploy"]

    async def test_net_switched_off_by_an_operator_stays_off(self, here: Path) -> None:
        """A net that an operator switched off with a reason stays off, because the server allows this."""
        session = await self.run_with_net_off(here, "block-rm")
        async with served_with_rules(here) as (hub, console):
            await console.resume(session)
            assert (await hub.session(session)).active == ["approve-before-deploy"]

    async def run_with_net_off(self, here: Path, net: str) -> str:
        """Run a session in which `ada` switches a net off; return its id."""
        async with served_with_rules(here) as (hub, console):
            session = await console.start(agent(here))
            await hub.wait(session)
            done = await console.toggle_net(session, net, active=False, reason="a clean-up")
            assert done.ok, done.message
        return session


class TestFlow:
    """A flow run that began in the same journal without the server's rules."""

    async def start_waiting_flow(self, here: Path, rules: str) -> str:
        """Start a run that waits for the approval of its `deploy`; return its id."""
        (here / "ship.py").write_text(MODULE)
        (here / "flow.rules").write_text(rules)
        spec = FlowSpec(flow="ship:Ship", rules=(here / "flow.rules",), workdir=here, import_from=(here,))
        hub = Hub.open(here / "interlock.db")
        events = hub.subscribe()
        prepared = prepare_flow(spec)
        value = prepared.graph.takes.type.model_validate({"sha": "abc"})
        session = await start_flow(hub, prepared, value, "ada")
        await until(events, ApprovalRequested)
        await hub.close()
        return session

    async def test_run_passes_the_servers_nets(self, here: Path) -> None:
        """The run's calls pass the server's nets and its own."""
        session = await self.start_waiting_flow(here, "require human-approval before deploy\n")
        async with served_with_rules(here) as (hub, console):
            with pytest.raises(GatewayError, match="do not match"):
                await console.resume(session)
            await console.resume(session, nets="changed", reason="the server's rules")
            state = await hub.session(session)
            assert set(state.active) == {*NETS, "approve-before-deploy#2"}
            assert state.nets["approve-before-deploy"].net.people == 2

    @pytest.mark.slow
    async def test_record_names_who_replaced_the_rules(self, here: Path) -> None:
        """The record says who replaced the server's rules; a running run keeps its rules."""
        session = await self.start_waiting_flow(here, "require human-approval before deploy\n")
        async with served_with_rules(here) as (hub, console):
            running = await console.running_rules()
            added = {"server.rules": GUARDED + "block mkfs\n"}
            assert (await console.apply_rules(added, by="", against=running.digest)).ok
            await console.resume(session, nets="changed", reason="the server's rules")
            resumed = [e.body for e in await hub.recorded(session) if isinstance(e.body, SessionResumed)]
            assert resumed[0].applied is not None
            assert resumed[0].applied.by == "ada"
            running = await console.running_rules()
            more = {"server.rules": GUARDED + "block mkfs\nblock push\n"}
            outcome = await console.apply_rules(more, by="", against=running.digest, to="all")
            assert f"{session} keeps its rules: a run of a flow keeps" in outcome.message
            assert "block-push" not in (await hub.session(session)).nets

    @pytest.mark.slow
    async def test_rules_that_weaken_the_servers_are_refused(self, here: Path) -> None:
        """A run whose own rules take calls from a server's rule is refused."""
        session = await self.start_waiting_flow(here, "require human-approval before deploy\n")
        (here / "server.rules").write_text("require 2 human-approvals before anything-else\n")
        async with served_with_rules(here) as (hub, console):
            with pytest.raises(
                GatewayError, match="take calls from the server's own: approve-before-dep"
            ):
                await console.resume(session)
            assert await hub.sessions() == []


class TestLive:
    """Server rules that replace others in a live session, beside the session's own."""

    async def test_own_rules_are_kept(self, here: Path) -> None:
        """A session keeps its own rules as they were at its start, even if the file changes."""
        own = here / "plain.rules"
        async with served_with_rules(here) as (hub, console):
            session = await console.start({**agent(here), "rules": [str(own)]})
            await hub.wait(session)
            own.write_text("block nothing-much\n")
            running = await console.running_rules()
            files = {"server.rules": GUARDED + "block push\n"}
            outcome = await console.apply_rules(files, by="", against=running.digest, to="all")
            assert "1 live session is under them." in outcome.message
            state = await hub.session(session)
            assert set(state.active) == {*NETS, "block-push", "block-mkfs"}
            assert state.source is not None
            assert state.source["rules"] == [str(here / "server.rules"), str(own)]

    @pytest.mark.slow
    async def test_own_rules_in_conflict_keep_the_old_rules(self, here: Path) -> None:
        """A session whose own rules would take calls from the new server rules keeps its old rules."""
        (here / "plain.rules").write_text("limit mkfs to 9 per session\n")
        async with served_with_rules(here) as (hub, console):
            session = await console.start({**agent(here), "rules": [str(here / "plain.rules")]})
            await hub.wait(session)
            running = await console.running_rules()
            rule = "require human-approval before anything-else no grants\n"
            files = {"server.rules": GUARDED + rule}
            outcome = await console.apply_rules(files, by="", against=running.digest, to="all")
            assert f"{session} keeps its rules" in outcome.message
            assert "take calls from the server's own" in outcome.message
            assert "approve-before-anything-else" not in (await hub.session(session)).nets

    async def test_session_started_during_a_replacement_has_the_new_rules(
        self, here: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A session prepared under the old rules and started after the change is under the new rules."""
        async with served(here, server_rules=["server.rules"]) as server:
            starter = cast("HubStarter", server.gateway._starter)
            digest = (await starter.running_rules()).digest
            prepared, go_on = asyncio.Event(), asyncio.Event()

            async def slow(hub: Hub, found: Prepared, by: str, note: Note) -> str:
                prepared.set()
                await go_on.wait()
                return await start(hub, found, by, note)

            monkeypatch.setattr("interlock.app.hosting.server.start", slow)
            spec = {**agent(here), "rules": [str(here / "plain.rules")]}
            starting = asyncio.create_task(starter.start(spec, by="ada"))
            await prepared.wait()
            files = {"server.rules": GUARDED + "block push\n"}
            outcome = await starter.apply_rules(files, by="ada", against=digest, to="all")
            assert outcome.ok
            go_on.set()
            session = await starting
            assert "block-push" in (await server.hub.session(session)).active
