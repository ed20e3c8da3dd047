"""One step at a time: order, ends, errors, limits."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest
from pydantic import BaseModel, field_serializer

from interlock.engine.flows import (
    BuildError,
    Context,
    Continue,
    DeserializeError,
    Done,
    FlowBuilder,
    FlowError,
    FlowRuntime,
    LimitExceeded,
    RunLimits,
    SerializeError,
    Suspend,
    Suspended,
    ToolError,
    UnexpectedResumption,
)

from ..support.shapes import CTX, E, F, J, M, W, builder, flow, shown, trace, typed


class Start(BaseModel):
    val: int


class Odd(BaseModel):
    """A model that cannot parse its own serialized form."""

    val: int

    @field_serializer("val")
    def as_text(self, value: int) -> str:
        return f"no. {value}"


class Half(BaseModel):
    val: float | None


class End(BaseModel):
    val: int


class Further(End):
    more: int = 0


def start(a: int = 1) -> FlowRuntime:
    return FlowRuntime(builder("A", "B", W("A", "B", lambda n: n * 2)), M("A")(val=a))


class TestNodes:
    async def test_work_takes_one_state_and_gives_another(self) -> None:
        """P-10: a work step takes one state and gives another."""
        runtime = start(3)
        assert await runtime.next(CTX) == Continue()
        assert runtime.states == ("B",)
        assert await runtime.next(CTX) == Done(M("B")(val=6))

    async def test_exactly_one_branch_appears(self) -> None:
        """P-12: exactly one branch appears, and each continues separately."""
        nodes = (E("A", "B", "C"), W("B", "Z", lambda n: n + 10), W("C", "Z", lambda n: n + 20))
        g = builder("A", "Z", *nodes)
        assert await trace(g, 2) == (["{A}", "{B}", "{Z}"], 12)
        assert await trace(g, 3) == (["{A}", "{C}", "{Z}"], 23)

    async def test_value_of_neither_branch_is_refused(self) -> None:
        """P-12: a value of neither branch's type is reported with its type, even if it is a subclass."""

        def wrong(a):
            return Further(val=1)

        wrong.__annotations__ = {"a": Start, "return": End | Half}

        def half(a: Half) -> End: ...

        g = FlowBuilder(Start, End).either(wrong).work(half)
        with pytest.raises(
            DeserializeError, match="either 'Start': gave Further, expected End or Half"
        ) as e:
            await FlowRuntime(g, Start(val=1)).next(CTX)
        assert e.value.node == "Start"

    async def test_children_appear_in_order_at_the_end(self) -> None:
        """P-13: the children appear in order, at the end."""
        nodes = (F("A", "B", "C"), J("C", "B", "Z"))
        seen, _ = await trace(builder("A", "Z", *nodes), 1)
        assert seen == ["{A}", "{B,C}", "{Z}"]

    async def test_fork_gives_too_few(self) -> None:
        """P-13: a tuple of another length is refused, and nothing changes."""

        def wrong(a, ctx):
            return (M("B")(val=1),)

        g = FlowBuilder(M("A"), M("Z")).fork(typed(wrong, tuple[M("B"), M("C")], a=M("A")))
        runtime = FlowRuntime(J("B", "C", "Z")(g), M("A")(val=1))
        with pytest.raises(DeserializeError, match=r"fork 'A': gave .*, expected \(B, C\)"):
            await runtime.next(CTX)
        assert runtime.states == ("A",)

    async def test_join_takes_declared_order(self) -> None:
        """P-15: a join gets its values in declared order, whichever came first."""
        nodes = (F("S", "A", "B"), W("A", "A2"), W("B", "B2", lambda n: n * 10), W("A2", "A3"))
        g = builder("S", "Z", *nodes, J("A3", "B2", "Z", lambda a, b: a - b))
        assert (await trace(g, 2))[1] == 2 - 20


