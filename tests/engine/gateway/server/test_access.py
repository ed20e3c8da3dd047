"""The server's guard, header by header."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.datastructures import Headers

from interlock.engine.gateway.protocol.tokens import Identity, TokenFile
from interlock.engine.gateway.server.admission import Guard, Refused
from interlock.engine.gateway.server.limits import Failures

HOST = "127.0.0.1:8737"


class Door:
    def __init__(self, directory: Path, **options: object) -> None:
        tokens = TokenFile(directory / "tokens.json")
        self.agent = tokens.issue("agent", "bot")
        self.operator = tokens.issue("operator", "ada")
        hosts = frozenset({HOST, "localhost:8737"})
        self.tokens = tokens
        self.guard = Guard(tokens, Failures(5), hosts, **options)  # type: ignore[arg-type]

    def ask(self, *headers: tuple[str, str], path: str = "/agent") -> Identity | int:
        found = self.guard.check(path, Headers([("Host", HOST), *headers]), "10.0.0.1")
        return int(found.status) if isinstance(found, Refused) else found


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def bearer(secret: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {secret}"


class TestTokens:
    def test_right_kind_is_accepted(self, door: Door) -> None:
        """A token of the right kind is accepted in any spelling of the scheme, with the token's name."""
        found = door.ask(("authorization", f"bEARER  {door.agent} "))
        assert isinstance(found, Identity)
        assert (found.kind, found.name) == ("agent", "bot")

    def test_token_as_subprotocol(self, door: Door) -> None:
        """A client that cannot set headers sends its token as a subprotocol."""
        found = door.ask(("Sec-WebSocket-Protocol", f"interlock.v1, bearer.{door.agent}"))
        assert isinstance(found, Identity)
        assert door.ask(("Sec-WebSocket-Protocol", "interlock.v1, bearer.x")) == 401

    def test_two_tokens_are_refused(self, door: Door) -> None:
        """Two tokens or two headers are refused, even with the same token."""
        offered = ("Sec-WebSocket-Protocol", f"bearer.{door.agent}")
        assert door.ask(bearer(door.agent), offered) == 400
        assert door.ask(offered, offered) == 400
        assert door.ask(bearer(door.agent), bearer(door.agent)) == 400

    @pytest.mark.parametrize(
        "headers",
        [
            (),
            (("Authorization", "Bearer"),),
            (("Authorization", "Bearer "),),
            (("Authorization", "Basic {agent}"),),
            (("Authorization", "{agent}"),),
            (("Authorization", "Bearer {agent}x"),),
            (("Authorization", "Bearer {agent} {agent}"),),
            (("Cookie", "token={agent}"),),
        ],
    )
    def test_incomplete_or_misplaced_token_is_refused(
        self, door: Door, headers: tuple[tuple[str, str], ...]
    ) -> None:
        """A request without a complete token in the right place is refused."""
        given = [(name, value.replace("{agent}", door.agent)) for name, value in headers]
        assert door.ask(*given) == HTTPStatus.UNAUTHORIZED

    def test_other_kind_is_refused(self, door: Door) -> None:
        """An agent's token is refused for consoles, and an operator's for agents."""
        assert door.ask(bearer(door.agent), path="/console") == 403
        assert door.ask(bearer(door.operator), path="/agent") == 403
        assert isinstance(door.ask(bearer(door.operator), path="/console"), Identity)
        refused = door.guard.check("/console", Headers([("Host", HOST), bearer(door.agent)]), "10.0.0.1")
        assert isinstance(refused, Refused)
        assert refused.why == "This token is an agent's; /console needs an operator's"

    def test_untrusted_token_file_refuses_valid_token(self, door: Door) -> None:
        """A valid token is refused while others can read the file of tokens."""
        door.tokens.path.chmod(0o644)
        assert door.ask(bearer(door.agent)) == 503

    def test_repeated_wrong_tokens_must_wait(self, door: Door) -> None:
        """Repeated wrong tokens from an address must wait; a valid token from it is accepted."""
        said = [door.ask(bearer("wrong")) for _ in range(7)]
        assert said == [401] * 5 + [429] * 2
        assert isinstance(door.ask(bearer(door.agent)), Identity)


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["evil.example:8737", "127.0.0.1", "127.0.0.1:80", "localhost.:8737", "", "[::]:8737"]
    )
    def test_foreign_host_name_is_refused(self, door: Door, host: str) -> None:
        """A host name that is not one of the server's is refused."""
        found = door.guard.check("/agent", Headers([("Host", host), bearer(door.agent)]), "")
        assert isinstance(found, Refused)
        assert found.status == HTTPStatus.MISDIRECTED_REQUEST

    def test_missing_or_second_host_header_is_refused(self, door: Door) -> None:
        """A request with no Host header or two is refused."""
        found = door.guard.check("/agent", Headers([bearer(door.agent)]), "")
        assert isinstance(found, Refused)
        assert door.ask(("Host", HOST), bearer(door.agent)) == 400

    def test_server_on_every_address_accepts_ip_hosts(self, tmp_path: Path) -> None:
        """A server on every address accepts IP addresses as hosts, but no names."""
        door = Door(tmp_path, any_address=True)

        def status(host: str) -> int:
            found = door.guard.check("/agent", Headers([("Host", host), bearer(door.agent)]), "")
            return int(found.status) if isinstance(found, Refused) else 101

        good = ("192.168.1.5:8737", "[fe80::1]:8737", "10.0.0.1")
        bad = (
            "evil.example",
            "10.0.0.1.evil.example",
            "[::1",
            "[::1]evil",
            "1.2.3.4:x",
            "999.1.1.1",
            "1.2",
        )
        assert {status(host) for host in good} == {101}
        assert {status(host) for host in bad} == {421}


class TestOrigins:
    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:8737", ""])
    def test_page_of_other_origin_is_refused(self, door: Door, origin: str) -> None:
        """A browser's page of an origin that is not allowed is refused, also with a valid token."""
        assert door.ask(("Origin", origin), bearer(door.agent)) == 403

    def test_allowed_page_still_needs_a_token(self, tmp_path: Path) -> None:
        """An allowed page still needs a token, and two Origin headers are refused."""
        door = Door(tmp_path, origins=("https://ops.example",))
        origin = ("Origin", "https://ops.example")
        assert isinstance(door.ask(origin, bearer(door.agent)), Identity)
        assert door.ask(origin) == 401
        assert door.ask(origin, origin, bearer(door.agent)) == 400

    def test_wrong_tokens_of_refused_page_do_not_count(self, door: Door) -> None:
        """Wrong tokens of a refused page do not count for the address."""
        for _ in range(20):
            assert door.ask(("Origin", "https://evil.example"), bearer("wrong")) == 403
        assert door.ask(bearer("wrong")) == 401


class TestPaths:
    def test_other_paths_do_not_exist(self, door: Door) -> None:
        """Only `/agent` and `/console` exist."""
        for path in ("/", "/agent/", "/AGENT", "/console/../agent", "//agent"):
            assert door.ask(bearer(door.agent), path=path) == 404
