"""The names of states, and how builder methods read annotations."""

from __future__ import annotations

import functools
from typing import ClassVar, Generic, TypeVar

import pytest
from pydantic import BaseModel

from interlock.engine.flows import (
    BuildError,
    Context,
    Done,
    Flow,
    FlowBuilder,
    FlowRuntime,
    Invalid,
    node_id,
)

from ..support.shapes import CTX, M, W, builder

T = TypeVar("T")


class Draft(BaseModel):
    val: int


class Named(BaseModel):
    __node_id__: ClassVar[str] = "other"
    val: int


class Inherits(Named):
    pass


class Page(BaseModel, Generic[T]):
    items: list[T]


class Report(BaseModel):
    val: int


class Other:
    class Draft(BaseModel):
        val: int


async def finish(draft: Draft, ctx: Context) -> Report:
    return Report(val=draft.val + 1)


def page(draft: Draft) -> Page[int]:
    return Page[int](items=[draft.val])


def count(page: Page[int]) -> Report:
    return Report(val=len(page.items))


def no_annotation(draft, ctx: Context) -> Report: ...
def no_return(draft: Draft, ctx: Context): ...
def no_model(draft: int, ctx: Context) -> Report: ...
def gives_no_model(draft: Draft, ctx: Context) -> str: ...
def unknown(draft: Nowhere, ctx: Context) -> Report: ...  # noqa: F821
def too_many(draft: Draft, ctx: Context, more: int) -> Report: ...
def nothing() -> Report: ...
def no_tuple(draft: Draft, ctx: Context) -> Report: ...
def open_tuple(draft: Draft, ctx: Context) -> tuple[Report, ...]: ...
def maybe(draft: Draft, ctx: Context) -> Report | None: ...
def number_and_draft(a: int, b: Draft) -> Report: ...
def one_value(draft: Draft) -> Report: ...
async def waits(draft: Draft, ctx: Context) -> Report | Named: ...


class TestNames:
    def test_type_name(self) -> None:
        """P-1: the key is the unqualified type name, or the type's own `__node_id__`."""
        assert node_id(Draft) == node_id(Other.Draft) == "Draft"
        assert node_id(Named) == "other"
        assert node_id(Inherits) == "Inherits"

    @pytest.mark.parametrize("method", ["suspend", "work", "either", "fork", "join", "each"])
    def test_no_model(self, method: str) -> None:
        """P-2: a type that is not a pydantic model is refused at once, naming type and method."""
        given = {
            "suspend": (int, Report),
            "each": (int, one_value, Report),
            "join": (number_and_draft,),
        }
        add = getattr(FlowBuilder(Draft, Report), method)
        with pytest.raises(BuildError, match=rf"{method}.*'int' is not a pydantic model"):
            add(*given.get(method, (no_model,)))

    def test_no_model_as_type_of_a_flow(self) -> None:
        """P-2: input and output of a flow must be pydantic models too."""
        with pytest.raises(BuildError, match="flow input: 'str' is not a pydantic model"):
            FlowBuilder(str, Report)
        with pytest.raises(BuildError, match="flow output: 'BaseModel' is no"):
            Flow.of(Draft, BaseModel)

    def test_two_types_of_one_name(self) -> None:
        """P-3: two classes with the same key in one graph are reported with their full names."""

        def other(draft: Other.Draft) -> Report: ...

        other.__annotations__ = {"draft": Other.Draft, "return": Report}
        with pytest.raises(Invalid) as caught:
            FlowBuilder(Draft, Report).work(other).build()
        here = __name__
        expected = f"name 'Draft' is used by two types: {here}.Draft and {here}.Other.Draft"
        assert expected in caught.value.problems

    def test_flow_cannot_be_renamed(self) -> None:
        """P-4: a flow cannot be renamed; the name of its input is the key everywhere."""

        def named(a: Named) -> Report: ...

        named.__annotations__ = {"a": Named, "return": Report}
        graph = FlowBuilder(Named, Report).work(named).build()
        assert list(graph.nodes) == ["other"]

    async def test_generic_model_has_pydantics_name(self) -> None:
        """P-5: a generic model has pydantic's name."""
        g = FlowBuilder(Draft, Report).work(page).work(count)
        assert list(g.build().nodes) == ["Draft", "Page[int]"]
        assert await FlowRuntime(g, Draft(val=7)).run(CTX) == Done(Report(val=1))


