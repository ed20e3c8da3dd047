"""Whatever a console asks of a hub it can ask of a server, in the same words."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from interlock.app.sessions.start import StartsAgents
from interlock.app.sources.api import HubApi
from interlock.app.sources.read_only import READING, ReadOnlyHub
from interlock.app.sources.watch import WatchedJournal
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.hub.hub import Hub

NAMES = sorted(name for name in dir(HubApi) if not name.startswith("_"))


def words(kind: type, name: str) -> list[tuple[str, object]]:
    """The parameters of a method, and how each is given.

    A server tells its hub with which token an operator came, which no console says of itself.
    """
    signature = inspect.signature(getattr(kind, name))
    every = signature.parameters.values()
    return [(each.name, each.kind) for each in every if kind is not Hub or each.name != "credential"]


def is_property(name: str) -> bool:
    return isinstance(inspect.getattr_static(HubApi, name), property)


def may_be_left_out(kind: type, name: str) -> set[str]:
    signature = inspect.signature(getattr(kind, name))
    return {each.name for each in signature.parameters.values() if each.default is not each.empty}


@pytest.mark.parametrize("kind", [Hub, ConsoleClient])
@pytest.mark.parametrize("name", NAMES)
def test_answers(kind: type, name: str) -> None:
    """A hub of this process and one behind a connection are asked the same way."""
    assert hasattr(kind, name)
    if not is_property(name):
        assert words(kind, name) == words(HubApi, name)
        assert may_be_left_out(kind, name) >= may_be_left_out(HubApi, name)


@pytest.mark.parametrize("kind", [Hub, ConsoleClient])
@pytest.mark.parametrize("name", [n for n in NAMES if not is_property(n)])
def test_is_awaited_alike(kind: type, name: str) -> None:
    """What is awaited of the one is awaited of the other; parts of an answer are iterated."""
    asked, there = getattr(HubApi, name), getattr(kind, name)
    assert inspect.iscoroutinefunction(asked) == inspect.iscoroutinefunction(there)


@pytest.mark.parametrize("name", sorted(set(NAMES) & READING))
def test_a_watched_journal_answers_questions(name: str) -> None:
    """A console that watches a file asks the same questions of it."""
    assert hasattr(WatchedJournal, name)
    if not is_property(name):
        assert words(WatchedJournal, name) == words(HubApi, name)


def test_what_is_read_is_in_the_door() -> None:
    """Nothing is readable in a read-only console that no console can ask, but for waiting."""
    assert set(NAMES) >= READING - {"wait", "steers", "takes_edits"}
    assert isinstance(ReadOnlyHub(object()).spawn_in, object)


@pytest.mark.parametrize("name", sorted(n for n in vars(StartsAgents) if not n.startswith("_")))
def test_starts_agents(name: str) -> None:
    """A server starts agents as a console asks for them."""
    assert words(ConsoleClient, name) == words(StartsAgents, name)


def test_the_console_opens_no_journal() -> None:
    """No screen asks for the journal's file, which may be on another machine."""
    app = Path(inspect.getfile(HubApi)).parents[1]
    for path in (*app.rglob("screens/**/*.py"), *app.rglob("widgets/**/*.py"), *app.glob("console/*.py")):
        assert ".database" not in path.read_text(), path
