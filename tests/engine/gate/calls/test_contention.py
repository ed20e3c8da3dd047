"""Calls that compete for a last token while one of them waits for approval (G-68)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import (
    ApprovalAnswer,
    ApprovalRequest,
    GateContext,
    GateManager,
    ToolCall,
    Transition,
    create_gate_manager,
)
from interlock.engine.gate import GateDecision, SyncToolError, ToolCallBlockedError
from interlock.engine.gate.calls import contention
from interlock.engine.gate.types import GrantTerms, NetVerdict

from ....support.laws import examples
from ..support.helpers import call, everything, gate, manager, net, reason, registry, result

LAST = "require human-approval before deploy\nlimit deploy to 1 per session"
SPENT = "deploy has reached its limit of 1 calls per session."


class Desk:
    """Operators who answer each request only when the test says so."""

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Future[bool | ApprovalAnswer]] = {}
        self.asked: list[str] = []
        self.waits: dict[str, tuple[str, ...]] = {}

    async def confirm(self, request: ApprovalRequest) -> bool | ApprovalAnswer:
        call_id = request.call.tool_call_id
        self.asked.append(call_id)
        self.open[call_id] = asyncio.get_running_loop().create_future()
        try:
            return await self.open[call_id]
        finally:
            del self.open[call_id]

    async def wait(self, made: ToolCall, earlier: tuple[str, ...]) -> None:
        self.waits[made.tool_call_id] = earlier

    @property
    def context(self) -> GateContext:
        return GateContext(self.confirm, self.wait)

    def make(
        self, gate: GateManager, name: str, call_id: str, **value: object
    ) -> asyncio.Task[GateDecision]:
        made = call(name, call_id, **value)
        return asyncio.create_task(gate.handle_tool_call(made, self.context), name=call_id)

    async def answer(self, call_id: str, answer: bool | ApprovalAnswer) -> None:
        self.open[call_id].set_result(answer)
        await run_until_waiting()


async def run_until_waiting() -> None:
    """Let every task run until it waits."""
    for _ in range(15):
        await asyncio.sleep(0)


class TestManyCalls:
    """The cost of a call while others wait for approval."""

    async def test_names_of_moves_are_computed_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """G-68: the names of a call's moves are computed once, not for every later call."""
        taken: list[NetVerdict] = []
        usual = contention._moved_names  # pyright: ignore[reportPrivateUsage]

        def names(verdict: NetVerdict) -> tuple[str, ...]:
            taken.append(verdict)
            return usual(verdict)

        monkeypatch.setattr(contention, "_moved_names", names)
        desk, gate = Desk(), manager("require human-approval before deploy")
        calls = [desk.make(gate, "deploy", str(number)) for number in range(10)]
        await run_until_waiting()
        assert len(desk.asked) == len(calls) == len(taken)
        for made in calls:
            made.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


