"""Logins in a file: they survive a restart, unless they were ended or changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.web.logins import LOGIN_LIFETIME, LoginFile, Logins, kept_logins, revoke_login
from interlock.engine.gateway.protocol.tokens import TokenError

from .fronts import KEY as PRIVATE
from .fronts import shown

KEY = shown(PRIVATE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conf" / "web.json"


def log_in(logins: Logins) -> str:
    cookie = logins.redeem(logins.link(), KEY)
    assert cookie is not None
    return cookie


class TestRestart:
    def test_login_survives(self, path: Path) -> None:
        """After a restart the cookie has the same key and the same lifetime."""
        now = [1000.0]
        before = Logins(lambda: now[0], LoginFile(path, "this"))
        cookie = log_in(before)
        after = Logins(lambda: now[0], LoginFile(path, "this"))
        assert after.find(cookie) == before.find(cookie)
        now[0] += LOGIN_LIFETIME
        assert after.find(cookie) is None
        assert Logins(lambda: now[0], LoginFile(path, "this")).find(cookie) is None

    def test_login_link_does_not_survive(self, path: Path) -> None:
        """A login link is not valid after a restart."""
        link = Logins(file=LoginFile(path, "this")).link()
        assert Logins(file=LoginFile(path, "this")).redeem(link, KEY) is None

    def test_ended_login_stays_ended(self, path: Path) -> None:
        """A login that was ended stays ended after a restart; another login stays."""
        before = Logins(file=LoginFile(path, "this"))
        cookie, other = log_in(before), log_in(before)
        before.end(cookie)
        after = Logins(file=LoginFile(path, "this"))
        assert after.find(cookie) is None
        assert after.find(other) is not None

    def test_clock_set_back_prolongs_no_login(self, path: Path) -> None:
        """After the clock was set back, a login lasts no longer than a new one."""
        cookie = log_in(Logins(lambda: 1e9, LoginFile(path, "this")))
        now = [1000.0]
        after = Logins(lambda: now[0], LoginFile(path, "this"))
        assert after.find(cookie) is not None
        now[0] += LOGIN_LIFETIME
        assert after.find(cookie) is None

    def test_another_server_has_no_logins(self, path: Path) -> None:
        """A login of one server is not valid at another server with the same file."""
        cookie = log_in(Logins(file=LoginFile(path, "this")))
        assert Logins(file=LoginFile(path, "that")).find(cookie) is None


class TestFile:
    def test_is_for_its_owner_and_has_no_secret(self, path: Path) -> None:
        """Only the owner can read the file, and it does not contain the cookie."""
        cookie = log_in(Logins(file=LoginFile(path, "this")))
        assert path.stat().st_mode & 0o777 == 0o600
        assert cookie not in path.read_text()

    @pytest.mark.parametrize("damage", ["wide", "cut", "bytes", "directory"])
    def test_unsafe_or_damaged_file_is_ignored(
        self, path: Path, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An unsafe or damaged file is ignored, and the log gives the reason."""
        cookie = log_in(Logins(file=LoginFile(path, "this")))
        match damage:
            case "wide":
                path.chmod(0o646)
            case "cut":
                path.write_bytes(path.read_bytes()[:-2])
            case "bytes":
                path.write_bytes(b"\xff\xfe")
            case _:
                path.unlink()
                path.mkdir()
        assert Logins(file=LoginFile(path, "this")).find(cookie) is None
        assert f"{path}: everybody has to log in again" in caplog.text

    def test_logout_on_a_full_disk_is_permanent(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Logging out on a full disk still ends the login permanently."""
        logins = Logins(file=LoginFile(path, "this"))
        cookie = log_in(logins)

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        logins.end(cookie)
        assert Logins(file=LoginFile(path, "this")).find(cookie) is None


class TestRevoking:
    @pytest.fixture(autouse=True)
    def directory(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(path.parent))

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "conf" / "web-127.0.0.1-8738.json"

    def test_ends_a_login_while_its_server_runs(self, path: Path) -> None:
        """The server sees the end at once, other logins stay, and a new login does not revive it."""
        logins = Logins(file=LoginFile(path, "this"))
        cookie, other = log_in(logins), log_in(logins)
        login = logins.find(cookie)
        assert login is not None
        assert [len(each) for each in kept_logins().values()] == [2]
        assert revoke_login(login.id[:6]).id == login.id
        assert not logins.holds(login)
        assert logins.find(other) is not None
        log_in(logins)
        assert Logins(file=LoginFile(path, "this")).find(cookie) is None
        assert path.stat().st_mode & 0o777 == 0o600

    def test_concurrent_login_does_not_undo_a_revocation(self, path: Path) -> None:
        """A login that is written before the server reads a revocation does not undo it."""
        logins = Logins(file=LoginFile(path, "this"))
        cookie = log_in(logins)
        [[login]] = kept_logins().values()
        revoke_login(login.id)
        log_in(logins)
        assert logins.find(cookie) is None
        assert [len(each) for each in kept_logins().values()] == [1]

    def test_ambiguous_or_unknown_id_ends_nothing(self, path: Path) -> None:
        """An id prefix that matches no login, or is empty, ends nothing."""
        logins = Logins(file=LoginFile(path, "this"))
        log_in(logins)
        for beginning in ("", "xyz"):
            with pytest.raises(TokenError, match="interlock web logins"):
                revoke_login(beginning)
        assert [len(each) for each in kept_logins().values()] == [1]

    def test_deleting_the_file_ends_all_logins(self, path: Path) -> None:
        """Deleting the file ends all logins, even while the server runs."""
        logins = Logins(file=LoginFile(path, "this"))
        cookie = log_in(logins)
        path.unlink()
        assert logins.find(cookie) is None
