"""Nodes that wait for input, and lists processed one item at a time."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, RootModel

from interlock.engine.flows import (
    BuildError,
    Context,
    Continue,
    DeserializeError,
    Done,
    Flow,
    FlowRuntime,
    FlowSnapshot,
    HumanAnswer,
    HumanInput,
    ResumeMismatchError,
    ResumeRequired,
    Suspended,
    UnexpectedResumption,
)

from ..support.shapes import CTX, F, J, M, W, builder, flow


class Plan(BaseModel):
    text: str


class Verdict(BaseModel):
    good: bool
    note: str = ""


class Result(BaseModel):
    text: str


def publish(verdict: Verdict, ctx: Context) -> Result:
    return Result(text=f"{verdict.good} {verdict.note}")


def which(plan: Plan, ctx: Context) -> HumanInput:
    return HumanInput(prompt=f"Where to with {plan.text}?", choices=("staging", "live"), allow_other=True)


def strict(plan: Plan) -> HumanInput:
    return HumanInput(prompt="Where to?", choices=("staging", "live"))


def chosen(plan: Plan, answer: HumanAnswer, ctx: Context) -> Result:
    return Result(text=f"{plan.text} to {answer.text} ({answer.choice})")


class SignOff(Flow[Plan, Result]):
    @classmethod
    def build(cls, g):
        return g.suspend(Plan, Verdict).work(publish)


class Choose(Flow[Plan, Result]):
    @classmethod
    def build(cls, g):
        return g.human(which, chosen)


class Strict(Flow[Plan, Result]):
    @classmethod
    def build(cls, g):
        return g.human(strict, chosen)


async def waiting(flow: type[Flow]) -> FlowRuntime:
    runtime = FlowRuntime(flow, Plan(text="v2"))
    assert isinstance(await runtime.next(CTX), Suspended)
    return runtime


class TestSuspendNode:
    async def test_answer_is_the_next_state(self) -> None:
        """P-81: the value is returned with the schema of the answer; the answer is the next state."""
        runtime = FlowRuntime(SignOff, Plan(text="v2"))
        out = await runtime.next(CTX)
        assert out == Suspended({"text": "v2"}, "Plan", kind="input", agent="Plan")
        assert isinstance(out, Suspended)
        assert out.expects == Verdict.model_json_schema()
        assert runtime.suspended == out
        assert await runtime.resume(CTX, "Plan", {"good": True, "note": "ship"}) == Continue()
        assert runtime.states == ("Verdict",)
        assert await runtime.run(CTX) == Done(Result(text="True ship"))

    async def test_answer_as_a_model(self) -> None:
        """P-81: an answer can be the model itself."""
        runtime = await waiting(SignOff)
        await runtime.resume(CTX, "Plan", Verdict(good=False))
        assert await runtime.run(CTX) == Done(Result(text="False "))

    async def test_answer_that_does_not_fit(self) -> None:
        """P-81: an invalid answer is refused, and the flow still waits."""
        runtime = await waiting(SignOff)
        before = runtime.snapshot()
        with pytest.raises(DeserializeError, match="suspend 'Plan': the answer is not a Verdict: good: "):
            await runtime.resume(CTX, "Plan", {"good": "perhaps"})
        assert runtime.snapshot() == before
        assert await runtime.resume(CTX, "Plan", {"good": True}) == Continue()

    async def test_next_while_suspended(self) -> None:
        """P-73: `next` is refused while the flow waits, and nothing changes."""
        runtime = await waiting(SignOff)
        before = runtime.snapshot()
        expected = "Flow is suspended at 'Plan' — call resume() with a resumption payload, not next()"
        with pytest.raises(ResumeRequired) as caught:
            await runtime.next(CTX)
        assert (str(caught.value), caught.value.tool_id) == (expected, "Plan")
        with pytest.raises(ResumeRequired):
            await runtime.run(CTX)
        assert runtime.snapshot() == before

    async def test_resume_while_not_suspended(self) -> None:
        """P-74: before the start, during a run and at its end there is nothing to resume."""
        runtime = FlowRuntime(builder("A", "Z", W("A", "B"), W("B", "Z")), M("A")(val=1))
        for _ in range(3):
            with pytest.raises(UnexpectedResumption, match="X::ask") as caught:
                await runtime.resume(CTX, "X::ask", {})
            assert caught.value.tool_id == "X::ask"
            await runtime.next(CTX)

    async def test_wrong_id(self) -> None:
        """P-75: another id is refused with the expected one, which works afterwards."""
        runtime = await waiting(SignOff)
        with pytest.raises(ResumeMismatchError, match="'Plan'") as caught:
            await runtime.resume(CTX, "wrong::id", {"good": True})
        assert (caught.value.expected, caught.value.got) == ("Plan", "wrong::id")
        with pytest.raises(ResumeMismatchError):
            await runtime.resume(CTX, "Plan", {"good": True}, call_id="c9")
        assert await runtime.resume(CTX, "Plan", {"good": True}) == Continue()

    async def test_key_in_a_nested_flow_has_its_prefix(self) -> None:
        """P-71: inside a nested flow the waiting key has the flow's name as prefix."""
        inner = flow(
            "I", "IOut", W("I", "Mid"), lambda g: g.suspend(M("Mid"), M("Said")), W("Said", "IOut")
        )
        outer = builder("O", "IOut", W("O", "I"), lambda g: g.flow(inner))
        runtime = FlowRuntime(outer, M("O")(val=1))
        out = await runtime.run(CTX)
        assert isinstance(out, Suspended)
        assert out.tool_id == "I::Mid"
        await runtime.resume(CTX, "I::Mid", {"val": 8})
        assert runtime.states == ("I::Said",)
        assert await runtime.run(CTX) == Done(M("IOut")(val=8))

    async def test_answer_goes_to_the_waiting_node(self) -> None:
        """P-77: the answer goes to the waiting node, not to the first live state."""
        nodes = (F("S", "A", "B"), lambda g: g.suspend(M("B"), M("B2")), J("A", "B2", "Z"))
        runtime = FlowRuntime(builder("S", "Z", *nodes), M("S")(val=3))
        out = await runtime.run(CTX)
        assert (out.tool_id, runtime.states) == ("B", ("A", "B"))
        await runtime.resume(CTX, "B", {"val": 10})
        assert await runtime.run(CTX) == Done(M("Z")(val=13))

    async def test_still_waits_after_restore(self) -> None:
        """P-94: a snapshot of a waiting flow still waits after it is restored, and takes the answer."""
        text = (await waiting(SignOff)).snapshot().model_dump_json()
        restored = FlowRuntime.from_snapshot(SignOff, FlowSnapshot.load(text))
        with pytest.raises(ResumeRequired):
            await restored.next(CTX)
        assert restored.suspended is not None
        assert restored.suspended.expects == Verdict.model_json_schema()
        await restored.resume(CTX, "Plan", {"good": True, "note": "late"})
        assert await restored.run(CTX) == Done(Result(text="True late"))