class TestAnnotations:
    @pytest.mark.parametrize(
        ("method", "function", "text"),
        [
            ("work", no_annotation, "work 'no_annotation': parameter 'draft' has no annotation"),
            ("work", no_return, "work 'no_return': no return annotation"),
            ("work", gives_no_model, "the return annotation: 'str' is not a pydantic model"),
            ("work", unknown, "the annotation 'Nowhere' cannot be found; move it to the top"),
            ("work", too_many, r"expected \(A, ctx\)"),
            ("work", nothing, r"found nothing\(\) -> .*expected \(A, ctx\)"),
            ("work", 7, "work: 7 is not a function"),
            ("fork", no_tuple, r"the return annotation is Report, not tuple\[B, C\]"),
            ("fork", open_tuple, r"not tuple\[B, C\]"),
            ("either", maybe, "'NoneType' is not a pydantic model"),
            ("either", waits, "either 'waits': found 'async def', expected 'def'"),
            ("join", one_value, r"expected \(A, B, ctx\)"),
        ],
    )
    def test_unsuitable_annotations_are_refused(self, method: str, function: object, text: str) -> None:
        """P-2: a function with unsuitable annotations is refused at once, with the remedy."""
        with pytest.raises(BuildError, match=text):
            getattr(FlowBuilder(Draft, Report), method)(function)

    async def test_without_context(self) -> None:
        """P-10: a function without a context parameter gets none; more parameters may have defaults."""

        def plain(draft, times=2):
            return Report(val=draft.val * times)

        plain.__annotations__ = {"draft": Draft, "times": int, "return": Report}
        g = FlowBuilder(Draft, Report).work(plain)
        assert await FlowRuntime(g, Draft(val=4)).run(CTX) == Done(Report(val=8))

    async def test_any_callable(self) -> None:
        """P-10: methods, partial functions and objects with `__call__` are accepted as well."""

        class Adds:
            async def __call__(self, draft: Draft, ctx: Context) -> Report:
                return Report(val=draft.val + 5)

            def method(self, draft: Draft) -> Report:
                return Report(val=draft.val + 6)

        def scaled(by: int, draft: Draft) -> Report:
            return Report(val=draft.val * by)

        for function, expected in ((Adds(), 6), (Adds().method, 7), (functools.partial(scaled, 9), 9)):
            g = FlowBuilder(Draft, Report).work(function)
            assert await FlowRuntime(g, Draft(val=1)).run(CTX) == Done(Report(val=expected))
        with pytest.raises(BuildError, match="found 'async def'"):
            FlowBuilder(Draft, Report).either(Adds())

    def test_methods_return_the_builder(self) -> None:
        """P-19: every method returns the builder, and `build` ends the chain."""
        g = FlowBuilder(Draft, Report)
        assert g.work(finish) is g
        assert g.build().takes.type is Draft

    def test_flow_without_types(self) -> None:
        """P-2: a flow without types is refused with the remedy."""

        class Untyped(Flow):
            pass

        with pytest.raises(BuildError, match=r"flow 'Untyped': write its types"):
            Untyped.graph()

    def test_flow_without_nodes(self) -> None:
        """P-31: a flow class without `build`, or whose `build` returns nothing, is refused."""

        class Empty(Flow[Draft, Report]):
            pass

        class Forgets(Flow[Draft, Report]):
            @classmethod
            def build(cls, g):
                g.work(finish)

        with pytest.raises(BuildError, match="flow 'Empty' has no nodes"):
            Empty.graph()
        with pytest.raises(BuildError, match="flow 'Forgets': build returned NoneType"):
            Forgets.graph()

    def test_union_of_three_branches(self) -> None:
        """P-12: the specification has two branches, but a union of three works the same."""
        from ..support.shapes import E

        graph = builder("A", "Z", E("A", "B", "C", "Z"), W("B", "Z"), W("C", "Z")).build()
        assert graph.nodes["A"].outcomes[2][0].type is M("Z")
