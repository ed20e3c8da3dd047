"""Agents that wait: tools that ask, and calls that need approval."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import BaseModel

from interlock.engine.agents import Allow, C, Deny, Override, Reply, ToolMessage, tool
from interlock.engine.agents.models.scripted import ScriptedCall
from interlock.engine.flows import (
    Approve,
    Context,
    Continue,
    DeserializeError,
    Done,
    Flow,
    FlowRuntime,
    FlowSnapshot,
    History,
    Question,
    ResumeMismatchError,
    ResumeRequired,
    SnapLoadError,
    Suspended,
    ToolError,
    UnexpectedResumption,
    as_flow_gate,
)
from interlock.engine.gate import create_gate
from interlock.engine.gate.types import ApprovalAnswer, ApprovalRequest, GateDecision
from interlock.engine.net.net import SkillNet, ToolCall, Transition, define_skill_net
from interlock.rules import compile_rules

from ...agents.gates import Log
from ..support.scripted import (
    CTX,
    Answer,
    Final,
    Script,
    X,
    agent,
    ask,
    ask2,
    echo,
    flow_of,
    recorded,
    results,
    running,
)

SUBMIT = C(submit={"answer": "42"})
ASK = C(c1=("ask", {"question": "ok?"}))


def calls(*named: tuple[str, dict[str, object]]) -> Reply:
    return Reply(calls=tuple(ScriptedCall(name, args) for name, args in named))


async def waiting(script: Script, *tools: object, **settings: object) -> tuple[FlowRuntime, Suspended]:
    runtime = running(script, *tools, **settings)
    out = await runtime.next(CTX)
    assert isinstance(out, Suspended)
    return runtime, out


class TestToolAsks:
    async def test_flow_continues_after_the_answer(self) -> None:
        """P-70: the tool's value is returned; after the answer the flow continues to the end."""
        script = Script(ASK, C(submit={"answer": "alice"}))
        runtime, out = await waiting(script, ask)
        assert out == Suspended(
            {"question": "ok?"}, "X::ask", call_id="c1", args={"question": "ok?"}, agent="X"
        )
        assert await runtime.resume(CTX, out.tool_id, {"approved": True}) == Continue()
        assert await runtime.next(CTX) == Continue()
        assert await runtime.next(CTX) == Done(Answer(answer="alice"))

    async def test_answer_is_the_result(self) -> None:
        """P-72: the answer is the tool's result as JSON; neither tool nor model is called again."""
        ran: list[str] = []

        @tool
        async def asks() -> str:
            """Ask."""
            ran.append("")
            raise ToolError.suspend(None)

        script = Script(C(asks={}), SUBMIT)
        runtime, _ = await waiting(script, asks)
        await runtime.resume(CTX, "X::asks", "yes")
        assert (len(ran), len(script.said)) == (1, 1)
        assert results(recorded(runtime)) == ['"yes"']
        await runtime.next(CTX)
        assert results(script.said[1]) == ['"yes"']

    async def test_next_while_suspended(self) -> None:
        """P-73: `next` is refused while a tool waits: no model call, nothing changed."""
        script = Script(ASK)
        runtime, _ = await waiting(script, ask)
        before = runtime.snapshot()
        with pytest.raises(ResumeRequired, match="suspended at 'X::ask' — call resume"):
            await runtime.next(CTX)
        assert (len(script.said), runtime.snapshot()) == (1, before)

    async def test_wrong_id(self) -> None:
        """P-75: the error for another id names the expected one, which still works."""
        runtime, _ = await waiting(Script(ASK), ask)
        with pytest.raises(ResumeMismatchError) as caught:
            await runtime.resume(CTX, "wrong::id", None)
        assert caught.value.expected == "X::ask"
        assert await runtime.resume(CTX, "X::ask", None, call_id="c1") == Continue()
        with pytest.raises(UnexpectedResumption):
            await runtime.resume(CTX, "X::ask", None)

    async def test_waiting_call_within_a_batch(self) -> None:
        """P-76: calls before the waiting one have run; those after it run after the answer."""
        script = Script(calls(("echo", {"text": "1"}), ("ask", {}), ("echo", {"text": "2"})), SUBMIT)
        runtime, out = await waiting(script, echo, ask)
        assert results(recorded(runtime)) == ['"1"']
        assert [call.name for call in runtime.snapshot().pending] == ["ask", "echo"]
        await runtime.resume(CTX, out.tool_id, None)
        assert results(recorded(runtime)) == ['"1"', "null", '"2"']

    async def test_two_asking_calls_wait_in_turn(self) -> None:
        """P-76: each asking call waits in turn; two of one tool are distinguished by their ids."""
        runtime, _ = await waiting(Script(calls(("ask", {}), ("ask2", {})), SUBMIT), ask, ask2)
        second = await runtime.resume(CTX, "X::ask", 1)
        assert isinstance(second, Suspended)
        assert second.tool_id == "X::ask2"
        twice = Reply(calls=(ScriptedCall("ask", {"question": "a"}, "a"), ScriptedCall("ask", {}, "b")))
        runtime, first = await waiting(Script(twice, SUBMIT), ask)
        with pytest.raises(ResumeMismatchError):
            await runtime.resume(CTX, "X::ask", 1, call_id="b")
        second = await runtime.resume(CTX, "X::ask", 1, call_id="a")
        assert isinstance(second, Suspended)
        assert (first.tool_id, first.call_id, first.args) == ("X::ask", "a", {"question": "a"})
        assert (second.tool_id, second.call_id, second.args) == ("X::ask", "b", {})
        assert await runtime.resume(CTX, "X::ask", 2) == Continue()

    async def test_answer_goes_to_the_waiting_agent(self) -> None:
        """P-77: the answer goes to the waiting agent, not to the first live state."""

        class LR(BaseModel):
            n: int

        class Start(BaseModel):
            n: int

        def split(a):
            return LR(n=3), X()

        def merge(a, b):
            return Final(text=f"{a.n}{b.answer}")

        split.__annotations__ = {"a": Start, "return": tuple[LR, X]}
        merge.__annotations__ = {"a": LR, "b": Answer, "return": Final}
        g = Flow.of(Start, Final).fork(split).agent(agent(ask)).join(merge)
        runtime = FlowRuntime(g, Start(n=1), factory=Script(ASK, SUBMIT))
        await runtime.next(CTX)
        assert isinstance(await runtime.next(CTX), Suspended)
        assert runtime.states == ("LR", "X")
        await runtime.resume(CTX, "X::ask", None)
        assert await runtime.run(CTX) == Done(Final(text="342"))

    async def test_submitted_before_the_answer(self) -> None:
        """P-78: a submit in the same batch counts; the record notes that it came before the answer."""
        runtime, _ = await waiting(Script(calls(("ask", {}), ("submit", {"answer": "early"}))), ask)
        assert await runtime.resume(CTX, "X::ask", "no") == Continue()
        assert runtime.history.entries[-1].note == "submitted_before_answer"
        assert await runtime.next(CTX) == Done(Answer(answer="early"))

    async def test_error_during_resume(self) -> None:
        """P-79: a failure among the later calls leaves the suspension unchanged."""
        left = [OSError("disk")]

        @tool
        async def shaky() -> str:
            """Fail once."""
            if left:
                raise left.pop()
            return "fine"

        script = Script(calls(("ask", {}), ("shaky", {})), SUBMIT)
        runtime, _ = await waiting(script, ask, shaky, tool_errors="raise")
        before, said = runtime.snapshot(), runtime.history
        with pytest.raises(Exception, match="Tool error: disk"):
            await runtime.resume(CTX, "X::ask", 1)
        assert (runtime.snapshot(), runtime.history) == (before, said)
        assert await runtime.resume(CTX, "X::ask", 1) == Continue()
        assert results(recorded(runtime)) == ["1", '"fine"']

    async def test_answer_that_is_no_json(self) -> None:
        """P-72: an answer that JSON cannot hold is refused, and the flow still waits."""
        runtime, _ = await waiting(Script(ASK), ask)
        with pytest.raises(DeserializeError, match="the answer is not JSON"):
            await runtime.resume(CTX, "X::ask", object())
        assert runtime.suspended is not None

    async def test_except_tool_error_does_not_catch_the_signal(self) -> None:
        """P-80: `except ToolError` does not catch the signal, but does catch values that are not JSON."""

        @tool
        async def careful(what: str) -> str:
            """Ask with care."""
            try:
                raise ToolError.suspend(float("nan") if what == "nan" else what)
            except ToolError as error:
                return f"caught {type(error).__name__}"

        script = Script(C(careful={"what": "nan"}), C(careful={"what": "x"}))
        runtime = running(script, careful)
        assert await runtime.next(CTX) == Continue()
        assert results(recorded(runtime)) == ['"caught ToolSerializeError"']
        assert (await runtime.next(CTX)).value == "x"


