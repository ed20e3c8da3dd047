"""The file of tokens: who may connect, and who may read that."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest

from interlock.engine.gateway.protocol.tokens import TokenError, TokenFile, read_secret, write_private
from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> TokenFile:
    return TokenFile(tmp_path / "conf" / "tokens.json", clock)


class TestTheFile:
    def test_mode_and_content(self, tokens: TokenFile) -> None:
        """Only its owner may read it, and who does finds no token in it."""
        secret = tokens.issue("agent", "bot")
        assert tokens.path.stat().st_mode & 0o777 == 0o600
        assert tokens.path.parent.stat().st_mode & 0o777 == 0o700
        assert secret not in tokens.path.read_text()
        assert not [each for each in tokens.path.parent.iterdir() if each.stat().st_mode & 0o077]

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
    def test_others_may_read_or_write(self, tokens: TokenFile, mode: int) -> None:
        """A file that is open to others is trusted by nobody, and the error has the remedy."""
        secret = tokens.issue("agent", "bot")
        tokens.path.chmod(mode)
        with pytest.raises(TokenError, match="chmod 600"):
            tokens.find(secret)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_another_user_s(self, tokens: TokenFile) -> None:
        """A file of somebody else is trusted by nobody."""
        secret = tokens.issue("agent", "bot")
        os.chown(tokens.path, 12345, -1)
        with pytest.raises(TokenError, match="another user"):
            tokens.find(secret)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{", "is not JSON"),
            ("[]", "dictionary"),
            ('{"version": 2}', "version"),
            ('{"tokens": [{"id": "x"}]}', "tokens.0"),
            ('{"tokens": [], "more": 1}', "more"),
        ],
    )
    def test_broken(self, tokens: TokenFile, text: str, said: str) -> None:
        """What is wrong with it is said with its place; nobody is let in meanwhile."""
        secret = tokens.issue("agent", "bot")
        write_private(tokens.path, text)
        with pytest.raises(TokenError, match=said):
            tokens.find(secret)

    def test_a_digest_that_is_none(self, tokens: TokenFile) -> None:
        """A digest that no token could have is found at once, and its value is not shown."""
        secret = tokens.issue("agent", "bot")
        content = json.loads(tokens.path.read_text())
        content["tokens"][0]["digest"] = "hündchen"
        write_private(tokens.path, json.dumps(content))
        with pytest.raises(TokenError, match=r"digest") as found:
            tokens.find(secret)
        assert "hündchen" not in str(found.value)

    def test_a_directory_or_a_pipe(self, tmp_path: Path) -> None:
        """What is no file is said to be none, without waiting for a writer."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe, 0o600)
        for path in (tmp_path, pipe):
            with pytest.raises(TokenError, match="not a file"):
                TokenFile(path).tokens()
            with pytest.raises(TokenError, match="not a file"):
                read_secret(path)

    def test_writers_at_once(self, tmp_path: Path) -> None:
        """Of tokens made at the same time none is lost."""
        path = tmp_path / "tokens.json"
        makers = [
            threading.Thread(target=TokenFile(path).issue, args=("agent", f"bot-{number}"))
            for number in range(12)
        ]
        for each in makers:
            each.start()
        for each in makers:
            each.join()
        assert len(TokenFile(path).tokens()) == 12