class TestOrder:
    async def test_chain_of_n_nodes_takes_n_steps(self) -> None:
        """P-50: a chain of n nodes is n times Continue, then Done; outcomes work with `match`."""
        names = [f"S{n}" for n in range(6)]
        nodes = [W(a, b, lambda n: n + 1) for a, b in pairwise(names)]
        runtime = FlowRuntime(builder("S0", "S5", *nodes), M("S0")(val=0))
        said = []
        for _ in range(6):
            match await runtime.next(CTX):
                case Continue():
                    said.append("continue")
                case Done(output):
                    said.append(output.val)
                case Suspend(value, tool_id):
                    pytest.fail(f"{value} {tool_id}")
        assert said == ["continue"] * 5 + [5]
        assert Suspend is Suspended

    async def test_first_runnable_state_has_its_turn(self) -> None:
        """P-52: the first live state that can run has its turn; waiting joins are skipped."""
        nodes = (F("S", "A", "B"), W("B", "B2"), J("B2", "A", "Z"))
        seen, _ = await trace(builder("S", "Z", *nodes), 1)
        assert seen == ["{S}", "{A,B}", "{A,B2}", "{Z}"]

    async def test_branches_take_turns(self) -> None:
        """P-60: branches take turns: five times Continue, then Done."""
        nodes = (F("S", "A", "B"), W("A", "A2"), W("B", "B2"), W("A2", "A3"), J("A3", "B2", "Z"))
        seen, _ = await trace(builder("S", "Z", *nodes), 1)
        assert seen == ["{S}", "{A,B}", "{B,A2}", "{A2,B2}", "{B2,A3}", "{Z}"]

    async def test_waiting_parent_is_no_error(self) -> None:
        """P-61: a join's parent that waits is not an error."""
        nodes = (F("S", "A", "B"), W("B", "B2", lambda n: n * 3), J("A", "B2", "Z", lambda a, b: a * b))
        runtime = FlowRuntime(builder("S", "Z", *nodes), M("S")(val=4))
        assert [await runtime.next(CTX) for _ in range(3)] == [Continue()] * 3
        assert await runtime.next(CTX) == Done(M("Z")(val=48))

    async def test_fork_then_join(self) -> None:
        """P-62, P-14: fork, join, done."""
        assert await trace(builder("S", "Z", F("S", "A", "B"), J("A", "B", "Z")), 5) == (
            ["{S}", "{A,B}", "{Z}"],
            10,
        )

    async def test_functions_never_run_simultaneously(self) -> None:
        """P-65: no two functions run at the same time, even after a fork."""
        running: list[str] = []
        seen: list[int] = []

        async def busy(a, ctx):
            running.append("")
            await asyncio.sleep(0)
            seen.append(len(running))
            running.pop()
            return M("B2" if isinstance(a, M("B")) else "A2")(val=1)

        async def other(a, ctx):
            return await busy(a, ctx)

        g = builder("S", "Z", F("S", "A", "B"), J("A2", "B2", "Z"))
        g.work(typed(busy, M("A2"), a=M("A"))).work(typed(other, M("B2"), a=M("B")))
        await FlowRuntime(g, M("S")(val=1)).run(CTX)
        assert seen == [1, 1]

    async def test_loop_of_one_choice(self) -> None:
        """P-42: a branch of an either may be its own input; the new value replaces the old one."""

        def down(a, ctx):
            return M("A")(val=a.val - 1) if a.val else M("Z")(val=99)

        g = FlowBuilder(M("A"), M("Z")).either(typed(down, M("A") | M("Z"), a=M("A")))
        assert await trace(g, 2) == (["{A}", "{A}", "{A}", "{Z}"], 99)

    async def test_cycle(self) -> None:
        """P-44: a loop repeats as often as its choice says."""
        nodes = (E("A", "B", "Z", left=lambda n: n < 3), W("B", "A", lambda n: n + 1))
        assert await trace(builder("A", "Z", *nodes), 1) == (
            ["{A}", "{B}", "{A}", "{B}", "{A}", "{Z}"],
            3,
        )


class TestEnd:
    async def test_done_again(self) -> None:
        """P-53: Done consumes nothing and can be repeated; there is nothing to resume."""
        runtime = start()
        first = await runtime.run(CTX)
        assert await runtime.next(CTX) == await runtime.next(CTX) == first
        assert runtime.states == ("B",)
        with pytest.raises(UnexpectedResumption):
            await runtime.resume(CTX, "X::ask", None)

    async def test_output_that_does_not_fit(self) -> None:
        """P-54: the output is validated when it is requested."""

        def odd(a: Start) -> Odd:
            return Odd(val=a.val)

        odd.__annotations__ = {"a": Start, "return": Odd}
        runtime = FlowRuntime(FlowBuilder(Start, Odd).work(odd), Start(val=1))
        assert await runtime.next(CTX) == Continue()
        with pytest.raises(DeserializeError, match="flow output: val: Input should be a valid integer"):
            await runtime.next(CTX)

    async def test_not_done_while_another_state_is_live(self) -> None:
        """P-54: while another state is live the flow is not done, even if its output exists."""
        nodes = (F("S", "A", "B"), E("A", "Z", "A2"), W("B", "B2"), J("A2", "B2", "Z"))
        runtime = FlowRuntime(builder("S", "Z", *nodes), M("S")(val=2))
        assert [await runtime.next(CTX) for _ in range(3)] == [Continue()] * 3
        assert runtime.states == ("Z", "B2")
        with pytest.raises(FlowError, match=r"\[B2\]"):
            await runtime.next(CTX)