class TestNested:
    async def test_ids(self) -> None:
        """P-71, P-106: a nested agent's id has the flow's name as prefix, the entry agent's does not."""

        class In(BaseModel):
            n: int

        def begun(a):
            return X()

        begun.__annotations__ = {"a": In, "return": X}
        inner = Flow.of(In, Answer).work(begun).agent(agent(ask, echo))
        script = Script(ASK, SUBMIT)
        runtime = FlowRuntime(
            Flow.of(Final, Answer).work(work_that_makes(In)).flow(inner), Final(text=""), factory=script
        )
        out = await runtime.run(CTX)
        assert (out.tool_id, out.agent) == ("In::X::ask", "In::X")
        assert [spec.name for spec in script.options[0].tools] == ["ask", "echo", "submit"]
        await runtime.resume(CTX, out.tool_id, None)
        assert await runtime.run(CTX) == Done(Answer(answer="42"))
        entry = Flow.of(X, Answer).agent(agent(ask))
        runtime = FlowRuntime(
            Flow.of(Final, Answer).work(work_that_makes(X)).flow(entry),
            Final(text=""),
            factory=Script(ASK),
        )
        assert (await runtime.run(CTX)).tool_id == "X::ask"

    async def test_renaming_keeps_prompt_and_schema(self) -> None:
        """P-106: renaming does not change prompt and schema of a nested agent."""
        script = Script(Reply(deltas=('{"answer": "in"}',)))
        inner = Flow.of(X, Answer).agent(agent())
        g = Flow.of(Final, Answer).work(work_that_makes(X)).flow(inner)
        assert await FlowRuntime(g, Final(text=""), factory=script).run(CTX) == Done(Answer(answer="in"))
        assert script.options[0].output_schema == Answer.model_json_schema()
        assert script.options[0].preamble == "Be brief."


