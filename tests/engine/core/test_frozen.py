"""`frozen` values behave like a frozen dataclass."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from interlock.engine import GateDecision, ToolCall, ToolResult
from interlock.engine.core.frozen import frozen, maker


@frozen
class Quick:
    """Made by `frozen`."""

    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)
    input: dict[str, object] = field(default_factory=dict[str, object])

    @property
    def loud(self) -> str:
        return self.name.upper()


@frozen
class Named:
    """Made by `frozen`, with only hashable fields."""

    name: str
    size: int = 3


@dataclass(frozen=True, slots=True)
class Plain:
    """Made by `dataclass`."""

    name: str
    size: int = 3
    tags: list[str] = field(default_factory=list)
    input: dict[str, object] = field(default_factory=dict[str, object])


class TestLikeADataclass:
    """Behaviour that callers rely on."""

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [(("a",), {}), (("a", 1, ["t"], {"k": 1}), {}), (("a",), {"tags": ["x"]}), ((), {"name": "b"})],
    )
    def test_same_values(self, args: Any, kwargs: Any) -> None:
        """Arguments by position or keyword, with defaults, give the same fields and repr in all ways."""
        quick, plain, made = Quick(*args, **kwargs), Plain(*args, **kwargs), maker(Quick)(*args, **kwargs)
        assert quick == made
        assert type(quick) is type(made) is Quick
        for f in fields(plain):
            assert getattr(quick, f.name) == getattr(plain, f.name)
        assert repr(quick) == repr(plain).replace("Plain", "Quick")
        assert quick.loud == quick.name.upper()

    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [((), {}), (("a", 1, [], {}, 5), {}), (("a",), {"nmae": 1}), (("a",), {"name": "b"})],
    )
    def test_wrong_arguments(self, args: Any, kwargs: Any) -> None:
        """Invalid arguments raise a TypeError, as with a dataclass."""
        for make in (Quick, Plain, maker(Quick)):
            with pytest.raises(TypeError):
                make(*args, **kwargs)

    def test_immutable(self) -> None:
        """Fields cannot be set or deleted, however the value was made."""
        for value in (Quick("a"), maker(Quick)("a"), replace(Quick("a"), size=9)):
            with pytest.raises(FrozenInstanceError):
                value.name = "b"  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(FrozenInstanceError):
                del value.size
            assert not hasattr(value, "__dict__")

    def test_own_defaults(self) -> None:
        """Each value gets new lists and objects by default."""
        one, two = Quick("a"), Quick("a")
        assert one.tags is not two.tags
        assert one.input is not two.input

    def test_equality_and_hash(self) -> None:
        """Values of one class are equal and hash by their fields."""
        assert Quick("a") == Quick("a") != Quick("b")
        assert Quick("a") != Plain("a")
        first, second = Named("x"), Named("x")
        assert hash(first) == hash(second)
        with pytest.raises(TypeError, match="unhashable"):
            hash(Quick("a"))

    def test_copies(self) -> None:
        """`replace`, `copy`, `deepcopy` and `pickle` give equal values of the same class."""
        call = ToolCall("1", "bash", {"command": ["ls"]})
        assert replace(call, tool_name="zsh") == ToolCall("1", "zsh", {"command": ["ls"]})
        assert copy.copy(call) == call
        deep = copy.deepcopy(call)
        assert deep == call
        assert deep.input["command"] is not call.input["command"]
        again = pickle.loads(pickle.dumps(call))
        assert (again, type(again)) == (call, ToolCall)

    def test_patterns_and_signature(self) -> None:
        """Positional patterns match, and the signature lists the fields."""
        match ToolResult("1", "bash", {}, True):
            case ToolResult(call_id, tool, _, is_error):
                assert (call_id, tool, is_error) == ("1", "bash", True)
        names = [f.name for f in fields(GateDecision)]
        assert list(inspect.signature(GateDecision).parameters) == names
        assert GateDecision.__match_args__ == tuple(names)


class TestRefuses:
    """Classes that `frozen` does not support."""

    def test_strange_classes(self) -> None:
        """Bases, `__post_init__` and keyword-only fields raise a TypeError."""

        class Checked:
            name: str

            def __post_init__(self) -> None: ...

        class Derived(Plain):
            more: int = 0

        class Computed:
            name: str
            length: int = field(init=False)

        class ByKeyword:
            name: str = field(kw_only=True)

        for strange in (Checked, Derived, Computed, ByKeyword):
            with pytest.raises(TypeError, match=f"{strange.__name__}: frozen takes"):
                frozen(strange)