class TestLastToken:
    """The outcome of the second of two calls."""

    async def test_limit_blocks_second_call_after_approval(self) -> None:
        """G-68: only the first call is requested; then the limit blocks the second."""
        desk, gate = Desk(), manager(LAST)
        one, two = desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")
        await run_until_waiting()
        assert desk.asked == ["1"]
        assert desk.waits == {"2": ("1",)}
        await desk.answer("1", True)
        assert (await one).outcome == "allow"
        decision = await two
        assert (decision.outcome, decision.reason) == ("block", SPENT)
        assert decision.net == "limit-deploy-1"
        assert desk.asked == ["1"]

    async def test_second_call_is_requested_after_denial(self) -> None:
        """G-68: if the first call is denied, the second is requested and may take the token."""
        desk, gate = Desk(), manager(LAST)
        one, two = desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")
        await run_until_waiting()
        await desk.answer("1", False)
        assert (await one).reason == "deploy was rejected by human review."
        assert desk.asked == ["1", "2"]
        await desk.answer("2", True)
        assert (await two).outcome == "allow"

    async def test_second_call_is_requested_after_cancellation(self) -> None:
        """G-68: if the first call is cancelled, the second is requested."""
        desk, gate = Desk(), manager(LAST)
        one, _two = desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")
        await run_until_waiting()
        one.cancel()
        await run_until_waiting()
        assert list(desk.open) == ["2"]
        await desk.answer("2", True)

    async def test_second_call_is_requested_after_edit_of_first(self) -> None:
        """G-68: if the first call is edited into another one, it releases the token."""
        desk = Desk()
        gate = manager(
            "map bash.command deploy as deploy\nmap bash.command test as test\n"
            "require human-approval before deploy\nlimit deploy to 1 per session"
        )
        one = desk.make(gate, "bash", "1", command="deploy")
        two = desk.make(gate, "bash", "2", command="deploy")
        await run_until_waiting()
        assert list(desk.open) == ["1"]
        await desk.answer("1", ApprovalAnswer(True, input={"command": "test"}))
        assert (await one).call.input == {"command": "test"}
        assert list(desk.open) == ["2"]
        await desk.answer("2", True)
        assert (await two).outcome == "allow"

    async def test_call_edited_into_a_competing_one_waits(self) -> None:
        """G-68: an edited call waits for the calls that claimed the token before."""
        desk = Desk()
        gate = manager(
            "map bash.command deploy as deploy\nmap bash.command test as test\n"
            "require human-approval before deploy\nrequire human-approval before test\n"
            "limit deploy to 1 per session"
        )
        _test = desk.make(gate, "bash", "1", command="test")
        _deploy = desk.make(gate, "bash", "2", command="deploy")
        await run_until_waiting()
        assert list(desk.open) == ["1", "2"]
        await desk.answer("1", ApprovalAnswer(True, input={"command": "deploy"}))
        assert list(desk.open) == ["2"]
        assert desk.waits["1"] == ("2",)
        await desk.answer("2", True)
        assert (await _deploy).outcome == "allow"
        assert (await _test).reason == SPENT

    async def test_as_many_requests_as_tokens(self) -> None:
        """G-68: of five calls for two tokens, two are requested; after a denial, one more is."""
        desk, gate = Desk(), manager(LAST.replace("to 1", "to 2"))
        made = [desk.make(gate, "deploy", str(n)) for n in range(1, 6)]
        await run_until_waiting()
        assert list(desk.open) == ["1", "2"]
        await desk.answer("2", False)
        assert list(desk.open) == ["1", "3"]
        await desk.answer("1", True)
        assert list(desk.open) == ["3"]
        await desk.answer("3", True)
        outcomes = [(await one).outcome for one in made]
        assert outcomes == ["allow", "block", "allow", "block", "block"]

    async def test_calls_that_do_not_compete_do_not_wait(self) -> None:
        """Calls that do not compete are requested at once."""
        desk = Desk()
        gate = manager(
            "require human-approval before a\nrequire human-approval before b\nlimit a to 1 per session"
        )
        every = [desk.make(gate, name, name + str(n)) for n in (1, 2) for name in ("a", "b")]
        await run_until_waiting()
        assert list(desk.open) == ["a1", "b1", "b2"]
        for one in every:
            one.cancel()

    async def test_cancelled_call_releases_its_id(self) -> None:
        """G-68: cancelling a waiting call releases its id and moves nothing."""
        desk, gate = Desk(), manager(LAST)
        before = everything(gate)
        one, two = desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")
        await run_until_waiting()
        two.cancel()
        await asyncio.wait([two])
        assert two.cancelled()
        assert everything(gate) == before
        again = desk.make(gate, "deploy", "2")
        await run_until_waiting()
        assert desk.waits["2"] == ("1",)
        await desk.answer("1", False)
        await desk.answer("2", True)
        assert [(await each).outcome for each in (one, again)] == ["block", "allow"]

    async def test_id_of_waiting_call_is_in_use(self) -> None:
        """G-53: the id of a call that waits for another is in use."""
        desk, gate = Desk(), manager(LAST)
        every = [desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")]
        await run_until_waiting()
        assert await reason(gate, "deploy", "2") == "Tool call id '2' is already in use."
        for one in every:
            one.cancel()

    async def test_blocked_without_an_approver(self) -> None:
        """A call is blocked at once if it has no approver to ask."""
        desk, gate = Desk(), manager(LAST)
        one = desk.make(gate, "deploy", "1")
        await run_until_waiting()
        assert await reason(gate, "deploy", "2") == "deploy requires human approval."
        one.cancel()

    async def test_failing_wait_blocks_only_its_own_call(self) -> None:
        """G-59: if the `wait` callback raises, only its own call is blocked."""

        async def fail(made: ToolCall, earlier: tuple[str, ...]) -> None:
            raise OSError("no screen")

        desk, gate = Desk(), manager(LAST)
        one = desk.make(gate, "deploy", "1")
        await run_until_waiting()
        two = await gate.handle_tool_call(call("deploy", "2"), GateContext(desk.confirm, fail))
        assert two.reason == "approve-before-deploy: waits failed: no screen"
        await desk.answer("1", True)
        assert (await one).outcome == "allow"


class TestWhatChangesMeanwhile:
    """Nets, modes, grants and results that change while calls wait."""

    async def test_switching_the_limit_off_releases_waiting_calls(self) -> None:
        """G-21: if the limit is switched off, waiting calls are requested."""
        desk, gate = Desk(), registry(LAST)
        every = [desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")]
        await run_until_waiting()
        gate.remove_net("limit-deploy-1")
        await run_until_waiting()
        assert list(desk.open) == ["1", "2"]
        for one in every:
            one.cancel()

    @pytest.mark.parametrize("way", ["off", "shadow"])
    async def test_waiting_call_is_requested_though_its_rule_is_off(self, way: str) -> None:
        """G-67: a call that waits for another is requested even if its rule is off or in shadow."""
        desk, gate = Desk(), registry(LAST)
        one, two = desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")
        await run_until_waiting()
        if way == "off":
            gate.remove_net("approve-before-deploy")
        else:
            gate.mode = "shadow"
        await run_until_waiting()
        await desk.answer("1", False)
        assert list(desk.open) == ["2"]
        await desk.answer("2", True)
        assert [(await each).outcome for each in (one, two)] == ["block", "allow"]

    async def test_refill_by_a_result_releases_next_call(self) -> None:
        """If a result refills the limit, the next call is requested at once."""
        desk = Desk()
        gate = manager("require human-approval before deploy\nlimit deploy to 2 per test")
        done = desk.make(gate, "deploy", "0")
        await run_until_waiting()
        await desk.answer("0", True)
        assert (await done).outcome == "allow"
        assert await reason(gate, "test", "t") is None
        every = [desk.make(gate, "deploy", "1"), desk.make(gate, "deploy", "2")]
        await run_until_waiting()
        assert list(desk.open) == ["1"]
        gate.handle_tool_result(result("test", "t"))
        await run_until_waiting()
        assert list(desk.open) == ["1", "2"]
        for one in every:
            one.cancel()

    async def test_grant_with_the_answer_covers_waiting_call(self) -> None:
        """G-74: a grant given with an answer covers a waiting call that was not requested."""
        desk, gate = Desk(), manager(LAST.replace("to 1", "to 2"))
        made = [desk.make(gate, "deploy", str(n)) for n in range(1, 4)]
        await run_until_waiting()
        await desk.answer("2", False)
        assert list(desk.open) == ["1", "3"]
        more = desk.make(gate, "deploy", "4")
        await run_until_waiting()
        await desk.answer("3", ApprovalAnswer(True, grant=GrantTerms("names", 5)))
        await desk.answer("1", False)
        decision = await more
        assert (decision.outcome, decision.granted) == ("allow", ("grant-1",))
        assert [(await one).outcome for one in made] == ["block", "block", "allow"]

    async def test_call_without_approval_takes_requested_calls_token(self) -> None:
        """G-15: a call that needs no approval does not wait; it takes the token of a requested call."""
        desk = Desk()
        gate = manager(
            "map bash.command deploy as deploy\nlimit deploy to 1 per session\n"
            "require human-approval before bash when input.command matches /prod/"
        )
        asked = desk.make(gate, "bash", "1", command="deploy prod")
        waits = desk.make(gate, "bash", "2", command="deploy prod")
        await run_until_waiting()
        assert list(desk.open) == ["1"]
        assert await reason(gate, "bash", "3", command="deploy lab") is None
        await run_until_waiting()
        assert (await waits).reason == SPENT
        await desk.answer("1", True)
        assert (await asked).reason == "Tool 'deploy' is no longer available (state changed)."

    async def test_calls_with_deferred_transitions_do_not_compete(self) -> None:
        """G-16: calls whose tokens move only with the result do not compete."""
        step = Transition("go", ["p"], [], ["x"], type="manual", deferred=True)
        desk, gate = Desk(), create_gate_manager([net("n", step)])
        every = [desk.make(gate, "x", "1"), desk.make(gate, "x", "2")]
        await run_until_waiting()
        assert list(desk.open) == ["1", "2"]
        for one in every:
            one.cancel()

    async def test_calls_competing_in_different_nets(self) -> None:
        """Calls that compete with a third call in different nets wait for that call only."""
        desk = Desk()
        gate = manager(
            "map bash.command a as a\nmap bash.command b as b\nrequire human-approval before bash\n"
            "limit a to 1 per session\nlimit b to 1 per session"
        )
        made = [desk.make(gate, "bash", n, command=c) for n, c in (("1", "a; b"), ("2", "a"), ("3", "b"))]
        await run_until_waiting()
        assert list(desk.open) == ["1"]
        await desk.answer("1", False)
        assert list(desk.open) == ["2", "3"]
        await desk.answer("2", True)
        await desk.answer("3", True)
        assert [(await one).outcome for one in made] == ["block", "allow", "allow"]


class TestNoDeadlock:
    """Calls made inside `confirm`, in threads and in other event loops."""

    async def test_call_made_by_confirm_does_not_wait(self) -> None:
        """A call made by `confirm` does not wait for the call that is being requested."""
        gate = manager(LAST)
        inner: list[GateDecision] = []

        async def confirm(request: ApprovalRequest) -> bool:
            if request.call.tool_call_id == "outer":
                inner.append(await gate.handle_tool_call(call("deploy", "inner"), GateContext(confirm)))
            return True

        outer = gate.handle_tool_call(call("deploy", "outer"), GateContext(confirm))
        decision = await asyncio.wait_for(outer, 10)
        assert inner[0].outcome == "allow"
        assert decision.reason == "Tool 'deploy' is no longer available (state changed)."

    def test_waiting_call_resumes_in_its_own_loop(self) -> None:
        """A waiting call resumes in its own loop when a call in another thread is decided."""
        gate = manager(LAST)
        asked = threading.Event()
        waits = threading.Event()
        got: dict[str, str | None] = {}

        async def confirm(_request: ApprovalRequest) -> bool:
            asked.set()
            await asyncio.to_thread(waits.wait, 10)
            return True

        async def wait(_call: ToolCall, _earlier: tuple[str, ...]) -> None:
            waits.set()

        def run(call_id: str) -> None:
            context = GateContext(confirm, wait)
            got[call_id] = asyncio.run(gate.handle_tool_call(call("deploy", call_id), context)).reason

        first = threading.Thread(target=run, args=("1",))
        first.start()
        assert asked.wait(10)
        second = threading.Thread(target=run, args=("2",))
        second.start()
        for thread in (first, second):
            thread.join(10)
        assert got == {"1": None, "2": SPENT}

    def test_synchronous_tool_waits_in_its_thread(self) -> None:
        """A synchronous tool waits in its thread for the answer about another call."""
        asked, answer = threading.Event(), threading.Event()
        ran: list[str] = []
        blocked: list[str] = []

        def confirm(_request: ApprovalRequest) -> bool:
            asked.set()
            return answer.wait(10)

        session = gate(LAST, confirm=confirm).wrap_tools({"deploy": ran.append})

        def run(env: str) -> None:
            try:
                session.tools["deploy"](env)
            except ToolCallBlockedError as error:
                blocked.append(error.reason)

        first = threading.Thread(target=run, args=("one",))
        first.start()
        assert asked.wait(10)
        second = threading.Thread(target=run, args=("two",))
        second.start()
        second.join(0.2)
        assert second.is_alive()
        answer.set()
        for thread in (first, second):
            thread.join(10)
            assert not thread.is_alive()
        assert (ran, blocked) == (["one"], [SPENT])

    async def test_synchronous_tool_in_event_loop_is_refused(self) -> None:
        """A synchronous tool in the event loop is refused instead of blocking the loop."""
        desk = Desk()
        session = gate(LAST, confirm=desk.confirm).wrap_tools({"deploy": lambda: "done"})
        first = asyncio.create_task(session.call("deploy", {}))
        await run_until_waiting()
        with pytest.raises(SyncToolError):
            session.tools["deploy"]()
        (asked,) = desk.open
        await desk.answer(asked, True)
        assert await first == "done"


MADE = ("a", "b", "a; b", "c", "a; c")
RULES = (
    "map bash.command a as a\nmap bash.command b as b\nmap bash.command c as c\n"
    "require human-approval before bash\nrequire human-approval before c\n"
    "limit a to 2 per session\nlimit b to 1 per session\nlimit c to 1 per r"
)
CHANGED = "(state changed)."
events = st.one_of(
    st.tuples(st.just("make"), st.sampled_from(MADE)),
    st.tuples(st.just("make"), st.sampled_from(MADE)),
    st.tuples(st.sampled_from(("yes", "yes", "no", "again", "cancel")), st.integers(0, 9)),
    st.tuples(st.just("edit"), st.integers(0, 9), st.sampled_from(MADE)),
    st.tuples(st.sampled_from(("free", "reset")), st.sampled_from(("a", "b", "c"))),
)


class Played:
    """A gate with calls, answers, edits and cancellations, and its decisions in order."""

    def __init__(self) -> None:
        self.decided: list[GateDecision] = []
        self.gate = manager(RULES, on_decision=lambda _call, decision: self.decided.append(decision))
        self.desk = Desk()
        self.tasks: dict[str, asyncio.Task[GateDecision]] = {}
        self.made: dict[str, str] = {}
        self.spoilt = False
        self.count = 0

    async def play(self, event: tuple[object, ...]) -> None:
        self.count += 1
        made = str(self.count)
        match event:
            case ("make", str() as command):
                self.made[made] = command
                self.tasks[made] = self.desk.make(self.gate, "bash", made, command=command)
            case ("free", str() as name):
                # Calls without a request, or without anyone to ask, do not wait.
                self.spoilt = True
                await reason(self.gate, name, made)
            case ("reset", str()):
                await reason(self.gate, "r", made)
                self.gate.handle_tool_result(result("r", made))
            case ("cancel", int() as which) if self.tasks:
                _, task = self.tasks.popitem() if which % 2 else self.first()
                task.cancel()
            case (str() as what, int() as which, *rest) if self.desk.open:
                asked = list(self.desk.open)[which % len(self.desk.open)]
                edited = {"command": rest[0]} if rest else None
                self.spoilt |= bool(rest)
                answer = ApprovalAnswer(what in ("yes", "edit"), input=edited, again=what == "again")
                self.desk.open[asked].set_result(answer)
            case _:
                pass
        await run_until_waiting()
        self.tasks = {key: task for key, task in self.tasks.items() if not task.done()}

    def first(self) -> tuple[str, asyncio.Task[GateDecision]]:
        key = next(iter(self.tasks))
        return key, self.tasks.pop(key)


class TestLaws:
    """Any answers in any order."""

    @pytest.mark.slow
    @given(st.lists(events, max_size=25))
    @settings(max_examples=examples(150), deadline=None)
    def test_open_requests_never_exceed_tokens(self, history: list[tuple[object, ...]]) -> None:
        """G-68: a request is always open, for no more calls than tokens; results are as one by one."""

        async def check() -> None:
            played = Played()
            gate = played.gate
            for event in history:
                await played.play(event)
                # No deadlock: while a call is undecided, a request is open.
                assert bool(played.desk.open) == bool(played.tasks)
                if played.spoilt:
                    continue
                for key, state in gate.states.items():
                    if key.startswith("limit-"):
                        name = key.split("-")[1]
                        asked = [one for one in played.desk.open if name in played.made[one]]
                        assert len(asked) <= state.marking["budget"]
            while played.desk.open:
                await played.play(("yes", 0))
            assert not played.tasks
            if not played.spoilt:
                assert not any(str(d.reason).endswith(CHANGED) for d in played.decided)
            await check_same_outcomes_one_by_one(played.decided)

        asyncio.run(check())


async def check_same_outcomes_one_by_one(decided: list[GateDecision]) -> None:
    """Check that the same calls, made one by one in the order of decisions, have the same outcome."""
    gate = manager(RULES)
    for number, decision in enumerate(decided):
        made = replace(decision.call, tool_call_id=str(number))
        refused = str(decision.reason).endswith("rejected by human review.")
        asked = decision.call.tool_name == "bash"
        context = GateContext((lambda _: not refused) if asked else None)  # noqa: B023 - called at once
        again = await gate.handle_tool_call(made, context)
        assert again.outcome == decision.outcome
        if not refused and not str(decision.reason).endswith(CHANGED):
            assert again.reason == decision.reason
        if made.tool_name == "r":
            gate.handle_tool_result(result("r", str(number)))