def work_that_makes(model: type[BaseModel]) -> object:
    def work(a):
        return model(**dict.fromkeys(model.model_fields, 1 if "n" in model.model_fields else "t"))

    work.__annotations__ = {"a": Final, "return": model}
    return work


class TestRestored:
    async def restored(
        self, runtime: FlowRuntime, script: Script, history: History | None
    ) -> FlowRuntime:
        snapshot = FlowSnapshot.load(runtime.snapshot().model_dump_json())
        return FlowRuntime.from_snapshot(
            flow_of(agent(echo, ask)), snapshot, factory=script, history=history
        )

    async def test_next_call_is_unchanged_with_history(self) -> None:
        """P-95: restored with its history, an agent's next call is the same as without the restart."""
        submit = C(c2=("submit", {"answer": "42"}))
        script = Script(C(c1=("echo", {"text": "hi"})), submit)
        runtime = running(script, echo, ask)
        await runtime.next(CTX)
        history = History.model_validate_json(runtime.history.model_dump_json())
        assert history == runtime.history
        other = Script(submit)
        again = await self.restored(runtime, other, history)
        assert await again.next(CTX) == await runtime.next(CTX)
        assert other.said[0] == script.said[1]
        assert again.history == runtime.history

    async def test_still_waits_after_restore(self) -> None:
        """P-94: a waiting flow still waits after it is restored, and accepts the answer."""
        runtime, _ = await waiting(Script(ASK), echo, ask)
        again = await self.restored(runtime, Script(SUBMIT), runtime.history)
        with pytest.raises(ResumeRequired):
            await again.next(CTX)
        assert again.suspended == runtime.suspended
        await again.resume(CTX, "X::ask", "ok")
        assert await again.run(CTX) == Done(Answer(answer="42"))

    @pytest.mark.slow
    async def test_missing_history_is_an_error(self) -> None:
        """P-96: within a conversation the history is required, with an error at the first step."""
        runtime = running(Script(C(echo={"text": "hi"})), echo, ask)
        await runtime.next(CTX)
        script = Script(SUBMIT)
        again = await self.restored(runtime, script, None)
        text = r"agent 'X' is mid-conversation: restore its history with with_history\(\)"
        with pytest.raises(SnapLoadError, match=text):
            await again.next(CTX)
        assert script.said == []
        assert await again.with_history(runtime.history).run(CTX) == Done(Answer(answer="42"))
        waits, _ = await waiting(Script(ASK), echo, ask)
        again = await self.restored(waits, script, None)
        with pytest.raises(SnapLoadError, match=text):
            await again.resume(CTX, "X::ask", 1)

    async def test_no_history_needed_before_the_agent_starts(self) -> None:
        """P-96: outside an agent's conversation no history is needed."""
        again = await self.restored(running(Script(), echo, ask), Script(SUBMIT), None)
        assert await again.run(CTX) == Done(Answer(answer="42"))


