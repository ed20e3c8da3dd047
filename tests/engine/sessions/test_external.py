"""External agents: the complete life of their calls through the hub's public methods."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.engine.agents import Agent, ScriptedModel
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.journal.journal import Journal, JournalError
from interlock.engine.history.model.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CallDecided,
    CallResult,
    CallWaits,
    MessageAdded,
    SessionOpened,
    SessionResumed,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.hub import (
    CallAnswer,
    CallIdUsed,
    CallWithdrawn,
    ExternalSessionError,
    Hub,
    ResultRefusedError,
    ResumeError,
    UnknownCallError,
    UnknownSessionError,
)
from interlock.engine.sessions.config import SessionConfig

from ..support.external_agent import AGENT, NETS, check_fold, opened, ran, recorded, resumed
from ..support.shop import until


async def asking(hub: Hub, call_id: str = "d1", tool: str = "deploy") -> asyncio.Task[CallAnswer]:
    """Make a call that waits for approval."""
    heard = hub.subscribe()
    task = asyncio.ensure_future(hub.call("robin-1", call_id, tool, {"env": "prod"}))
    await until(heard, ApprovalRequested)
    heard.close()
    return task


async def question(hub: Hub) -> ApprovalState:
    [request] = await hub.approvals()
    return request


class TestSession:
    async def test_opening_names_agent_origin_and_nets(self, hub: Hub) -> None:
        """The opening event names the agent, its origin and its nets."""
        session = await opened(hub)
        [opening] = recorded(hub.database, SessionOpened)
        assert (session, opening.kind, opening.agent, opening.model) == (
            "robin-1",
            "outside",
            "robin",
            "",
        )
        assert (opening.tools, opening.workdir, opening.opened_by) == (AGENT.tools, "/srv/shop", "ada")
        assert set(opening.active) == set(NETS)
        assert [s.id for s in await hub.sessions()] == ["robin-1"]
        assert (await hub.session("robin-1")).kind == "outside"

    async def test_id_in_use_is_refused(self, hub: Hub) -> None:
        """A second session with the same id is refused, and the first continues."""
        await opened(hub)
        with pytest.raises(JournalError, match="live here"):
            await opened(hub)
        assert (await hub.call("robin-1", "t", "test", {})).outcome == "allow"

    async def test_reported_messages_are_in_the_transcript(self, hub: Hub) -> None:
        """Reported messages appear in the transcript; lone surrogates are replaced."""
        await opened(hub)
        await hub.record_message("robin-1", "user", "ship it")
        await hub.record_message("robin-1", "assistant", "testing \udc00 first")
        await hub.record_message("robin-1", "assistant", "  ")
        entries = (await hub.session("robin-1")).transcript
        assert [(e.kind, e.text) for e in entries] == [
            ("user", "ship it"),
            ("assistant", "testing ? first"),
        ]
        await check_fold(hub)

    async def test_loop_operations_are_refused(self, hub: Hub) -> None:
        """Operations that need a loop of Interlock are refused with the reason."""
        await opened(hub)
        for asked in (hub.send("robin-1", "hi"), hub.compact("robin-1", by="ada"), hub.wait("robin-1")):
            with pytest.raises(ExternalSessionError, match="external agent"):
                await asked

    async def test_hosted_session_refuses_external_calls(self, hub: Hub) -> None:
        """A session with its own loop accepts no external calls or results."""
        agent = Agent(ScriptedModel([]), name="bot")
        session = await hub.open_session(agent, SessionConfig(NETS))
        with pytest.raises(UnknownSessionError, match="its own loop"):
            await hub.call(session, "t", "test", {})
        with pytest.raises(UnknownSessionError):
            await hub.result(session, "t", output="", is_error=False)

    async def test_hub_describes_nets_and_explains_calls(self, hub: Hub) -> None:
        """G-24: the hub describes the nets for a system prompt and explains a call that was not made."""
        await opened(hub)
        assert "deploy" in await hub.system_prompt("robin-1")
        assert (await hub.explain_input("robin-1", "rm", {})).outcome == "block"
        assert (await hub.session("robin-1")).calls == {}


class TestCall:
    async def test_allowed_blocked_and_settled(self, hub: Hub) -> None:
        """The nets decide calls, and results move them: deploy requires a successful test."""
        await opened(hub, "require test before deploy\nblock rm")
        blocked = await hub.call("robin-1", "r", "rm", {})
        assert (blocked.outcome, blocked.mode, blocked.would) == ("block", "enforce", None)
        assert blocked.reason
        assert (await hub.call("robin-1", "d0", "deploy", {})).outcome == "block"
        await ran(hub, "robin-1", "t1", "test", failed=True)
        assert (await hub.call("robin-1", "d1", "deploy", {})).outcome == "block"
        await ran(hub, "robin-1", "t2", "test")
        assert (await hub.call("robin-1", "d2", "deploy", {})).outcome == "allow"
        await check_fold(hub)

    async def test_decision_is_durable_before_the_answer(self, hub: Hub) -> None:
        """A decision is in the file before its answer is given."""
        await opened(hub)
        await hub.call("robin-1", "t", "test", {"fast": True})
        with closing(sqlite3.connect(hub.database)) as connection:
            rows = connection.execute("select type from event order by seq").fetchall()
        assert [kind for (kind,) in rows] == ["session.opened", "message", "call.decided"]

    async def test_waits_for_approval(self, hub: Hub) -> None:
        """An approved call is answered, and the record has its approver."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        request = await question(hub)
        assert (request.agent, request.tool, request.input) == ("robin", "deploy", {"env": "prod"})
        assert (await hub.decide(request.id, approved=True, by="mia", digest=request.digest)).ok
        assert (await asked).outcome == "allow"
        assert recorded(hub.database, CallDecided)[-1].approved_by == ("mia",)
        await check_fold(hub)

    async def test_denial_has_a_reason(self, hub: Hub) -> None:
        """The answer contains the reason of the denial."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        await hub.decide((await question(hub)).id, approved=False, by="mia", reason="not on Friday")
        assert (await asked).reason == "deploy was rejected by human review: not on Friday"

    async def test_edited_input_is_the_one_to_run(self, hub: Hub) -> None:
        """The answer contains the edited input and says so, also when the call is repeated."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        await hub.decide((await question(hub)).id, approved=True, by="mia", input={"env": "lab"})
        answer = await asked
        assert (answer.outcome, answer.input, answer.edited) == ("allow", {"env": "lab"}, True)
        again = await hub.call("robin-1", "d1", "deploy", {"env": "prod"})
        assert again == answer.model_copy(update={"repeated": True})
        with pytest.raises(CallIdUsed):
            await hub.call("robin-1", "d1", "deploy", {"env": "lab"})

    async def test_two_other_operators_must_approve(self, hub: Hub) -> None:
        """Two different operators must approve, and the one who started the session does not count."""
        await opened(hub, "require 2 human-approvals before deploy")
        asked = await asking(hub)
        request = await question(hub)
        outcomes = [
            await hub.decide(request.id, approved=True, by=by) for by in ("ada", "mia", "mia", "ben")
        ]
        assert [o.ok for o in outcomes] == [False, True, False, True]
        assert (await asked).outcome == "allow"

    async def test_grants_and_limits(self, hub: Hub) -> None:
        """A grant allows the next call without a request, but the limit still applies."""
        await opened(hub, "require human-approval before deploy\nlimit deploy to 2 per session")
        asked = await asking(hub)
        await hub.decide(
            (await question(hub)).id, approved=True, by="mia", grant=GrantTerms("names"), reason="often"
        )
        assert (await asked).outcome == "allow"
        assert (await hub.call("robin-1", "d2", "deploy", {"env": "prod"})).outcome == "allow"
        third = await hub.call("robin-1", "d3", "deploy", {})
        assert third.outcome == "block"
        await check_fold(hub)

    async def test_expired_request_blocks_the_call(self, tmp_path: Path) -> None:
        """A request that expires blocks the call."""
        hour = timedelta(hours=1)
        times = [datetime(2026, 1, 1, tzinfo=UTC)]
        hub = Hub(Journal.open(tmp_path / "timed.db", clock=lambda: times[0]))
        await opened(hub, "require human-approval before deploy within 1h")
        asked = await asking(hub)
        times[0] += hour
        hosted = hub._live.hosted("robin-1")
        [waits] = hosted.questions.table.open.values()
        await hosted.questions.deadlines.expire(waits)
        assert (await asked).outcome == "block"
        await hub.close()

    async def test_shadow_mode_allows_with_enforced_outcome(self, hub: Hub) -> None:
        """G-57: in shadow mode all calls are allowed, and the answer has enforce mode's outcome."""
        await opened(hub, mode="shadow")
        found = {tool: await hub.call("robin-1", tool, tool, {}) for tool in ("test", "deploy", "rm")}
        assert {t: (a.outcome, a.mode, a.would) for t, a in found.items()} == {
            "test": ("allow", "shadow", "allow"),
            "deploy": ("allow", "shadow", "block"),
            "rm": ("allow", "shadow", "block"),
        }
        assert (await hub.call("robin-1", "rm", "rm", {})).would == "block"
        assert await hub.approvals() == []
        await check_fold(hub)

    async def test_switched_off_net_requests_waiting_call_again(self, hub: Hub) -> None:
        """G-67: switching the net off does not allow a waiting call; it is requested again."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        [first] = await hub.approvals()
        heard = hub.subscribe()
        await hub.toggle_net("robin-1", "approve-before-deploy", False, by="mia", reason="a test")
        await until(heard, ApprovalRequested)
        [again] = await hub.approvals()
        assert (again.call_id, asked.done()) == (first.call_id, False)
        assert (await hub.decide(again.id, approved=True, by="ada")).ok
        assert (await asked).outcome == "allow"
        await check_fold(hub)

    async def test_non_json_input_is_refused(self, hub: Hub) -> None:
        """Input that the record cannot hold is refused, and the session continues."""
        await opened(hub)
        with pytest.raises(ValueError, match="valid"):
            await hub.call("robin-1", "o", "test", {"what": object()})  # type: ignore[dict-item]
        with pytest.raises(JournalError, match="cannot be stored"):
            await hub.call("robin-1", "s", "test", {"text": "\udc00"})
        with pytest.raises(ValueError, match="needs an id"):
            await hub.call("robin-1", "", "test", {})
        assert (await hub.call("robin-1", "t", "test", {})).outcome == "allow"
        assert (await hub.call("robin-1", "s", "test", {"text": "fine"})).outcome == "allow"
        await check_fold(hub)

    async def test_later_input_changes_have_no_effect(self, hub: Hub) -> None:
        """Later changes to the given input or to the answer do not change what was judged."""
        await opened(hub)
        given = {"env": ["lab"]}
        asked = asyncio.ensure_future(hub.call("robin-1", "t", "test", given))
        await asyncio.sleep(0)
        given["env"].append("prod")
        answer = await asked
        answer.input["env"] = "prod"
        assert (await hub.call("robin-1", "t", "test", {"env": ["lab"]})).input == {"env": ["lab"]}


class TestSameId:
    async def test_shares_the_waiting_request(self, hub: Hub) -> None:
        """A repetition of a waiting call shares its request and its answer."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        first = await asking(hub)
        second = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
        await asyncio.sleep(0)
        await hub.decide((await question(hub)).id, approved=True, by="mia")
        assert [(await first).repeated, (await second).repeated] == [False, True]
        assert len(recorded(hub.database, CallDecided)) == 2
        assert len(recorded(hub.database, ApprovalRequested)) == 1

    async def test_lost_connection_withdraws_nothing(self, hub: Hub) -> None:
        """A lost connection withdraws nothing: the repeated call gets the answer."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        (await asking(hub)).cancel()
        request = await question(hub)
        again = asyncio.ensure_future(hub.call("robin-1", "d1", "deploy", {"env": "prod"}))
        await asyncio.sleep(0)
        await hub.decide(request.id, approved=True, by="mia")
        assert (await again).outcome == "allow"

    async def test_gets_the_same_answer(self, hub: Hub) -> None:
        """A repeated call uses the limit only once."""
        await opened(hub, "limit deploy to 1 per session")
        answers = [await hub.call("robin-1", "d", "deploy", {}) for _ in range(3)]
        assert [(a.outcome, a.repeated) for a in answers] == [
            ("allow", False),
            ("allow", True),
            ("allow", True),
        ]
        assert (await hub.call("robin-1", "d2", "deploy", {})).outcome == "block"
        assert (await hub.call("robin-1", "d2", "deploy", {})).repeated
        await check_fold(hub)

    @pytest.mark.parametrize(
        ("tool", "arguments"), [("deploy", {"n": 1}), ("test", {"n": 1.0}), ("test", {"n": True})]
    )
    async def test_other_tool_or_input_is_refused(
        self, hub: Hub, tool: str, arguments: dict[str, object]
    ) -> None:
        """Another tool or input under a used id is refused, also while the first call waits."""
        await opened(hub, "require human-approval before slow")
        await hub.call("robin-1", "t", "test", {"n": 1})
        with pytest.raises(CallIdUsed, match="another call 't'"):
            await hub.call("robin-1", "t", tool, arguments)
        waiting = await asking(hub, "s", "slow")
        with pytest.raises(CallIdUsed):
            await hub.call("robin-1", "s", "slow", {"env": "lab"})
        await hub.withdraw_call("robin-1", "s", "enough")
        with pytest.raises(CallWithdrawn):
            await waiting

    async def test_restart_repeats_recorded_decisions(self, hub: Hub, tmp_path: Path) -> None:
        """After a restart, recorded decisions are repeated, and undecided calls are judged."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        first = await hub.call("robin-1", "t2", "test", {})
        waiting = await asking(hub)
        copy = tmp_path / "died.db"
        snapshot(hub.database, copy)
        await hub.close()
        with pytest.raises(UnknownSessionError):
            await waiting
        later = Hub.open(copy)
        await resumed(later)
        repeated = first.model_copy(update={"repeated": True})
        assert await later.call("robin-1", "t2", "test", {}) == repeated
        with pytest.raises(CallIdUsed):
            await later.call("robin-1", "d1", "deploy", {"env": "lab"})
        again = await asking(later)
        await later.decide((await question(later)).id, approved=True, by="mia")
        assert (await again).outcome == "allow"
        assert [d.call_id for d in recorded(copy, CallDecided)] == ["t", "t2", "d1"]
        await check_fold(later)
        await later.close()


