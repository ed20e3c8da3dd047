"""Servers that start for the first time, and the settings that they use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from interlock.app.cli.main import parser
from interlock.app.config.loader import SettingsError, apply_settings
from interlock.app.hosting.server import own_token
from interlock.engine.gateway.protocol.tokens import TokenFile, read_secret, write_private

KINDS = (("agent", "agent"), ("operator", "ada"))


def started(command: str, work: Path, config: Path, **environ: str) -> str | None:
    """Return the mode of a server that is started in `work`."""
    top = parser()
    args = top.parse_args([command])
    args.typed = ()
    surroundings = {"INTERLOCK_CONFIG_DIR": str(config)} | environ
    apply_settings(top, args, environ=surroundings, directory=work)
    return args.mode


class TestMode:
    @pytest.fixture
    def places(self, tmp_path: Path) -> tuple[Path, Path]:
        work, config = tmp_path / "work", tmp_path / "config"
        for each in (work, config):
            each.mkdir()
        return work, config

    @pytest.mark.parametrize("command", ["serve", "web"])
    @pytest.mark.parametrize("text", ['mode = "shadow"', '[{}]\nmode = "shadow"'])
    def test_working_directory_cannot_set_shadow_mode(
        self, places: tuple[Path, Path], command: str, text: str
    ) -> None:
        """The working directory's settings cannot set shadow mode; the error names the file that can."""
        work, config = places
        (work / "interlock.toml").write_text(text.format(command))
        with pytest.raises(SettingsError, match=r"agents may write in the\s+working directory") as said:
            started(command, work, config)
        assert str(config / "interlock.toml") in str(said.value)

    @pytest.mark.parametrize("command", ["serve", "web"])
    def test_user_sources_can_set_shadow_mode(self, places: tuple[Path, Path], command: str) -> None:
        """The user's file, the environment and a named file can set shadow mode."""
        work, config = places
        (config / "interlock.toml").write_text('mode = "shadow"\n')
        assert started(command, work, config) == "shadow"
        (config / "interlock.toml").unlink()
        assert started(command, work, config, INTERLOCK_MODE="shadow") == "shadow"
        named = work / "named.toml"
        named.write_text('mode = "shadow"\n')
        assert started(command, work, config, INTERLOCK_CONFIG=str(named)) == "shadow"

    def test_working_directory_may_set_a_stricter_mode(self, places: tuple[Path, Path]) -> None:
        """A working directory may set a stricter mode than the user."""
        work, config = places
        (config / "interlock.toml").write_text('mode = "shadow"\n')
        (work / "interlock.toml").write_text('mode = "enforce"\n')
        assert started("serve", work, config) == "enforce"

    def test_config_directory_counts_as_the_users(self, places: tuple[Path, Path]) -> None:
        """Started in the user's config directory, the settings there count as the user's."""
        _, config = places
        (config / "interlock.toml").write_text('mode = "shadow"\n')
        assert started("serve", config, config) == "shadow"


class TestOwnTokens:
    async def test_one_of_two_starting_servers_creates_the_tokens(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of servers that start at the same time only one creates the tokens in the files."""
        for n in range(10):
            monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path / str(n)))
            file = tmp_path / str(n) / "tokens.json"
            await asyncio.gather(
                *(
                    asyncio.to_thread(own_token, TokenFile(file), kind, name)
                    for _ in range(4)
                    for kind, name in KINDS
                )
            )
            tokens = TokenFile(file)
            for kind, name in KINDS:
                found = tokens.find(read_secret(tmp_path / str(n) / f"{kind}.token"))
                assert found is not None
                assert (found.kind, found.name) == (kind, name)
            assert len(tokens.tokens()) == len(KINDS)

    def test_creation_is_locked_while_a_token_is_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While a token is being written, no other process can create one."""
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", str(tmp_path))
        tokens = TokenFile(tmp_path / "tokens.json")
        others: list[int] = []

        def slowly(path: Path, text: str) -> None:
            # Another process, because file locks work between processes.
            child = os.fork()
            if child == 0:
                ended = os.EX_OK
                try:
                    import fcntl

                    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR)
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    ended = os.EX_TEMPFAIL
                os._exit(ended)
            others.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            write_private(path, text)

        monkeypatch.setattr("interlock.app.hosting.server.write_private", slowly)
        own_token(tokens, "agent", "agent")
        assert others == [os.EX_TEMPFAIL]
