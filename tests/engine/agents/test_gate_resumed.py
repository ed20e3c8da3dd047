"""Gates of sessions that are resumed from a store."""

from __future__ import annotations

import pytest

from interlock.engine.agents import (
    Agent,
    AgentError,
    C,
    InMemorySessionStore,
    Reply,
    ScriptedModel,
    Session,
    T,
    ToolMessage,
    tool,
)
from interlock.engine.gate import GateManager, create_gate
from interlock.rules import compile_rules

RULES = "limit note to 1 per session\nrequire check before ship\n"
NETS = list(compile_rules(RULES).registry.values())


@tool
async def note() -> str:
    """Note."""
    return "noted"


@tool
async def check(fail: bool = False) -> str:
    """Check, or fail to."""
    return "Error: it does not fit" if fail else "fits"


@tool
async def ship() -> str:
    """Ship."""
    return "shipped"


async def resumed_session(gate: object, *first: Reply) -> Session:
    """Return a session that made the calls of `first` and is resumed with another model."""
    store = InMemorySessionStore()
    tools = [note, check, ship]
    agent = Agent(ScriptedModel([*first, T("ok")]), tools=tools, store=store, gate=create_gate(NETS))
    await (await agent.create_session("s")).prompt("go")
    again = agent.replace(
        model=ScriptedModel([C(c8=("note", {}), c9=("ship", {})), T("done")]), gate=gate
    )
    return await again.resume_session("s")


def outcomes(session: Session) -> list[bool]:
    return [m.is_error for m in session.messages if isinstance(m, ToolMessage)][-2:]


class TestResumed:
    async def test_limits_and_unlocks_follow_the_history(self) -> None:
        """G-32: a used limit stays used, and earlier successes still unlock."""
        session = await resumed_session(create_gate(NETS), C(c1=("note", {}), c2=("check", {})))
        await session.prompt("on")
        assert outcomes(session) == [True, False]

    async def test_returned_failure_unlocks_nothing(self) -> None:
        """G-71: a returned failure unlocks nothing, before and after the resumption."""
        session = await resumed_session(lambda: create_gate(NETS), C(c1=("check", {"fail": True})))
        await session.prompt("on")
        assert outcomes(session) == [False, True]

    async def test_function_that_makes_a_new_manager_is_refused(self) -> None:
        """G-32: a function that makes a new manager is refused, because it would refill every limit."""
        with pytest.raises(AgentError, match=r"makes a new GateManager.*Pass the result of create_gate"):
            await resumed_session(lambda: GateManager(NETS), C(c1=("note", {})))

    async def test_given_manager_is_not_changed(self) -> None:
        """G-32: a manager passed by the author is not changed."""
        manager = GateManager(NETS)
        await resumed_session(manager, C(c1=("note", {})))
        assert manager.format_status() == GateManager(NETS).format_status()