class TestSecrets:
    def test_found_again(self, tokens: TokenFile) -> None:
        """A token is found by a reader that was there before it was made, with kind and name."""
        reader = TokenFile(tokens.path)
        assert reader.find("ilk_agent_" + "x" * 43) is None
        secret = tokens.issue("operator", "ada")
        assert re.fullmatch(r"ilk_operator_[\w-]{43}", secret)
        found = reader.find(secret)
        assert found is not None
        assert (found.kind, found.name) == ("operator", "ada")

    @pytest.mark.parametrize("secret", ["", "ilk_agent_", "\udc80\udcff", "ä" * 100, "x" * 100_000])
    def test_what_is_none(self, tokens: TokenFile, secret: str) -> None:
        """Whatever bytes come as a token are compared and fit none."""
        tokens.issue("agent", "bot")
        assert tokens.find(secret) is None

    def test_names(self, tokens: TokenFile) -> None:
        """A name stands for one token: a taken one, a long one, one that is no line are refused."""
        tokens.issue("agent", "bot")
        for name in ("bot", "", " ", "a\nb", "x" * 65, "\x1b[31m"):
            with pytest.raises(TokenError):
                tokens.issue("operator", name)

    @pytest.mark.parametrize("name", ["Mia", "mi\u0430", "mía", "m1a", "mla", "\uff4dia"])
    def test_confusable_names(self, tokens: TokenFile, name: str) -> None:
        """A name that is easily taken for another one's gets no token (G-77)."""
        tokens.issue("operator", "mia")
        with pytest.raises(TokenError, match="easily taken for 'mia'"):
            tokens.issue("operator", name)
        tokens.issue("operator", "mira")
        assert [each.name for each in tokens.tokens()] == ["mia", "mira"]

    def test_owner(self, tokens: TokenFile) -> None:
        """An agent's token says whose agent it is, also after a rotation; an operator's has no owner."""
        secret = tokens.issue("agent", "bot", "mia")
        found = tokens.find(secret)
        assert found is not None
        assert found.owner == "mia"
        again = tokens.find(tokens.rotate("bot"))
        assert again is not None
        assert again.owner == "mia"
        given = tokens.find(tokens.rotate("bot", owner="ben"))
        assert given is not None
        assert given.owner == "ben"
        with pytest.raises(TokenError, match="only an agent's has an owner"):
            tokens.issue("operator", "ada", "mia")

    @pytest.mark.parametrize("owner", ["mi\u0430", "mía", "m1a"])
    def test_confusable_owners(self, tokens: TokenFile, owner: str) -> None:
        """G-77: an owner who only looks like an operator would leave that one another person."""
        tokens.issue("operator", "mia")
        tokens.issue("agent", "bot", "MIA")
        for give in (
            lambda: tokens.issue("agent", "other", owner),
            lambda: tokens.rotate("bot", owner=owner),
            lambda: tokens.set_owner("bot", owner),
        ):
            with pytest.raises(TokenError, match="easily taken for the operator 'mia'"):
                give()
        assert [each.owner for each in tokens.tokens()] == [None, "MIA"]

    def test_an_operator_like_an_owner(self, tokens: TokenFile) -> None:
        """G-77: nor does an operator get a token whose name only looks like an owner's."""
        tokens.issue("agent", "bot", "mia")
        with pytest.raises(TokenError, match="easily taken for 'mia', who owns the token of 'bot'"):
            tokens.issue("operator", "mi\u0430")
        tokens.issue("operator", "Mia")

    def test_a_file_without_owners(self, tokens: TokenFile) -> None:
        """Tokens that were made before have no owner, and can be given one."""
        secret = tokens.issue("agent", "bot")
        assert "owner" not in tokens.path.read_text()
        tokens.set_owner("bot", "mia")
        found = tokens.find(secret)
        assert found is not None
        assert found.owner == "mia"
        with pytest.raises(TokenError, match="no token is named 'robot'"):
            tokens.set_owner("robot", "mia")

    def test_read_secret(self, tmp_path: Path) -> None:
        """A client's own file holds one token, for its owner only; anything else in it is not shown."""
        path = tmp_path / "agent.token"
        with pytest.raises(TokenError, match="interlock serve"):
            read_secret(path)
        write_private(path, "ilk_agent_abcdefgh\n")
        assert read_secret(path) == "ilk_agent_abcdefgh"
        for text in ("", "two words", "a\r\nX-Header: yes"):
            write_private(path, text)
            with pytest.raises(TokenError, match="does not contain a token") as found:
                read_secret(path)
            assert "words" not in str(found.value)


class TestRotation:
    def test_without_overlap(self, tokens: TokenFile) -> None:
        """The old secret is of no use from the moment the new one is there."""
        old = tokens.issue("agent", "bot")
        before = tokens.find(old)
        new = tokens.rotate("bot")
        assert before is not None
        assert not tokens.holds(before)
        assert tokens.find(old) is None
        assert tokens.find(new) is not None

    def test_with_overlap(self, tokens: TokenFile, clock: Clock) -> None:
        """Both are good until the old one ends; at the next change it is out of the file."""
        old = tokens.issue("agent", "bot")
        new = tokens.rotate("bot", overlap=60)
        assert tokens.find(old) is not None
        clock.advance(59)
        assert tokens.find(old) is not None
        clock.advance(1)
        assert tokens.find(old) is None
        assert tokens.find(new) is not None
        tokens.issue("agent", "other")
        assert len(json.loads(tokens.path.read_text())["tokens"]) == 2

    def test_overlaps_are_not_made_longer(self, tokens: TokenFile, clock: Clock) -> None:
        """A second rotation gives an old secret no more time than it had."""
        old = tokens.issue("agent", "bot")
        tokens.rotate("bot", overlap=60)
        tokens.rotate("bot", overlap=3600)
        clock.advance(61)
        assert tokens.find(old) is None

    def test_a_second_rotation_at_once_ends_all(self, tokens: TokenFile) -> None:
        """Rotating without overlap also ends what an earlier rotation had left."""
        old = tokens.issue("agent", "bot")
        tokens.rotate("bot", overlap=3600)
        tokens.rotate("bot")
        assert tokens.find(old) is None

    def test_a_revoked_operator_gave_the_name_up(self, tokens: TokenFile) -> None:
        """The time stays, whatever is written later, in any case of the name; an agent's leaves none."""
        tokens.issue("operator", "maria", rights="decide")
        tokens.issue("agent", "bot")
        assert tokens.given_up("maria") is None
        assert tokens.revoke("maria")
        assert not tokens.revoke("bot")
        at = tokens.given_up("Maria")
        assert at is not None
        tokens.issue("operator", "maria", rights="decide")
        tokens.rotate("maria")
        assert TokenFile(tokens.path).given_up("maria") == at
        assert tokens.given_up("bot") is None

    def test_revoked(self, tokens: TokenFile) -> None:
        """Revoking ends every secret of a name; of a name that is none the others are said."""
        old = tokens.issue("agent", "bot")
        new = tokens.rotate("bot", overlap=3600)
        tokens.issue("agent", "other")
        tokens.revoke("bot")
        assert tokens.find(old) is None
        assert tokens.find(new) is None
        for change in (tokens.revoke, tokens.rotate):
            with pytest.raises(TokenError, match="'other'"):
                change("bot")