DEPLOYED: list[str] = []


@tool
async def deploy(ctx: Context, env: str) -> str:
    """Deploy."""
    DEPLOYED.append(env)
    return f"deployed to {env}"


def ruled(rules: str = "require human-approval before deploy") -> object:
    return create_gate(compile_rules(rules).nets)


async def gated_flow(
    *more: Reply, gate: object = None, **settings: object
) -> tuple[FlowRuntime, Suspended]:
    DEPLOYED.clear()
    script = Script(*(more or (C(c1=("deploy", {"env": "live"})), SUBMIT)))
    return await waiting(script, deploy, echo, gate=gate or ruled(), **settings)


class TestApproval:
    async def test_suspends_before_the_call_runs(self) -> None:
        """P-82: a call that needs approval suspends before it runs, and shows the call."""
        _, out = await gated_flow()
        assert (out.kind, out.tool_id, out.call_id) == ("approval", "X::deploy", "c1")
        assert isinstance(out.value, dict)
        assert (out.value["tool"], out.value["args"]) == ("deploy", {"env": "live"})
        assert "Allow 'deploy'" in out.value["reason"]
        assert any(out.value["marking"].values())
        assert DEPLOYED == []

    @pytest.mark.parametrize(
        ("answer", "ran"),
        [
            (True, ["live"]),
            (False, []),
            (ApprovalAnswer(approved=True, input={"env": "test"}), ["test"]),
        ],
    )
    async def test_gates_confirm_is_asked_once(
        self, answer: bool | ApprovalAnswer, ran: list[str]
    ) -> None:
        """P-82: a gate's own `confirm` is asked once for each version, without suspending."""
        asked: list[object] = []

        async def confirm(request: ApprovalRequest) -> bool | ApprovalAnswer:
            asked.append(request.call.input)
            return True if len(asked) > 1 else answer

        DEPLOYED.clear()
        gate = create_gate(compile_rules("require human-approval before deploy").nets, confirm=confirm)
        runtime = running(Script(C(c1=("deploy", {"env": "live"})), SUBMIT), deploy, gate=gate)
        assert await runtime.run(CTX) == Done(Answer(answer="42"))
        assert (DEPLOYED, asked[0]) == (ran, {"env": "live"})

    @pytest.mark.parametrize("payload", [{"approve": True}, Approve(), Allow()])
    async def test_approve_runs_the_tool(self, payload: object) -> None:
        """P-82: approve runs the tool."""
        runtime, out = await gated_flow()
        assert await runtime.resume(CTX, out.tool_id, payload) == Continue()
        assert DEPLOYED == ["live"]
        assert results(recorded(runtime)) == ['"deployed to live"']

    @pytest.mark.parametrize("payload", [{"deny": "not on a Friday"}, Deny(reason="not on a Friday")])
    async def test_deny_makes_the_reason_the_result(self, payload: object) -> None:
        """P-82: deny makes the reason the call's failed result."""
        runtime, out = await gated_flow()
        assert await runtime.resume(CTX, out.tool_id, payload) == Continue()
        assert DEPLOYED == []
        last = recorded(runtime)[-1]
        assert last == ToolMessage(call_id="c1", name="deploy", text="not on a Friday", is_error=True)

    @pytest.mark.parametrize("payload", [{"args": {"env": "test"}}, Override(args={"env": "test"})])
    async def test_override_runs_the_edited_call(self, payload: object) -> None:
        """P-82: override runs the call as edited, and the model is informed."""
        runtime, out = await gated_flow()
        assert await runtime.resume(CTX, out.tool_id, payload) == Continue()
        assert DEPLOYED == ["test"]
        [text] = results(recorded(runtime))
        assert json.loads(text).startswith('A person changed env from "live" to "test"')

    @pytest.mark.parametrize(
        "payload",
        [
            None,
            True,
            "yes",
            {},
            {"approve": False},
            {"approve": 1},
            {"approve": True, "deny": "x"},
            {"args": 1},
        ],
    )
    async def test_other_payload_is_refused(self, payload: object) -> None:
        """P-82: any other payload is refused, and the flow still waits."""
        runtime, out = await gated_flow()
        before = runtime.snapshot()
        with pytest.raises(DeserializeError, match="expected"):
            await runtime.resume(CTX, out.tool_id, payload)
        assert (runtime.snapshot(), DEPLOYED) == (before, [])

    async def test_errors_of_misuse(self) -> None:
        """P-82: the same three errors of misuse apply here."""
        runtime, out = await gated_flow()
        with pytest.raises(ResumeRequired):
            await runtime.next(CTX)
        with pytest.raises(ResumeMismatchError):
            await runtime.resume(CTX, "X::ask", Approve())
        await runtime.resume(CTX, out.tool_id, Approve())
        with pytest.raises(UnexpectedResumption):
            await runtime.resume(CTX, out.tool_id, Approve())

    async def test_denied_before_a_submit(self) -> None:
        """P-78: after a denial the batch's submit is cancelled, and the model has another turn."""
        batch = calls(("deploy", {"env": "live"}), ("submit", {"answer": "done!"}))
        runtime, out = await gated_flow(batch, C(submit={"answer": "not done"}))
        assert await runtime.resume(CTX, out.tool_id, {"deny": "no"}) == Continue()
        assert results(recorded(runtime)) == ["no", "cancelled"]
        assert await runtime.run(CTX) == Done(Answer(answer="not done"))

    async def test_exit_is_not_gated(self) -> None:
        """P-141: the exit passes no gate."""
        runtime = running(Script(SUBMIT), deploy, gate=ruled("block submit\nblock deploy"))
        assert await runtime.run(CTX) == Done(Answer(answer="42"))

    async def test_blocked_call_does_not_run(self) -> None:
        """P-82: a call that the nets block does not run; the model reads the reason."""
        DEPLOYED.clear()
        script = Script(C(deploy={"env": "live"}), SUBMIT)
        runtime = running(script, deploy, gate=ruled("block deploy"))
        assert await runtime.run(CTX) == Done(Answer(answer="42"))
        assert '"error_kind": "blocked"' in results(script.said[1])[0]
        assert DEPLOYED == []

    async def test_results_move_the_nets(self) -> None:
        """P-82: the gate gets the result of a call, so it unlocks later calls."""
        DEPLOYED.clear()
        script = Script(C(deploy={"env": "a"}), C(echo={"text": "hi"}), C(deploy={"env": "b"}), SUBMIT)
        runtime = running(script, deploy, echo, gate=ruled("require echo before deploy"))
        await runtime.run(CTX)
        assert DEPLOYED == ["b"]

    async def test_edited_call_needs_other_nets_approval(self) -> None:
        """P-82: an edit is approved as edited, but another net's approval is still needed."""
        gate = create_gate([approval_net("one"), approval_net("two")])
        runtime, out = await gated_flow(gate=gate)
        again = await runtime.resume(CTX, out.tool_id, {"args": {"env": "test"}})
        assert isinstance(again, Suspended)
        assert (again.kind, again.args, DEPLOYED) == ("approval", {"env": "test"}, [])
        back = await runtime.resume(CTX, out.tool_id, {"args": {"env": "live"}})
        assert isinstance(back, Suspended)
        assert (back.args, DEPLOYED) == ({"env": "live"}, [])
        assert await runtime.resume(CTX, out.tool_id, Approve()) == Continue()
        assert DEPLOYED == ["live"]

    async def test_approval_counts_for_its_input_only(self) -> None:
        """P-82: an approval counts only for the input that it was given for."""
        gate = as_flow_gate(ruled())
        asked = await gate.check(ToolCall("c1", "deploy", {"env": "test"}), ())
        assert isinstance(asked, Question)
        assert isinstance(
            await gate.check(ToolCall("c1", "deploy", {"env": "live"}), (asked.key,)), Question
        )
        decision = await gate.check(ToolCall("c1", "deploy", {"env": "test"}), (asked.key,))
        assert isinstance(decision, GateDecision)
        assert not decision.block

    async def test_waiting_call_can_be_approved_after_restore(self) -> None:
        """P-82, P-94: a waiting call can be approved in another process, and is judged there."""
        runtime, out = await gated_flow()
        snapshot = FlowSnapshot.load(runtime.snapshot().model_dump_json())
        kept = {"history": runtime.history, "factory": Script(SUBMIT)}
        nodes = flow_of(agent(deploy, echo))
        again = FlowRuntime.from_snapshot(nodes, snapshot, gate=ruled(), **kept)
        assert await again.resume(CTX, out.tool_id, Approve()) == Continue()
        assert DEPLOYED == ["live"]
        blocked = FlowRuntime.from_snapshot(nodes, snapshot, gate=ruled("block deploy"), **kept)
        assert await blocked.resume(CTX, out.tool_id, Approve()) == Continue()
        assert DEPLOYED == ["live"]

    async def test_failing_gate_runs_no_call(self) -> None:
        """P-82: a gate that raises lets no call run."""

        class Broken(Log):
            async def decide(self, call: object) -> GateDecision:
                raise RuntimeError("no record")

        DEPLOYED.clear()
        script = Script(C(deploy={"env": "x"}), SUBMIT)
        await running(script, deploy, gate=Broken()).run(CTX)
        assert DEPLOYED == []
        assert "The gate failed: no record" in results(script.said[1])[0]

    @pytest.mark.parametrize("answer", ["garbage", "other", "edited"])
    async def test_invalid_gate_answer_runs_no_call(self, answer: str) -> None:
        """P-82: a gate with an invalid answer, for another call or with bad input lets no call run."""
        DEPLOYED.clear()

        def decide(call: ToolCall) -> object:
            match answer:
                case "garbage":
                    return True
                case "other":
                    return GateDecision(replace(call, tool_call_id="c9"), "allow")
                case _:
                    return GateDecision(replace(call, input={"env": 1}), "allow")

        log = Log(decide)
        script = Script(C(c1=("deploy", {"env": "x"})), SUBMIT)
        await running(script, deploy, gate=log).run(CTX)
        assert DEPLOYED == []
        assert "blocked" in results(script.said[1])[0]
        assert [settled[1] for settled in log.settled] == ([] if answer == "garbage" else [True])

    async def test_session_gate_that_asks_by_itself(self) -> None:
        """P-82: a gate of a session that asks by itself works too, and gets each result."""
        log = Log()
        await running(Script(C(c1=("echo", {"text": "x"})), SUBMIT), echo, gate=log).run(CTX)
        assert log.happened == ["decide c1", "settle c1"]

    async def test_asking_tool_is_settled_after_its_answer(self) -> None:
        """P-72, P-82: a call whose tool asks is settled after its answer."""
        log = Log()
        runtime, out = await waiting(Script(ASK, SUBMIT), ask, gate=log)
        assert log.happened == ["decide c1"]
        await runtime.resume(CTX, out.tool_id, "fine")
        assert log.settled == [("c1", False, '"fine"', {"question": "ok?"})]


def approval_net(name: str) -> SkillNet:
    """Return a separate net that requires approval of every deploy."""
    asks = Transition("sign", ("ready",), ("ready",), tools=("deploy",), type="manual")
    return define_skill_net(name, places=["ready"], transitions=[asks], initial_marking={"ready": 1})
