"""An agent elsewhere, as tests play it."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from interlock.engine.core.value_key import value_net
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.reader import open_reader
from interlock.engine.history.model.events import EventBody, JournalEvent
from interlock.engine.hub.hub import CallAnswer, ExternalAgent, Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from .shop import RULES

AGENT = ExternalAgent(
    name="robin", workdir="/srv/shop", tools=("test", "deploy"), labels={"test": "Test"}
)
NETS = compile_rules(RULES).registry

T = TypeVar("T", bound=EventBody)


async def opened(hub: Hub, rules: str = RULES, **terms: object) -> str:
    """A session named `robin-1` under `rules`."""
    driver, registry = terms.pop("driver", None), compile_rules(rules).registry
    config = SessionConfig(registry, by="ada", **terms)
    return await hub.open_external(AGENT, config, session_id="robin-1", driver=driver)


async def resumed(hub: Hub, session: str = "robin-1", rules: str = RULES, **terms: object) -> str:
    driver, registry = terms.pop("driver", None), compile_rules(rules).registry
    config = SessionConfig(registry, by="ada", **terms)
    return await hub.resume_external(session, AGENT, config, driver=driver)


async def ran(hub: Hub, session: str, call_id: str, tool: str, *, failed: bool = False) -> CallAnswer:
    """A call that the nets allow, and its result."""
    answer = await hub.call(session, call_id, tool, {})
    assert answer.outcome == "allow", answer
    await hub.result(session, call_id, output=f"{tool} ok", is_error=failed, seconds=1.0)
    return answer


def recorded(database: Path, kind: type[T], session: str = "robin-1") -> list[T]:
    """What the file holds of one kind, read by a connection of its own."""
    return [e.body for e in events(database, session) if isinstance(e.body, kind)]


def events(database: Path, session: str = "robin-1") -> list[JournalEvent]:
    return list(open_reader(database).events(session))


async def check_fold(hub: Hub, session: str = "robin-1") -> None:
    """The live state and the live gate are the fold of the record."""
    state, gate = await hub.session(session), hub._live.hosted(session).manager
    folded = fold(await hub.recorded(session))
    assert folded == state
    assert {k: n.marking for k, n in folded.nets.items()} == {
        k: s.marking for k, s in gate.states.items()
    }
    assert (tuple(folded.active), folded.mode) == (gate.active, gate.mode)
    assert {k: v.marking for k, v in folded.values.items()} == {
        value_net(k, d): v.marking for k, s in gate.states.items() for d, v in s.values.items()
    }
    assert {k: g.net.marking for k, g in folded.grants.items() if g.net.active} == {
        k: s.marking for k, s in gate.grant_states.items()
    }
    waiting = {call.tool_call_id for *_, call in gate.pending}
    assert {p.call_id for p in folded.pending} == waiting


EMPTY: dict[str, JsonValue] = {}
