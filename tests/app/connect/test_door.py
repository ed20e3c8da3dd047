"""A console can make the same requests of a server as of a hub."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from interlock.app.hosting.server import HubStarter
from interlock.app.sources.read_only import ReadOnlyError, read_only
from interlock.app.sources.watch import WatchedJournal
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.console_methods import CONSOLE_METHODS, OPERATIONS
from interlock.engine.hub.api import AgentStarter, HubApi
from interlock.engine.hub.hub import Hub
from interlock.engine.hub.operations import operations, query

from ...support.fake_hub import FakeHub

DECLARED = operations(HubApi)
METHODS = [name for name in DECLARED if not isinstance(inspect.getattr_static(HubApi, name), property)]
SERVERS = (Hub, HubStarter)
QUERIES = sorted(name for name, each in DECLARED.items() if not each.changes)


def parameters_of(kind: type, name: str) -> list[tuple[str, object]]:
    """Return the names and kinds of a method's parameters.

    The credential and the console are left out: a server adds them for its hub.
    """
    signature = inspect.signature(getattr(kind, name))
    every = signature.parameters.values()
    told = {"credential", "console"} if kind in SERVERS else set()
    return [(each.name, each.kind) for each in every if each.name not in told]


def optional_parameters(kind: type, name: str) -> set[str]:
    signature = inspect.signature(getattr(kind, name))
    return {each.name for each in signature.parameters.values() if each.default is not each.empty}


class TestOperations:
    """The declared operations and their implementations."""

    def test_every_public_method_is_declared(self) -> None:
        """Every public method of the API has a declaration, which says whether it changes something."""
        public = {name for name in dir(HubApi) if not name.startswith("_")}
        assert public == set(DECLARED)

    @pytest.mark.parametrize("kind", [Hub, ConsoleClient, FakeHub])
    @pytest.mark.parametrize("name", METHODS)
    def test_implementations_have_the_declared_parameters(self, kind: type, name: str) -> None:
        """Each implementation has the declared parameters, and is a coroutine if declared so."""
        assert parameters_of(kind, name) == parameters_of(HubApi, name)
        assert optional_parameters(kind, name) >= optional_parameters(HubApi, name)
        asked, there = getattr(HubApi, name), getattr(kind, name)
        assert inspect.iscoroutinefunction(asked) == inspect.iscoroutinefunction(there)

    @pytest.mark.parametrize("kind", [HubStarter, ConsoleClient])
    @pytest.mark.parametrize("name", operations(AgentStarter))
    def test_server_starts_agents_with_the_sent_parameters(self, kind: type, name: str) -> None:
        """A server starts agents with the parameters that a console sends."""
        assert parameters_of(kind, name) == parameters_of(AgentStarter, name)

    @pytest.mark.parametrize("kind", [Hub, ConsoleClient, FakeHub])
    def test_every_implementation_is_complete(self, kind: type) -> None:
        """Every implementation has all operations; with a further declaration it would be abstract."""
        assert not inspect.isabstract(kind)

        async def later(_: object) -> None:
            """Do something that is not implemented."""

        assert inspect.isabstract(type("Later", (kind,), {"later": query(later)}))

    def test_server_offers_every_operation(self) -> None:
        """A server offers every declared operation, and no other method changes anything."""
        names = {each.wire_name for api in (HubApi, AgentStarter) for each in operations(api).values()}
        assert names - {""} == set(OPERATIONS)
        assert set(OPERATIONS) <= {method.name for method in CONSOLE_METHODS}
        changing = {method.name for method in CONSOLE_METHODS if method.needs != "look"}
        assert changing == {name for name, each in OPERATIONS.items() if each.changes}

    def test_client_has_no_other_methods(self) -> None:
        """A client has no other method of a hub, apart from opening and closing its connection."""
        of_hubs = {name for name in dir(Hub) if not name.startswith("_")}
        own = {name for name in dir(ConsoleClient) if not name.startswith("_")}
        assert own & of_hubs == set(DECLARED) | {"open", "close"}


class TestReadOnly:
    @pytest.mark.parametrize("name", QUERIES)
    def test_watched_journal_answers_queries(self, name: str) -> None:
        """A watched journal file answers the same queries."""
        assert hasattr(WatchedJournal, name)
        if name in METHODS:
            assert parameters_of(WatchedJournal, name) == parameters_of(HubApi, name)

    @pytest.mark.parametrize("name", [*DECLARED, "undeclared"])
    def test_only_queries_are_answered(self, name: str) -> None:
        """Queries are answered; changing and undeclared operations are refused."""

        class Answering:
            def __getattr__(self, name: str) -> object:
                return lambda: "answered"

        found = getattr(read_only(Answering()), name)
        if name in QUERIES:
            assert found() == "answered"
        elif name != "spawn_in":  # only within this process, where a read-only console has no agents
            with pytest.raises(ReadOnlyError):
                found()


def test_console_opens_no_journal() -> None:
    """No screen uses the journal's file, which may be on another machine."""
    app = Path(inspect.getfile(HubStarter)).parents[1]
    for path in (*app.rglob("screens/**/*.py"), *app.rglob("widgets/**/*.py"), *app.glob("console/*.py")):
        assert ".database" not in path.read_text(), path
