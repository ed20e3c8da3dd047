"""Kinds of operators' tokens, and read-only consoles: the methods that each may call."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from interlock.engine.core.rights import KINDS, Rights, may
from interlock.engine.gate.types import GrantTerms
from interlock.engine.gateway import RequestFailedError
from interlock.engine.gateway.client.console import ConsoleClient
from interlock.engine.gateway.protocol.agent_methods import HELLO
from interlock.engine.gateway.protocol.console_methods import CONSOLE_METHODS
from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.gateway.protocol.schema import METHODS
from interlock.engine.gateway.protocol.tokens import TokenError, TokenFile

from ..client.examples import EXAMPLES
from ..served import Served, raw, served, until
from ..server.test_attacks_inside import ASKS, ask, code, wait_for_a_person

CHANGES: dict[str, Rights] = {
    "agents.freeze": "decide",
    "agents.lift": "administer",
    "approval.claim": "decide",
    "approval.comment": "decide",
    "approval.decide": "decide",
    "approval.extend": "decide",
    "approval.reading": "decide",
    "approval.reveal": "decide",
    "approval.take_back": "decide",
    "approval.unclaim": "decide",
    "passkey.begin": "decide",
    "passkey.challenge": "decide",
    "passkey.confirm": "decide",
    "passkey.register": "decide",
    "passkey.remove": "decide",
    "session.abort": "decide",
    "session.compact": "decide",
    "session.end": "decide",
    "session.send": "decide",
    "change.confirm": "administer",
    "change.drop": "administer",
    "grant.revoke": "administer",
    "net.toggle": "administer",
    "history.resume": "administer",
    "session.set_mode": "administer",
    "rules.apply": "administer",
    "rules.drop": "administer",
    "session.accept_loss": "decide",
    "session.raise_limit": "administer",
    "session.start": "administer",
}


@asynccontextmanager
async def read_only(server: Served, secret: str) -> AsyncGenerator[ClientConnection, None]:
    """Yield a raw console connection that connects as read-only."""
    from websockets.asyncio.client import connect

    from interlock.engine.gateway.server.admission import SUBPROTOCOL

    headers = {"Authorization": f"Bearer {secret}"}
    hello = {"versions": [1], "read_only": True}
    async with connect(
        f"{server.url}/console", additional_headers=headers, subprotocols=[SUBPROTOCOL]
    ) as socket:
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": HELLO, "params": hello}))
        assert json.loads(await socket.recv())["result"]["rights"] == "look"
        yield socket


async def refused(socket: ClientConnection) -> set[str]:
    """Return the console methods that are refused on a connection."""
    return {
        method.name
        for method in CONSOLE_METHODS
        if code(await ask(socket, method.name, **EXAMPLES[method.name][0])) == Code.NOT_ALLOWED
    }


class TestTheTable:
    def test_every_method_declares_its_kind(self) -> None:
        """Every method that changes something needs more than `look`, and no other method does."""
        operators = {each.name: each.needs for each in METHODS if each.kind == "operator"}
        assert {name: needs for name, needs in operators.items() if needs != "look"} == CHANGES
        assert set(operators.values()) == set(KINDS)
        assert {each.needs for each in METHODS if each.kind == "agent"} == {"agent"}

    def test_each_kind_includes_those_before_it(self) -> None:
        """Each kind includes the kinds before it; an agent's token has none."""
        found = {have: [each for each in KINDS if may(have, each)] for have in KINDS}
        assert found == {"look": ["look"], "decide": ["look", "decide"], "administer": list(KINDS)}
        assert not any(may(None, each) or may(each, "agent") for each in KINDS)


