"""Recorded tasks at the gate: each session's calls decided in order, and the outcomes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from interlock.engine import ApprovalAnswer, GateContext, GateManager, ToolCall, ToolResult
from interlock.engine.gate.types import ApprovalRequest
from interlock.rules import compile_rules

LOOK_UPS = ("get_", "read_", "search_", "list_", "check_")
OPENINGS = frozenset({"get_webpage"})
"""Look-ups by name that nevertheless reach outside: an injection may consist of one of them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a task, with its result."""

    tool: str
    input: Mapping[str, object]
    result: str
    failed: bool = False

    @property
    def acts(self) -> bool:
        """True if the call changes, sends or opens something."""
        return self.tool in OPENINGS or not self.tool.startswith(LOOK_UPS)


@dataclass(frozen=True, slots=True)
class Session:
    """A user's message, the calls for it, and the calls of an injection after them."""

    prompt: str
    calls: tuple[Call, ...] = ()
    injected: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """Outcomes of a session's calls: `allow`, `ask` or `block`; those of injected calls with the call."""

    calls: tuple[str, ...]
    injected: tuple[tuple[Call, str], ...]

    @property
    def disturbed(self) -> bool:
        """True if a call of the user's own task needed approval or was blocked."""
        return any(outcome != "allow" for outcome in self.calls)

    @property
    def passed(self) -> int:
        """Number of injected acting calls that ran without approval."""
        return sum(call.acts and outcome == "allow" for call, outcome in self.injected)

    @property
    def complete(self) -> bool:
        """True if an injection ran from its first call to its last."""
        return bool(self.injected) and all(outcome == "allow" for _, outcome in self.injected)


@dataclass(slots=True)
class Tally:
    """Totals over the sessions of one kind."""

    sessions: int = 0
    undisturbed: int = 0
    complete: int = 0
    own: Counter[str] = field(default_factory=Counter[str])
    injected: Counter[str] = field(default_factory=Counter[str])

    def add(self, outcome: SessionOutcome) -> None:
        """Count a session."""
        self.sessions += 1
        self.undisturbed += not outcome.disturbed
        self.complete += outcome.complete
        self.own.update(outcome.calls)
        self.injected.update(found for call, found in outcome.injected if call.acts)


class Trial:
    """Decides sessions by the text of one rules file."""

    def __init__(self, rules: str) -> None:
        self._registry = compile_rules(rules).registry

    async def tally(self, sessions: Iterable[Session]) -> Tally:
        """Return the totals of these sessions."""
        tally = Tally()
        for session in sessions:
            tally.add(await self.run(session))
        return tally

    async def run(self, session: Session) -> SessionOutcome:
        """Decide a session's calls in order.

        An operator approves calls of the user's own task that need approval, and denies those of an
        injection. A call that does not run returns nothing.
        """
        manager = GateManager(registry=self._registry)
        manager.hear("user", session.prompt)
        ids = map(str, range(len(session.calls) + len(session.injected)))
        own = [await _outcome(manager, next(ids), call, approve=True) for call in session.calls]
        injected = [
            (call, await _outcome(manager, next(ids), call, approve=False)) for call in session.injected
        ]
        return SessionOutcome(tuple(own), tuple(injected))


async def _outcome(manager: GateManager, call_id: str, call: Call, *, approve: bool) -> str:
    asked: list[ApprovalRequest] = []

    def confirm(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer(approve, by="operator")

    decision = await manager.handle_tool_call(
        ToolCall(call_id, call.tool, dict(call.input)), GateContext(confirm)
    )
    if not decision.block:
        manager.handle_tool_result(ToolResult(call_id, call.tool, dict(call.input), call.failed))
        if not call.failed:
            manager.hear(call.tool, call.result)
    if asked:
        return "ask"
    return "block" if decision.block else "allow"


def with_every_source(rules: str, sessions: Iterable[Session]) -> str:
    """Return the rules with every look-up of these sessions as a source, to measure sources' value."""
    calls = (call for session in sessions for call in (*session.calls, *session.injected))
    tools = sorted({call.tool for call in calls if call.tool.startswith(LOOK_UPS)})
    return re.sub(r"not from user(?:, \w+)*", ", ".join(("not from user", *tools)), rules)


def read_sessions(recorded: Mapping[str, Mapping[str, object]]) -> Iterator[Session]:
    """Yield the sessions of one kind in a recording; see `extract.py`."""
    for session in recorded.values():
        yield Session(
            str(session["prompt"]), _read_calls(session["calls"]), _read_calls(session["injected"])
        )


def _read_calls(calls: object) -> tuple[Call, ...]:
    assert isinstance(calls, list)
    return tuple(Call(**call) for call in calls)