def snapshot(database: Path, to: Path) -> None:
    """Copy the durable state, as a crash would leave it."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


class TestResult:
    async def test_is_accepted_for_allowed_calls_only(self, hub: Hub) -> None:
        """A result of a blocked, waiting or unknown call is refused."""
        await opened(hub)
        await hub.call("robin-1", "r", "rm", {})
        await ran(hub, "robin-1", "t", "test")
        waiting = await asking(hub)
        for call_id in ("r", "d1"):
            with pytest.raises(ResultRefusedError, match="not allowed"):
                await hub.result("robin-1", call_id, output="ok", is_error=False)
        with pytest.raises(UnknownCallError):
            await hub.result("robin-1", "x", output="ok", is_error=False)
        waiting.cancel()
        results = recorded(hub.database, CallResult)
        assert [r.call_id for r in results if r.anomaly is None] == ["t"]
        # The result of an unknown call is recorded as an anomaly and settles nothing.
        assert [r.call_id for r in results if r.anomaly is not None] == ["x"]

    async def test_differing_second_result_is_refused(self, hub: Hub) -> None:
        """A repeated result changes nothing, and a different one is refused, also at the same moment."""
        await opened(hub, "require test before deploy\nlimit deploy to 1 per test")
        await hub.call("robin-1", "t", "test", {})

        async def told(output: str, is_error: bool = False) -> str:
            try:
                await hub.result("robin-1", "t", output=output, is_error=is_error)
            except ResultRefusedError:
                return "refused"
            return "taken"

        at_once = await asyncio.gather(told("ok"), told("ok"), told("other"), told("ok", True))
        assert at_once == ["taken", "taken", "refused", "refused"]
        assert [await told("ok"), await told("other"), await told("ok", True)] == [
            "taken",
            "refused",
            "refused",
        ]
        assert [r.output for r in recorded(hub.database, CallResult)] == ["ok"]
        await check_fold(hub)

    async def test_has_the_duration(self, tmp_path: Path) -> None:
        """The duration is the agent's, or else the time since the decision."""
        times = [datetime(2026, 1, 1, tzinfo=UTC)]
        hub = Hub(Journal.open(tmp_path / "timed.db", clock=lambda: times[0]))
        await opened(hub)
        await ran(hub, "robin-1", "t1", "test")
        await hub.call("robin-1", "t2", "test", {})
        times[0] += timedelta(seconds=7)
        await hub.result("robin-1", "t2", output="ok", is_error=False)
        assert [r.seconds for r in recorded(hub.database, CallResult)] == [1.0, 7.0]
        await hub.close()