class TestTheServer:
    @pytest.mark.variants
    @pytest.mark.parametrize("rights", KINDS)
    async def test_methods_beyond_the_kind_are_refused(self, tmp_path: Path, rights: Rights) -> None:
        """Each method is called with a token of each kind; the refusal names the remedy."""
        async with served(tmp_path) as server:
            secret = server.tokens.issue("operator", "cy", rights=rights)
            async with raw(server, secret, "/console") as socket:
                assert await refused(socket) == {
                    n for n, needs in CHANGES.items() if not may(rights, needs)
                }
                found = await ask(socket, "net.toggle", **EXAMPLES["net.toggle"][0])
                assert found.error is not None
                remedy = "interlock token rotate cy --kind administer"
                assert (remedy in found.error.message) is (rights != "administer")

    async def test_a_read_only_console_changes_nothing(self, tmp_path: Path) -> None:
        """A read-only console is refused every change, whatever its token allows."""
        async with served(tmp_path) as server, read_only(server, server.ada) as socket:
            assert await refused(socket) == set(CHANGES)
            found = await ask(socket, "session.end", **EXAMPLES["session.end"][0])
            assert found.error is not None
            assert "connect without --read-only" in found.error.message

    async def test_clients_know_their_rights(self, tmp_path: Path) -> None:
        """A console knows its rights, and a refused method returns the reason."""
        async with served(tmp_path) as server:
            secret = server.tokens.issue("operator", "cy", rights="decide")
            async with (
                ConsoleClient(server.url, server.ada) as ada,
                ConsoleClient(server.url, server.ada, read_only=True) as looking,
                ConsoleClient(server.url, secret) as cy,
            ):
                assert [each.rights for each in (ada, looking, cy)] == ["administer", "look", "decide"]
                with pytest.raises(RequestFailedError, match="read-only"):
                    await looking.close_session("bot-1")
                outcome = await cy.set_mode("bot-1", "shadow", reason="trial")
                assert not outcome.ok
                assert "needs a token of kind 'administer', and that of 'cy' is of kind 'decide'" in (
                    outcome.message
                )

    async def test_deciding_token_cannot_add_a_grant(self, tmp_path: Path) -> None:
        """A token that may only decide cannot add a grant, and the request stays open."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            await wait_for_a_person(server, gate, "c1")
            [waits] = await server.hub.approvals()
            secret = server.tokens.issue("operator", "cy", rights="decide")
            async with server.console(secret) as cy:
                terms = GrantTerms("names", None, None, False)
                said = await cy.decide(
                    waits.id, approved=True, digest=waits.digest, reason="a release", grant=terms
                )
                assert not said.ok
                assert "a grant needs a token of kind 'administer'" in said.message
                assert (await cy.decide(waits.id, approved=True, digest=waits.digest)).ok


def edited(server: Served, of: str, /, **members: str | None) -> None:
    """Edit the entry of a token in tokens.json; `None` removes a field."""
    content = json.loads(server.tokens.path.read_text())
    [entry] = [each for each in content["tokens"] if each["name"] == of]
    entry |= members
    for gone in [key for key, value in entry.items() if value is None]:
        del entry[gone]
    server.tokens.path.write_text(json.dumps(content))


class TestAnOpenConnection:
    """The rights of a token are those in its file at the next request."""

    async def test_reduced_rights_close_the_connection(self, tmp_path: Path) -> None:
        """A request after the rights were reduced is not executed, and the connection is closed."""
        async with (
            served(tmp_path, rules=ASKS) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            async with raw(server, server.ada, "/console") as socket:
                assert (
                    code(await ask(socket, "session.set_mode", session=gate.id, mode="enforce")) is None
                )
                edited(server, "ada", rights="look")
                with pytest.raises(ConnectionClosed, match="reconnect"):
                    await ask(socket, "session.set_mode", session=gate.id, mode="shadow", reason="mine")
                assert socket.close_code == 1012
            assert (await server.hub.session(gate.id)).mode == "enforce"
            async with raw(server, server.ada, "/console") as socket:
                again = await ask(
                    socket, "session.set_mode", session=gate.id, mode="shadow", reason="mine"
                )
                assert code(again) == Code.NOT_ALLOWED

    async def test_reconnects_with_remaining_rights(self, tmp_path: Path) -> None:
        """A console whose rights were reduced reconnects with the remaining rights."""
        async with served(tmp_path) as server, server.console() as ada:
            edited(server, "ada", rights="look")

            async def told() -> bool:
                await ada.sessions()
                return ada.rights == "look"

            await until(told)

    @pytest.mark.parametrize(
        ("path", "name", "change"),
        [
            ("/console", "ada", {"name": "eve"}),
            ("/console", "ada", {"kind": "agent", "rights": None}),
            ("/agent", "bot", {"kind": "operator"}),
            ("/agent", "bot", {"owner": "ada"}),
        ],
    )
    async def test_ends_if_name_kind_or_owner_changes(
        self, tmp_path: Path, path: str, name: str, change: dict[str, str | None]
    ) -> None:
        """A connection ends if its token's name, kind or owner changes."""
        async with served(tmp_path) as server:
            secret = server.ada if name == "ada" else server.agent
            async with raw(server, secret, path) as socket:
                edited(server, name, **change)
                with pytest.raises(ConnectionClosed):
                    await ask(socket, "session.history" if name == "ada" else "session.open")
                assert socket.close_code == 1012

    async def test_first_approval_is_void_after_rights_are_reduced(self, tmp_path: Path) -> None:
        """The first of two approvals no longer counts once its token may only look."""
        rules = "require human-approval before deploy by 2"
        async with (
            served(tmp_path, rules=rules) as server,
            server.agent_client() as client,
            client.session("bot") as gate,
        ):
            await wait_for_a_person(server, gate, "c1")
            async with server.console() as ada, server.console(server.ben) as ben:
                [waits] = await server.hub.approvals()
                assert (await ada.decide(waits.id, approved=True, digest=waits.digest)).ok
                edited(server, "ada", rights="look")
                said = await ben.decide(waits.id, approved=True, digest=waits.digest)
                assert not said.ok
                assert "The approval of ada no longer counts" in said.message


