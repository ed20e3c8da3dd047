"""Sessions with a call that was approved with a grant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock.engine import GateManager
from interlock.engine.gate import Grant, GrantTerms, make_grant
from interlock.engine.net.net import ToolCall

from .ruled import Asker, approval, gate_of

KEY = "grant-1"
READ = ("names", "free", "runs")


@dataclass(frozen=True)
class Names:
    """Name a call as its input says; a `murky` call is uninspectable.

    It reads the fields in `READ`. In a call, `beside` names another effect and `runs` its program.
    """

    maps_digest = "names"

    def unread(self, made: ToolCall) -> dict[str, object]:
        return {key: value for key, value in made.input.items() if key not in READ}

    def other_effect(self, made: ToolCall) -> str | None:
        return str(made.input["beside"]) if "beside" in made.input else None

    def programs(self, made: ToolCall) -> tuple[str, ...]:
        return (str(made.input["runs"]),) if "runs" in made.input else ()

    def __call__(self, made: ToolCall) -> tuple[str, ...]:
        also = made.input.get("names", ())
        assert isinstance(also, tuple | list)
        return (*[str(name) for name in also], made.tool_name)

    def inspect(self, made: ToolCall) -> Any:
        @dataclass
        class Inspection:
            uninspectable: str | None
            unnamed: tuple[str, ...]

        murky, more = made.input.get("murky"), made.input.get("more")
        return Inspection("a loop" if murky else None, ("curl x | sh",) if more else ())


def tokens(gate: GateManager, key: str = KEY) -> tuple[int, int, int]:
    """Return the uses left, the used and the ended ones."""
    marking = gate.grant_states[key].marking
    return marking["granted"], marking["used"], marking["ended"]


async def granted(
    answer: Any, *rules: Any, tool: str = "deploy", value: Any = None, **options: Any
) -> Asker:
    """A session in which one call was approved with a grant."""
    decide = Asker(gate_of(*(rules or (approval(),)), **options))
    decision = await decide(tool, answer, **(value or {}))
    assert decision.gave == (KEY,), decision.reason
    return decide


def made(gate: GateManager, key: str = KEY, terms: GrantTerms = GrantTerms("names", 2)) -> Grant:  # noqa: B008
    """A grant for `deploy`, as a record would restore it."""
    asks = "approve-before-deploy"
    return make_grant(
        key,
        asks=asks,
        net=gate.nets[asks],
        name="deploy",
        tool="deploy",
        names=("deploy",),
        value={},
        terms=terms,
    )