class TestWithdrawal:
    async def test_takes_the_request_from_the_queue(self, hub: Hub) -> None:
        """The record says why the request was withdrawn, and a later answer is refused."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        request = await question(hub)
        await hub.withdraw_call("robin-1", "d1", "the user pressed escape")
        with pytest.raises(CallWithdrawn, match="the user pressed escape"):
            await asked
        assert await hub.approvals() == []
        assert [w.approval_id for w in recorded(hub.database, ApprovalWithdrawn)] == [request.id]
        assert not (await hub.decide(request.id, approved=True, by="mia")).ok
        assert (await hub.session("robin-1")).calls["d1"].status == "skipped"
        last = recorded(hub.database, MessageAdded)[-1]
        assert (last.call_id, last.text) == (
            "d1",
            "Tool call not executed: the user pressed escape",
        )
        await check_fold(hub)

    async def test_withdrawn_call_is_requested_again(self, hub: Hub) -> None:
        """A withdrawn call was not decided: made again, it is requested again."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        first = await asking(hub)
        await hub.withdraw_call("robin-1", "d1", "timeout")
        second = await asking(hub)
        await hub.decide((await question(hub)).id, approved=True, by="mia")
        assert (await second).outcome == "allow"
        with pytest.raises(CallWithdrawn):
            await first
        await check_fold(hub)

    async def test_changes_no_decision(self, hub: Hub) -> None:
        """Withdrawing a decided call changes nothing; an unknown id is refused."""
        await opened(hub)
        await hub.call("robin-1", "t", "test", {})
        await hub.withdraw_call("robin-1", "t", "timeout")
        assert (await hub.call("robin-1", "t", "test", {})).outcome == "allow"
        with pytest.raises(UnknownCallError):
            await hub.withdraw_call("robin-1", "x", "timeout")

    async def test_immediate_withdrawal_skips_the_call(self, hub: Hub) -> None:
        """A call withdrawn right after it was made is skipped and never requested."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        for turns in range(12):
            call_id = f"d{turns}"
            asked = asyncio.ensure_future(hub.call("robin-1", call_id, "deploy", {}))
            for _ in range(turns + 1):
                await asyncio.sleep(0)
            await hub.withdraw_call("robin-1", call_id, "timeout")
            with pytest.raises(CallIdUsed):
                await hub.call("robin-1", call_id, "deploy", {"env": "prod"})
            with pytest.raises(CallWithdrawn):
                await asked
        assert await hub.approvals() == []
        assert {call.status for i, call in (await hub.session("robin-1")).calls.items() if i != "t"} == {
            "skipped"
        }
        assert len(recorded(hub.database, CallDecided)) == 1
        await check_fold(hub)


class TestStop:
    async def test_blocks_waiting_calls(self, hub: Hub) -> None:
        """Stopping permanently blocks the waiting calls and no others."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        await hub.abort("robin-1", "stopped by mia")
        answer = await asked
        assert answer.outcome == "block"
        assert "stopped by mia" in (answer.reason or "")
        assert await hub.approvals() == []
        assert (await hub.call("robin-1", "d1", "deploy", {"env": "prod"})).repeated
        assert (await hub.call("robin-1", "t2", "test", {})).outcome == "allow"
        await check_fold(hub)

    async def test_blocks_calls_not_yet_repeated(self, hub: Hub, tmp_path: Path) -> None:
        """Stopping blocks calls whose host died while they waited, before they are made again."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        await asking(hub)
        copy = tmp_path / "died.db"
        snapshot(hub.database, copy)
        later = Hub.open(copy)
        await resumed(later)
        await later.abort("robin-1", "enough", by="mia")
        assert [each.call_id for each in recorded(copy, CallDecided)] == ["t", "d1"]
        answer = await later.call("robin-1", "d1", "deploy", {"env": "prod"})
        assert (answer.outcome, answer.repeated) == ("block", True)
        assert "stopped by mia: enough" in (answer.reason or "")
        assert await later.approvals() == []
        await check_fold(later)
        await later.close()

    async def test_denial_with_stop_denies_other_waiting_calls(self, hub: Hub) -> None:
        """Denying one call with a stop also denies the other waiting calls."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        # One success of `test` allows one deploy: the second call waits for the first (G-68).
        heard = hub.subscribe()
        both = [await asking(hub, "d1"), asyncio.ensure_future(hub.call("robin-1", "d2", "deploy", {}))]
        await until(heard, CallWaits)
        first = await question(hub)
        outcome = await hub.decide(first.id, approved=False, by="mia", reason="no", stop=True)
        assert outcome.ok, outcome
        assert [(await each).outcome for each in both] == ["block", "block"]

    async def test_closing_ends_waiting_callers(self, hub: Hub) -> None:
        """A waiting caller gets an error, the request is withdrawn and later calls are refused."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        await hub.close_session("robin-1", by="mia")
        with pytest.raises(UnknownSessionError, match="must not run"):
            await asked
        with pytest.raises(UnknownSessionError):
            await hub.call("robin-1", "t", "test", {})
        assert len(recorded(hub.database, ApprovalWithdrawn)) == 1
        assert [s.status for s in await hub.history()] == ["done"]
        await resumed(hub)
        assert not (await hub.call("robin-1", "t", "test", {})).repeated


class TestResume:
    async def test_a_late_result_counts(self, hub: Hub) -> None:
        """After a restart, a call without a result is unknown but pending; a late result settles it."""
        await opened(hub)
        await hub.call("robin-1", "t", "test", {})
        await hub.close_session("robin-1", by="ada")
        await resumed(hub)
        state = await hub.session("robin-1")
        assert state.calls["t"].status == "unknown"
        assert [p.call_id for p in state.pending] == ["t"]
        assert (await hub.call("robin-1", "d0", "deploy", {})).outcome == "block"
        await check_fold(hub)
        await hub.result("robin-1", "t", output="test ok", is_error=False)
        await hub.result("robin-1", "t", output="test ok", is_error=False)
        assert (await hub.session("robin-1")).calls["t"].status == "done"
        assert len(recorded(hub.database, CallResult)) == 1
        await asking(hub)
        await check_fold(hub)

    async def test_dropped_net_loses_pending_results(self, hub: Hub) -> None:
        """A net that was dropped loses its pending results; a late result does not move a net twice."""
        await opened(hub, "require test before deploy\nrequire test before ship")
        await hub.call("robin-1", "t", "test", {})
        await hub.close_session("robin-1", by="ada")
        with pytest.raises(ResumeError, match="missing"):
            await resumed(hub, rules="require test before ship")
        await resumed(hub, rules="require test before ship", nets="changed")
        await check_fold(hub)
        await hub.result("robin-1", "t", output="ok", is_error=False)
        state = await hub.session("robin-1")
        assert (state.calls["t"].status, state.pending) == ("done", [])
        assert [r.unknown for r in recorded(hub.database, CallResult)] == [True, False]
        assert (await hub.call("robin-1", "s", "ship", {})).outcome == "allow"
        await check_fold(hub)

    async def test_recorded_denial_blocks_repeated_call(self, hub: Hub, tmp_path: Path) -> None:
        """A denial recorded before the host died blocks the call when it is made again."""
        await opened(hub)
        await ran(hub, "robin-1", "t", "test")
        asked = await asking(hub)
        await hub.decide((await question(hub)).id, approved=False, by="mia", reason="no")
        await asked
        copy = tmp_path / "died.db"
        snapshot(hub.database, copy)
        forget_last(copy, "call.decided")
        later = Hub.open(copy)
        await resumed(later)
        answer = await later.call("robin-1", "d1", "deploy", {"env": "prod"})
        assert (answer.outcome, answer.repeated) == ("block", True)
        assert answer.reason == "deploy was rejected by human review: no"
        await check_fold(later)
        await later.close()

    async def test_keeps_grants_and_switches(self, hub: Hub) -> None:
        """A resumed session has the markings, grants, switches and mode of its record."""
        await opened(hub, "require human-approval before deploy\nblock rm")
        asked = await asking(hub)
        await hub.decide(
            (await question(hub)).id, approved=True, by="mia", grant=GrantTerms("names"), reason="often"
        )
        await asked
        await hub.toggle_net("robin-1", "block-rm", False, by="mia", reason="a test")
        await hub.close_session("robin-1", by="ada")
        await resumed(hub, rules="require human-approval before deploy\nblock rm")
        assert (await hub.call("robin-1", "d2", "deploy", {"env": "prod"})).outcome == "allow"
        assert (await hub.call("robin-1", "r", "rm", {})).outcome == "allow"
        [back] = recorded(hub.database, SessionResumed)
        assert (back.by, back.active) == ("ada", ("approve-before-deploy",))
        await check_fold(hub)

    async def test_other_kind_of_session_is_refused(self, hub: Hub) -> None:
        """An external agent can resume only external sessions, and a hosted agent only hosted ones."""
        await opened(hub)
        await hub.call("robin-1", "t", "test", {})
        agent = Agent(ScriptedModel([]), name="bot")
        with pytest.raises(ResumeError, match="live here"):
            await resumed(hub)
        await hub.close_session("robin-1", by="ada")
        with pytest.raises(ResumeError, match="external agent"):
            await hub.resume_session("robin-1", agent, SessionConfig(NETS))
        with pytest.raises(ResumeError, match="external agent"):
            await hub.branch_session("robin-1", 1, agent, SessionConfig(NETS))
        own = await hub.open_session(agent, SessionConfig(NETS))
        await hub.close_session(own, by="ada")
        with pytest.raises(ResumeError, match="runs in Interlock"):
            await resumed(hub, own)

    async def test_record_names_agent_and_operator(self, hub: Hub) -> None:
        """The record tells which agent and operator own an external session."""
        await opened(hub)
        found = await hub.recorded_external("robin-1")
        assert found is not None
        assert (found.id, found.opened_by, found.agent) == ("robin-1", "ada", AGENT)
        own = await hub.open_session(Agent(ScriptedModel([]), name="bot"), SessionConfig(NETS))
        assert await hub.recorded_external(own) is None


def forget_last(database: Path, kind: str) -> None:
    """Delete the last event of the journal, which is of `kind`."""
    with closing(Journal.open(database)) as journal:
        del journal
    with closing(sqlite3.connect(database)) as connection, connection:
        [(cursor, found)] = connection.execute(
            "select cursor, type from event order by cursor desc limit 1"
        ).fetchall()
        assert found == kind
        connection.execute("delete from event where cursor = ?", (cursor,))
        connection.execute("update session set events = events - 1")
        connection.execute("delete from decision where cursor = ?", (cursor,))