class TestHuman:
    async def test_question_is_made_from_the_value(self) -> None:
        """Section 12: the question is made from the value and returned."""
        out = (await waiting(Choose)).suspended
        assert out is not None
        assert out.kind == "choice"
        assert out.value == {
            "prompt": "Where to with v2?",
            "choices": ["staging", "live"],
            "allow_other": True,
        }

    @pytest.mark.parametrize(
        ("payload", "text"),
        [
            (1, "v2 to live (1)"),
            ({"choice": 0}, "v2 to staging (0)"),
            ("live", "v2 to live (1)"),
            ({"text": "nowhere"}, "v2 to nowhere (None)"),
        ],
    )
    async def test_answer_is_a_choice_or_text(self, payload: object, text: str) -> None:
        """Section 12: an answer is a choice by number or text, or other text where allowed."""
        runtime = await waiting(Choose)
        assert await runtime.resume(CTX, "Plan", payload) == Continue()
        assert await runtime.run(CTX) == Done(Result(text=text))

    @pytest.mark.parametrize(
        "payload",
        [2, -1, True, None, "nowhere", "", {"choice": "1"}, {"choice": 0, "text": "x"}, {}, [0]],
    )
    async def test_other_answer_is_refused(self, payload: object) -> None:
        """Section 12: another answer is refused with the expected ones, and the flow still waits."""
        runtime = await waiting(Strict)
        before = runtime.snapshot()
        expected = r"human 'Plan': the answer is .*, expected one of 0 \(staging\), 1 \(live\)"
        with pytest.raises(DeserializeError, match=expected):
            await runtime.resume(CTX, "Plan", payload)
        assert runtime.snapshot() == before

    def test_functions_must_fit(self) -> None:
        """P-2: question and answer must take the same type."""
        with pytest.raises(BuildError, match="return annotation must be HumanInput"):
            Flow.of(Plan, Result).human(publish, chosen)
        with pytest.raises(
            BuildError, match=r"found parameters \(Verdict, HumanAnswer\), expected \(Plan"
        ):
            Flow.of(Plan, Result).human(which, other_plan)


