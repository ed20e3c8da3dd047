"""A console at a server: the same answers and errors as at a local hub."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.agents import AgentError
from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway import RequestFailedError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.client.session_mirror import Mirror
from interlock.engine.gateway.protocol.agent_methods import SessionParams
from interlock.engine.gateway.server import console_handlers, server
from interlock.engine.history.decisions.filter import DecisionFilter
from interlock.engine.history.decisions.reader import Decision
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import SessionNotFound
from interlock.engine.history.model.state import SessionState
from interlock.engine.hub.hub import UnknownSessionError

from ..served import served, until


class TestErrors:
    async def test_errors_equal_the_hubs(self, tmp_path: Path) -> None:
        """A console raises the errors of the hub, with their candidates."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            await client.open("bot", session="abc-1")
            await client.open("bot", session="abc-2")
            for ask in (server.hub.recorded, console.recorded, console.origin):
                with pytest.raises(SessionNotFound, match="abc-1") as ambiguous:
                    await ask("abc")
                assert set(ambiguous.value.candidates) == {"abc-1", "abc-2"}
            for ask in (server.hub.send, console.send):
                with pytest.raises(AgentError, match="external agent"):
                    await ask("abc-1", "hello")
            for ask in (server.hub.explain, console.explain):
                with pytest.raises(LookupError, match="no call"):
                    await ask("abc-1", "none")
            with pytest.raises(UnknownSessionError):
                await console.close_session("none")
            with pytest.raises(RequestFailedError, match="starts no agents"):
                await console.start({})
            assert (await console.recorded("abc-1")) == list(await server.hub.recorded("abc-1"))

    async def test_limit_that_cannot_be_raised_is_an_error(self, tmp_path: Path) -> None:
        """Raising the limit of a remote agent's session fails as at the hub."""
        async with (
            served(tmp_path) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            outcome = await console.raise_limit(gate.id, 5.0, reason="a test")
            assert not outcome.ok
            assert "external agent" in outcome.message


class TestChanges:
    """Changes by operators are listed by kind and by operator."""

    RULES = "require human-approval before deploy within 10m\nblock rm\n"

    async def rows(self, console: ConsoleClient, **wanted: object) -> list[Decision]:
        asked = DecisionFilter.model_validate(wanted)
        found = await console.scan_decisions(asked)
        return [row for part in found.parts for row in await console.read_decisions(asked, part)]

    async def test_changes_have_operator_kind_and_reason(self, tmp_path: Path) -> None:
        """Grants, extensions, switched rules and modes are listed with operator and reason."""
        async with (
            served(tmp_path, rules=self.RULES) as server,
            server.agent_client() as client,
            server.console() as ada,
            server.console(server.ben) as ben,
        ):
            gate = await client.open("bot")
            call = asyncio.ensure_future(gate.call("deploy", {"env": "prod"}, call_id="c1"))
            [request] = await until(ada.approvals)
            assert (await ben.extend(request.id, seconds=1200)).ok
            terms, digest = GrantTerms("names", uses=2), request.digest
            unsaid = await ada.decide(request.id, approved=True, digest=digest, grant=terms)
            assert (unsaid.ok, "say why" in unsaid.message) == (False, True)
            granted = await ada.decide(
                request.id,
                approved=True,
                digest=request.digest,
                grant=GrantTerms("names", uses=2),
                reason="release night",
            )
            assert granted.ok, granted.message
            assert (await asyncio.wait_for(call, 10)).outcome == "allow"
            assert (await ada.toggle_net(gate.id, "block-rm", False, reason="a drill")).ok
            assert (await ben.set_mode(gate.id, "shadow", reason="too much noise")).ok
            assert (await ben.revoke_grant(gate.id, "grant-1")).ok
            every = await self.rows(ada, kinds=("toggle", "mode", "limit", "grant", "rules", "extension"))
            assert [(row.kind, row.by) for row in every[::-1]] == [
                ("extension", "ben"),
                ("grant", "ada"),
                ("toggle", "ada"),
                ("mode", "ben"),
                ("grant", "ben"),
            ]
            words = {row.kind: row.input for row in every}
            assert words["toggle"].endswith(": a drill")
            assert words["mode"].endswith(": too much noise")
            given = await self.rows(ben, kinds=("grant",), people=("ADA",))
            assert [row.input.rpartition(": ")[2] for row in given] == ["release night"]
            assert {row.kind for row in await self.rows(ada, people=("ben",))} == {
                "extension",
                "mode",
                "grant",
            }
            assert every == list(await self.rows(ben, kinds=tuple({row.kind for row in every})))
            event = await ada.decision_event(given[0].session, given[0].seq)
            assert getattr(event.body, "reason", None) == "release night"


class TestLargeSessions:
    async def test_oversized_state_is_built_from_events(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A state that is too large for one answer is built from its events."""
        monkeypatch.setattr(console_handlers, "MOST_STATE", 10_000)
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await asyncio.gather(*(gate.report_message("assistant", "x" * 1000) for _ in range(200)))
            async with server.console() as console:
                assert await console.session(gate.id) == await server.hub.session(gate.id)
                await gate.report_message("assistant", "more")

                async def same() -> bool:
                    return await console.session(gate.id) == await server.hub.session(gate.id)

                await until(same)

    @pytest.mark.slow
    async def test_record_of_several_pages_is_complete(self, tmp_path: Path) -> None:
        """A record of several pages is read completely."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            for _ in range(10):
                await asyncio.gather(
                    *(server.hub.record_message(gate.id, "user", "x" * 300) for _ in range(300))
                )
            async with server.console() as console:
                assert len(await console.recorded(gate.id)) == 3001


class TestTheMirror:
    async def test_late_state_does_not_undo_events(self, tmp_path: Path) -> None:
        """A state that arrives late does not undo later events."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("ls", {})
            events = list(await server.hub.recorded(gate.id))
            mirror = Mirror()
            assert mirror.add(fold(events[:1]))
            assert all(mirror.take(event) for event in events[1:])
            assert mirror.add(fold(events[:2]))
            assert mirror.get(gate.id) == fold(events)

    async def test_events_after_a_gap_wait_for_the_state(self, tmp_path: Path) -> None:
        """Events after a gap wait for the missing state."""
        async with served(tmp_path) as server, server.agent_client() as client:
            gate = await client.open("bot")
            await gate.call("ls", {})
            events = list(await server.hub.recorded(gate.id))
            mirror = Mirror()
            assert mirror.take(events[0])
            assert not mirror.take(events[2])
            assert all(mirror.take(event) for event in events[3:])
            assert mirror.add(fold(events[:2]))
            assert mirror.get(gate.id) == fold(events)


class TestALongQueue:
    """A console that connects while the server returns states slowly."""

    async def test_is_shown_before_it_is_complete(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The console shows the first states at once, and later all of them in the hub's order."""
        room = asyncio.Event()
        asked: list[str] = []
        usual = console_handlers.ConsoleHandlers._session  # pyright: ignore[reportPrivateUsage]

        async def slow(handlers: console_handlers.ConsoleHandlers, wanted: SessionParams) -> SessionState:
            asked.append(wanted.session)
            if len(asked) > 1:
                await room.wait()
            return await usual(handlers, wanted)

        monkeypatch.setattr(console_handlers.ConsoleHandlers, "_session", slow)
        rules = "require human-approval before deploy"
        async with served(tmp_path, rules=rules) as server, server.agent_client() as client:
            gates = [await client.open("bot") for _ in range(3)]
            calls = [asyncio.create_task(gate.call("deploy", {})) for gate in gates]

            async def all_wait() -> bool:
                return len(await server.hub.approvals()) == len(gates)

            await until(all_wait)
            heard: list[bool] = []
            async with asyncio.timeout(4), server.console() as console:
                console.connected = heard.append
                assert [state.id for state in await console.sessions()] == [gates[0].id]
                assert await console.approvals() == await server.hub.approvals()
                assert console.unread() == (2, 0)
                last = asyncio.create_task(console.session(gates[2].id))
                await gates[0].report_message("assistant", "meanwhile")
                room.set()
                assert await last == await server.hub.session(gates[2].id)
                assert await console.sessions() == await server.hub.sessions()
                assert await console.approvals() == await server.hub.approvals()

                async def all_read() -> bool:
                    return heard == [True]

                await until(all_read)
                assert list(dict.fromkeys(asked)) == [gate.id for gate in gates]
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


class TestARevokedConsole:
    async def test_keeps_last_state_and_shows_the_reason(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A revoked console keeps its last state, its actions fail, and it shows the reason."""
        monkeypatch.setattr(server, "LOOK_AGAIN", 0.05)
        async with (
            served(tmp_path, rules="require human-approval before deploy") as gate_server,
            gate_server.agent_client() as client,
            client.session("bot") as gate,
            gate_server.console() as console,
        ):
            going = asyncio.create_task(gate.call("deploy", {}))
            request = (await until(console.approvals))[0]
            gate_server.tokens.revoke("ada")
            trouble = await until(lambda: asyncio.sleep(0, console.trouble))
            assert trouble
            await until(
                lambda: asyncio.sleep(0, "no longer admits this console" in (console.trouble or ""))
            )
            outcome = await console.decide(request.id, approved=True, digest=request.digest)
            assert not outcome.ok
            assert [each.id for each in await console.approvals()] == [request.id]
            assert not going.done()
            await gate_server.hub.decide(request.id, approved=False, by="ben")
            assert (await going).outcome == "block"
