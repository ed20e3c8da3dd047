"""The file of tokens: its secrets, its permissions and its changes."""

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
        """Only the owner may read the file, and it does not contain the secret."""
        secret = tokens.issue("agent", "bot")
        assert tokens.path.stat().st_mode & 0o777 == 0o600
        assert tokens.path.parent.stat().st_mode & 0o777 == 0o700
        assert secret not in tokens.path.read_text()
        assert not [each for each in tokens.path.parent.iterdir() if each.stat().st_mode & 0o077]

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
    def test_file_accessible_to_others_is_refused(self, tokens: TokenFile, mode: int) -> None:
        """A file that others can read or write is refused, and the error contains the remedy."""
        secret = tokens.issue("agent", "bot")
        tokens.path.chmod(mode)
        with pytest.raises(TokenError, match="chmod 600"):
            tokens.find(secret)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_file_of_another_user_is_refused(self, tokens: TokenFile) -> None:
        """A file of another user is refused."""
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
    def test_broken_file_is_refused(self, tokens: TokenFile, text: str, said: str) -> None:
        """A broken file is refused, and the error names the place."""
        secret = tokens.issue("agent", "bot")
        write_private(tokens.path, text)
        with pytest.raises(TokenError, match=said):
            tokens.find(secret)

    def test_impossible_digest_is_refused(self, tokens: TokenFile) -> None:
        """An impossible digest is refused, and the error does not contain its value."""
        secret = tokens.issue("agent", "bot")
        content = json.loads(tokens.path.read_text())
        content["tokens"][0]["digest"] = "hündchen"
        write_private(tokens.path, json.dumps(content))
        with pytest.raises(TokenError, match=r"digest") as found:
            tokens.find(secret)
        assert "hündchen" not in str(found.value)

    def test_directory_or_pipe_is_refused(self, tmp_path: Path) -> None:
        """A directory or a pipe is refused without waiting for a writer."""
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe, 0o600)
        for path in (tmp_path, pipe):
            with pytest.raises(TokenError, match="not a file"):
                TokenFile(path).tokens()
            with pytest.raises(TokenError, match="not a file"):
                read_secret(path)

    def test_simultaneous_writers_store_all_tokens(self, tmp_path: Path) -> None:
        """Tokens that are issued at the same time are all stored."""
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
    def test_new_token_is_found_by_open_reader(self, tokens: TokenFile) -> None:
        """A reader that was opened before finds a new token, with its kind and name."""
        reader = TokenFile(tokens.path)
        assert reader.find("ilk_agent_" + "x" * 43) is None
        secret = tokens.issue("operator", "ada")
        assert re.fullmatch(r"ilk_operator_[\w-]{43}", secret)
        found = reader.find(secret)
        assert found is not None
        assert (found.kind, found.name) == ("operator", "ada")

    @pytest.mark.parametrize("secret", ["", "ilk_agent_", "\udc80\udcff", "ä" * 100, "x" * 100_000])
    def test_other_text_matches_no_token(self, tokens: TokenFile, secret: str) -> None:
        """Any other text matches no token."""
        tokens.issue("agent", "bot")
        assert tokens.find(secret) is None

    def test_invalid_names_are_refused(self, tokens: TokenFile) -> None:
        """A name that is taken, empty, too long or not one printable line is refused."""
        tokens.issue("agent", "bot")
        for name in ("bot", "", " ", "a\nb", "x" * 65, "\x1b[31m"):
            with pytest.raises(TokenError):
                tokens.issue("operator", name)

    @pytest.mark.parametrize("name", ["Mia", "mi\u0430", "mía", "m1a", "mla", "\uff4dia"])
    def test_confusable_names(self, tokens: TokenFile, name: str) -> None:
        """A name that is easily confused with another one gets no token (G-77)."""
        tokens.issue("operator", "mia")
        with pytest.raises(TokenError, match="easily taken for 'mia'"):
            tokens.issue("operator", name)
        tokens.issue("operator", "mira")
        assert [each.name for each in tokens.tokens()] == ["mia", "mira"]

    def test_agent_token_has_an_owner(self, tokens: TokenFile) -> None:
        """An agent's token has an owner that a rotation keeps or changes; an operator's has none."""
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
        """G-77: an owner that only resembles an operator's name is refused."""
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

    def test_operator_name_like_an_owner(self, tokens: TokenFile) -> None:
        """G-77: an operator's name that only resembles an owner's is refused."""
        tokens.issue("agent", "bot", "mia")
        with pytest.raises(TokenError, match="easily taken for 'mia', who owns the token of 'bot'"):
            tokens.issue("operator", "mi\u0430")
        tokens.issue("operator", "Mia")

    def test_older_token_can_get_an_owner(self, tokens: TokenFile) -> None:
        """An older token without an owner can get one."""
        secret = tokens.issue("agent", "bot")
        assert "owner" not in tokens.path.read_text()
        tokens.set_owner("bot", "mia")
        found = tokens.find(secret)
        assert found is not None
        assert found.owner == "mia"
        with pytest.raises(TokenError, match="no token is named 'robot'"):
            tokens.set_owner("robot", "mia")

    def test_read_secret(self, tmp_path: Path) -> None:
        """A client's file holds one token; the error does not show any other content."""
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
        """Without an overlap the old secret ends at once."""
        old = tokens.issue("agent", "bot")
        before = tokens.find(old)
        new = tokens.rotate("bot")
        assert before is not None
        assert not tokens.holds(before)
        assert tokens.find(old) is None
        assert tokens.find(new) is not None

    def test_with_overlap(self, tokens: TokenFile, clock: Clock) -> None:
        """Both secrets are valid until the old one ends; the next change removes it from the file."""
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

    def test_second_rotation_does_not_extend_overlap(self, tokens: TokenFile, clock: Clock) -> None:
        """A second rotation does not extend an old secret's time."""
        old = tokens.issue("agent", "bot")
        tokens.rotate("bot", overlap=60)
        tokens.rotate("bot", overlap=3600)
        clock.advance(61)
        assert tokens.find(old) is None

    def test_rotation_without_overlap_ends_all_old_secrets(self, tokens: TokenFile) -> None:
        """A rotation without overlap also ends the secret that an earlier rotation left valid."""
        old = tokens.issue("agent", "bot")
        tokens.rotate("bot", overlap=3600)
        tokens.rotate("bot")
        assert tokens.find(old) is None

    def test_file_keeps_time_of_revocation(self, tokens: TokenFile) -> None:
        """The file keeps the time of an operator's revocation for every case of the name."""
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

    def test_revoking_ends_every_secret(self, tokens: TokenFile) -> None:
        """Revoking ends every secret of a name; for an unknown name the error lists the others."""
        old = tokens.issue("agent", "bot")
        new = tokens.rotate("bot", overlap=3600)
        tokens.issue("agent", "other")
        tokens.revoke("bot")
        assert tokens.find(old) is None
        assert tokens.find(new) is None
        for change in (tokens.revoke, tokens.rotate):
            with pytest.raises(TokenError, match="'other'"):
                change("bot")
