"""Call ids that an external agent reuses (G-76)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.engine.history.model.events import CallDecided, CallResult
from interlock.engine.hub.hub import CallIdUsed, Hub

from ..gateway.served import served, until
from ..support.external_agent import opened, resumed

ONCE = "limit push to 1 per session"
ASK = "require human-approval before deploy"
ID = "robin-1"


async def decided(hub: Hub) -> list[tuple[str, str]]:
    """Return the id and outcome of each recorded decision."""
    bodies = [event.body for event in await hub.recorded(ID)]
    return [(body.call_id, body.outcome) for body in bodies if isinstance(body, CallDecided)]


class TestSameId:
    async def test_without_result_the_answer_is_repeated(self, hub: Hub) -> None:
        """Without a result, the recorded answer is repeated and no limit is used."""
        await opened(hub, ONCE)
        assert (await hub.call(ID, "c7", "push", {})).outcome == "allow"
        again = await hub.call(ID, "c7", "push", {})
        assert (again.outcome, again.repeated) == ("allow", True)
        assert await decided(hub) == [("c7", "allow")]

    async def test_with_result_the_call_is_judged_again(self, hub: Hub) -> None:
        """With a result, the id stands for another call, which is judged again."""
        await opened(hub, ONCE)
        await hub.call(ID, "c7", "push", {})
        await hub.result(ID, "c7", output="done", is_error=False)
        again = await hub.call(ID, "c7", "push", {})
        assert (again.outcome, again.repeated) == ("block", False)
        assert await decided(hub) == [("c7", "allow"), ("c7#2", "block")]
        state = await hub.session(ID)
        assert (state.calls["c7"].status, state.calls["c7#2"].status) == ("done", "blocked")

    async def test_free_id_accepts_another_call(self, hub: Hub) -> None:
        """An id that is free again may be used for another tool and input."""
        await opened(hub, ONCE)
        await hub.call(ID, "c1", "push", {})
        with pytest.raises(CallIdUsed):
            await hub.call(ID, "c1", "test", {})
        await hub.result(ID, "c1", output="done", is_error=True)
        assert (await hub.call(ID, "c1", "test", {"n": 1})).outcome == "allow"
        await hub.result(ID, "c1", output="three", is_error=False)
        assert (await hub.call(ID, "c1", "test", {})).outcome == "allow"
        outputs = {i: call.output for i, call in (await hub.session(ID)).calls.items()}
        assert outputs == {"c1": "done", "c1#2": "three", "c1#3": None}

    async def test_end_of_turn_frees_the_id(self, hub: Hub) -> None:
        """A call whose turn ended without a result also frees its id."""
        await opened(hub, ONCE)
        await hub.call(ID, "c7", "push", {})
        await hub.end_turn(ID)
        assert (await hub.call(ID, "c7", "push", {})).outcome == "block"

    async def test_record_separates_calls_after_resume(self, hub: Hub) -> None:
        """The record keeps the calls apart, also after a resume."""
        await opened(hub, ONCE)
        await hub.call(ID, "c7", "test", {})
        await hub.result(ID, "c7", output="one", is_error=False)
        await hub.call(ID, "c7", "test", {})
        await hub.close_session(ID, by="ada")
        await resumed(hub, rules=ONCE)
        again = await hub.call(ID, "c7", "test", {})
        assert (again.outcome, again.repeated) == ("allow", True)
        await hub.result(ID, "c7", output="two", is_error=False)
        assert (await hub.call(ID, "c7", "test", {})).repeated is False
        assert [i for i, _ in await decided(hub)] == ["c7", "c7#2", "c7#3"]

    async def test_agents_own_suffixed_id_is_separate(self, hub: Hub) -> None:
        """An agent that uses `c7#2` itself does not get the answer of the call recorded under that id."""
        await opened(hub, ONCE)
        await hub.call(ID, "c7", "push", {})
        await hub.result(ID, "c7", output="one", is_error=False)
        await hub.call(ID, "c7", "test", {})
        answer = await hub.call(ID, "c7#2", "test", {})
        assert answer.repeated is False
        assert [i for i, _ in await decided(hub)] == ["c7", "c7#2", "c7#2#2"]

    async def test_simultaneous_result_and_call_reuse_no_answer(self, hub: Hub) -> None:
        """A simultaneous result and call under one id do not reuse the first answer."""
        await opened(hub, ONCE)
        await hub.call(ID, "c7", "push", {})
        _, again = await asyncio.gather(
            hub.result(ID, "c7", output="done", is_error=False), hub.call(ID, "c7", "push", {})
        )
        assert again.outcome == "block"


class TestOverSockets:
    async def test_one_approval_serves_one_run(self, tmp_path: Path) -> None:
        """A second call under an approved id needs its own approval and has its own recorded id."""
        async with (
            served(tmp_path, rules=ASK) as server,
            server.agent_client() as client,
            server.console() as console,
        ):
            gate = await client.open("bot")
            for approved in (True, False):
                call = asyncio.ensure_future(gate.call("deploy", {}, call_id="c1"))
                [asked] = await until(console.approvals)
                await console.decide(asked.id, approved=approved, digest=asked.digest)
                answer = await asyncio.wait_for(call, 10)
                assert answer.outcome == ("allow" if approved else "block")
                if approved:
                    await gate.result("c1", "done")
            [state] = await server.hub.sessions()
            assert set(state.calls) == {"c1", "c1#2"}
            events = await server.hub.recorded(state.id)
            assert [e.body.call_id for e in events if isinstance(e.body, CallResult)] == ["c1"]