class TestErrors:
    async def test_exception_is_raised_unchanged(self) -> None:
        """P-17, P-56: an exception of a function is raised unchanged, with a note; `next` tries again."""
        boom = ValueError("boom")
        left = [boom, FlowError("mine")]

        def fails(n: int) -> int:
            if left:
                raise left.pop(0)
            return n

        runtime = FlowRuntime(builder("A", "Z", W("A", "Z", fails)), M("A")(val=4))
        before = runtime.snapshot()
        with pytest.raises(ValueError, match="boom") as caught:
            await runtime.next(CTX)
        assert caught.value is boom
        assert caught.value.__notes__ == ["in work 'A'"]
        assert (runtime.snapshot(), runtime.history.entries) == (before, ())
        with pytest.raises(FlowError, match="mine") as caught_own:
            await runtime.next(CTX)
        assert not hasattr(caught_own.value, "__notes__")
        assert await runtime.run(CTX) == Done(M("Z")(val=4))

    async def test_input_that_no_longer_fits(self) -> None:
        """P-18: the error for stored JSON that does not fit the function's type names node and field."""

        def odd(a: Start) -> Odd:
            return Odd(val=a.val)

        def taken(a: Odd) -> End: ...

        def chosen(a: Odd) -> End | Half: ...

        odd.__annotations__ = {"a": Start, "return": Odd}
        for method, function, gives, where in (
            ("work", taken, End, "work from 'Odd'"),
            ("either", chosen, End | Half, "transition from 'Odd'"),
        ):
            function.__annotations__ = {"a": Odd, "return": gives}
            g = FlowBuilder(Start, End).work(odd)
            getattr(g, method)(function)
            if method == "either":
                g.work(half_end)
            runtime = FlowRuntime(g, Start(val=1))
            await runtime.next(CTX)
            with pytest.raises(DeserializeError, match=f"{where}: val: ") as caught:
                await runtime.next(CTX)
            assert caught.value.cause is not None

    async def test_fork_input_that_no_longer_fits(self) -> None:
        """P-18: the same holds for a fork."""

        def odd(a: Start) -> Odd:
            return Odd(val=a.val)

        def split(a: Odd) -> tuple[End, Half]: ...

        def merge(a: End, b: Half) -> Further: ...

        runtime = FlowRuntime(FlowBuilder(Start, Further).work(odd).fork(split).join(merge), Start(val=1))
        await runtime.next(CTX)
        with pytest.raises(DeserializeError, match="fork from 'Odd': val: "):
            await runtime.next(CTX)

    async def test_join_input_that_no_longer_fits(self) -> None:
        """P-18: for a join, the error names the parent."""

        def split(a: Start) -> tuple[Odd, Half]:
            return Odd(val=1), Half(val=1)

        def merge(a: Half, b: Odd) -> End: ...

        runtime = FlowRuntime(FlowBuilder(Start, End).fork(split).join(merge), Start(val=1))
        await runtime.next(CTX)
        with pytest.raises(DeserializeError, match="join input 'Odd': val: "):
            await runtime.next(CTX)

    @pytest.mark.parametrize("lost", [float("inf"), float("nan")])
    async def test_number_that_is_no_json_is_refused(self, lost: float) -> None:
        """P-18: a number that JSON cannot hold is refused instead of becoming null."""

        def half(a: Start) -> Half:
            return Half(val=lost if a.val else None)

        half.__annotations__ = {"a": Start, "return": Half}
        g = FlowBuilder(Start, Half).work(half)
        with pytest.raises(SerializeError, match="work 'Start': Half is not JSON"):
            await FlowRuntime(g, Start(val=1)).next(CTX)
        assert await FlowRuntime(g, Start(val=0)).run(CTX) == Done(Half(val=None))

    async def test_text_that_is_no_utf8_is_refused(self) -> None:
        """P-18: text that UTF-8 cannot hold is refused as well."""

        class Text(BaseModel):
            text: str

        def text(a):
            return Text(text="\ud800")

        text.__annotations__ = {"a": Start, "return": Text}
        with pytest.raises(SerializeError, match="work 'Start'") as caught:
            await FlowRuntime(FlowBuilder(Start, Text).work(text), Start(val=1)).next(CTX)
        assert caught.value.node == "Start"

    async def test_another_type_than_annotated(self) -> None:
        """P-18: a function that returns another type than annotated is an error."""

        def wrong(a: Start) -> End:
            return a

        runtime = FlowRuntime(FlowBuilder(Start, End).work(wrong), Start(val=1))
        with pytest.raises(DeserializeError, match="work 'Start': gave Start, expected End"):
            await runtime.next(CTX)

    async def test_second_simultaneous_step_is_refused(self) -> None:
        """P-57: a second step during another is refused; the first one continues."""
        gate = asyncio.Event()

        async def waits(a, ctx):
            await gate.wait()
            return M("Z")(val=1)

        g = FlowBuilder(M("A"), M("Z")).work(typed(waits, M("Z"), a=M("A")))
        runtime = FlowRuntime(g, M("A")(val=1))
        first = asyncio.create_task(runtime.next(CTX))
        await asyncio.sleep(0)
        for second in (runtime.next(CTX), runtime.resume(CTX, "A", 1)):
            with pytest.raises(RuntimeError, match=r"^step already in progress$"):
                await second
        gate.set()
        assert await first == Continue()
        assert await runtime.next(CTX) == Done(M("Z")(val=1))

    async def test_cancelled_step_has_no_effect(self) -> None:
        """P-56: a cancelled step has no effect."""

        async def waits(a, ctx):
            await asyncio.Event().wait()

        g = FlowBuilder(M("A"), M("Z")).work(typed(waits, M("Z"), a=M("A")))
        runtime = FlowRuntime(g, M("A")(val=1))
        step = asyncio.create_task(runtime.next(CTX))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert shown(runtime) == "{A}"

    async def test_work_may_not_suspend(self) -> None:
        """P-81: only tools can suspend; the error for work refers to a suspend node."""

        def asks(n: int) -> int:
            raise ToolError.suspend({"n": n})

        runtime = FlowRuntime(builder("A", "Z", W("A", "Z", asks)), M("A")(val=1))
        with pytest.raises(FlowError, match="work 'A': only tools can suspend; use a suspend node"):
            await runtime.next(CTX)
        assert runtime.suspended is None

    async def test_input_of_another_type(self) -> None:
        """P-2: a run accepts only the flow's input type."""
        with pytest.raises(DeserializeError, match="flow input: gave B, expected A"):
            FlowRuntime(builder("A", "B", W("A", "B")), M("B")(val=1))

    async def test_functions_changes_do_not_affect_the_state(self) -> None:
        """P-90: changes that a function makes to its value do not affect the stored state."""

        def spoils(n: int) -> int:
            raise RuntimeError

        async def work(a, ctx):
            a.val = 99
            spoils(0)

        g = FlowBuilder(M("A"), M("Z")).work(typed(work, M("Z"), a=M("A")))
        value = M("A")(val=1)
        runtime = FlowRuntime(g, value)
        value.val = 50
        with pytest.raises(RuntimeError):
            await runtime.next(CTX)
        assert runtime.snapshot().states[0].value == {"val": 1}