def other_plan(plan: Verdict, answer: HumanAnswer) -> Result: ...


class Docs(BaseModel):
    title: str
    docs: list[Plan]


class Notes(BaseModel):
    notes: list[Result]


class Root(RootModel[list[Plan]]):
    pass


class Crowded(BaseModel):
    notes: list[Result]
    needed: int


class TestEach:
    async def test_each_item_is_a_step(self) -> None:
        """Section 12: each item is a step; the results keep their order."""
        seen: list[str] = []

        async def note(plan, ctx):
            seen.append(plan.text)
            return Result(text=plan.text.upper())

        note.__annotations__ = {"plan": Plan, "ctx": Context, "return": Result}
        g = Flow.of(Docs, Notes).each(Docs, note, Notes)
        runtime = FlowRuntime(g, Docs(title="t", docs=[Plan(text="a"), Plan(text="b"), Plan(text="c")]))
        for n in range(1, 4):
            assert runtime.states == ("Docs",)
            assert await runtime.next(CTX) == Continue()
            assert seen == ["a", "b", "c"][:n]
            # Continued from a snapshot, it continues with the next item.
            runtime = FlowRuntime.from_snapshot(
                g, FlowSnapshot.load(runtime.snapshot().model_dump_json())
            )
        assert runtime.snapshot().collected == ()
        assert await runtime.next(CTX) == Done(Notes(notes=[Result(text=x) for x in "ABC"]))

    async def test_empty(self) -> None:
        """Section 12: an empty list gives an empty list; root models work as lists too."""

        def note(plan: Plan) -> Plan: ...

        note.__annotations__ = {"plan": Plan, "return": Plan}
        g = Flow.of(Docs, Root).each(Docs, note, Root)
        assert await FlowRuntime(g, Docs(title="t", docs=[])).run(CTX) == Done(Root([]))

    async def test_failed_item_is_repeated(self) -> None:
        """P-56: an item that fails is repeated; those before it are not."""
        ran: list[str] = []

        def note(plan):
            ran.append(plan.text)
            if len(ran) == 2:
                raise OSError("disk")
            return Result(text=plan.text)

        note.__annotations__ = {"plan": Plan, "return": Result}
        g = Flow.of(Docs, Notes).each(Docs, note, Notes)
        runtime = FlowRuntime(g, Docs(title="t", docs=[Plan(text="a"), Plan(text="b")]))
        await runtime.next(CTX)
        before = runtime.snapshot()
        with pytest.raises(OSError, match="disk"):
            await runtime.next(CTX)
        assert runtime.snapshot() == before
        assert await runtime.run(CTX) == Done(Notes(notes=[Result(text="a"), Result(text="b")]))
        assert ran == ["a", "b", "b"]

    def test_missing_list_is_an_error(self) -> None:
        """P-2: without exactly one list of the items, or with more required fields, it is an error."""

        def note(plan: Plan) -> Result: ...

        note.__annotations__ = {"plan": Plan, "return": Result}
        with pytest.raises(BuildError, match=r"'Plan' has 0 fields that are list\[Plan\], expected one"):
            Flow.of(Plan, Notes).each(Plan, note, Notes)
        with pytest.raises(BuildError, match="'Crowded' also needs needed"):
            Flow.of(Docs, Crowded).each(Docs, note, Crowded)