class TestLargeNumbers:
    async def test_number_beyond_64_bits_is_invalid(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A number beyond 64 bits is an invalid parameter and causes no server error."""
        async with served(tmp_path) as server, raw(server, server.ada, "/console") as socket:
            asked = 0
            for method in CONSOLE_METHODS:
                for example in EXAMPLES[method.name]:
                    for name, value in example.items():
                        if type(value) is int:
                            found = await ask(socket, method.name, **{**example, name: 2**63})
                            assert code(found) == Code.PARAMS, (method.name, name)
                            asked += 1
            assert asked >= 8
            assert not [each for each in caplog.records if each.levelname == "ERROR"]


class TestTokens:
    def test_token_without_kind_keeps_all_rights(self, tmp_path: Path) -> None:
        """An operator's token without a kind keeps all rights, also after its rotation."""
        tokens = TokenFile(tmp_path / "tokens.json")
        secret = tokens.issue("operator", "ada", rights="look")
        text = tokens.path.read_text()
        assert '"rights": "look"' in text
        tokens.path.write_text(text.replace(',\n      "rights": "look"', ""))
        found = tokens.find(secret)
        assert found is not None
        assert found.rights == "administer"
        tokens.rotate("ada")
        assert [each.rights for each in tokens.tokens()] == ["administer"]

    def test_kind_is_kept_until_rotation_changes_it(self, tmp_path: Path) -> None:
        """A token keeps its kind until a rotation changes it, for the new secret only."""
        tokens = TokenFile(tmp_path / "tokens.json")
        tokens.issue("operator", "ada", rights="look")
        old = tokens.rotate("ada")
        new = tokens.rotate("ada", rights="decide", overlap=60)
        found = [tokens.find(each) for each in (old, new)]
        assert [None if each is None else each.rights for each in found] == ["look", "decide"]

    def test_agent_token_cannot_get_a_kind(self, tmp_path: Path) -> None:
        """An agent's token cannot get a kind."""
        tokens = TokenFile(tmp_path / "tokens.json")
        with pytest.raises(TokenError, match="only an operator's"):
            tokens.issue("agent", "bot", rights="administer")
        secret = tokens.issue("agent", "bot")
        with pytest.raises(TokenError, match="only an operator's"):
            tokens.rotate("bot", rights="look")
        found = tokens.find(secret)
        assert found is not None
        assert found.rights is None