def half_end(a: Half) -> End: ...


class TestRun:
    async def test_run_steps_until_done(self) -> None:
        """Section 12: `run` steps until the flow is done."""
        assert await start(4).run(Context()) == Done(M("B")(val=8))

    async def test_step_limit(self) -> None:
        """Section 12: a run stops at its limit and can be continued; Done does not count as a step."""
        names = [f"S{n}" for n in range(4)]
        nodes = [W(a, b) for a, b in pairwise(names)]
        runtime = FlowRuntime(flow("S0", "S3", *nodes), M("S0")(val=0))
        with pytest.raises(LimitExceeded, match="max_steps is 2") as caught:
            await runtime.run(CTX, RunLimits(max_steps=2))
        assert (caught.value.limit, caught.value.most) == ("max_steps", 2)
        assert runtime.states == ("S2",)
        assert await runtime.run(CTX, RunLimits(max_steps=1)) == Done(M("S3")(val=0))

    async def test_time_limit(self) -> None:
        """Section 12: time is checked between steps, with the given clock."""
        nodes = (E("A", "B", "Z"), W("B", "A"))
        runtime = FlowRuntime(builder("A", "Z", *nodes), M("A")(val=2))
        ticks = count()
        with pytest.raises(LimitExceeded, match="max_seconds is 5"):
            await runtime.run(CTX, RunLimits(max_seconds=5), clock=lambda: next(ticks))
        assert next(ticks) == 6

    def test_limits_are_numbers(self) -> None:
        """Section 12: a negative limit is refused."""
        with pytest.raises(ValueError, match="max_steps is a number from 0, got -1"):
            RunLimits(max_steps=-1)

    def test_invalid_flow_is_refused_before_it_runs(self) -> None:
        """P-30: an invalid flow is refused before it runs."""
        with pytest.raises(BuildError):
            FlowRuntime(builder("A", "Z"), M("A")(val=1))
