"""The operator's name and its sources."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from interlock.app.cli.main import main, parser
from interlock.app.config.identity import login_name, operator_name
from interlock.app.config.loader import SettingsError, apply_settings

BAD = ["", "   ", "a\nb", "a\x1b[2J", "ma\u200dria", "\u202eairam", "x" * 65]


class TestNames:
    @pytest.mark.parametrize("name", ["maria", "María José", "x" * 64, "o'neil@ops", "李"])
    def test_visible_line_is_kept(self, name: str) -> None:
        """A name of one visible line is kept unchanged."""
        assert operator_name(name) == name

    def test_blanks_and_accents(self) -> None:
        """Names that look the same are normalised to the same name."""
        assert operator_name("  Jose\u0301 ") == operator_name("José") == "José"

    @pytest.mark.parametrize("name", BAD)
    def test_refused(self, name: str) -> None:
        """Empty, overlong and multi-line names and names with invisible characters are refused."""
        with pytest.raises(argparse.ArgumentTypeError, match="1 to 64 visible characters") as caught:
            operator_name(name)
        assert "\x1b" not in str(caught.value)


class TestLogin:
    def test_is_the_default(self) -> None:
        """Without a given name the login name is used."""
        assert login_name(lambda: "maria") == "maria"

    def test_missing_login_becomes_operator(self) -> None:
        """Without a login the name is `operator`."""

        def nobody() -> str:
            raise KeyError("uid not found: 1234")

        assert login_name(nobody) == "operator"

    def test_unusable_login_is_refused(self) -> None:
        """A login name that cannot be recorded is refused, and the error names `--as`."""
        with pytest.raises(argparse.ArgumentTypeError, match=r"login name.*Give one with --as NAME"):
            login_name(lambda: "a\nb")


class TestWhere:
    def settle(self, tmp_path: Path, *line: str, environ: dict[str, str] | None = None) -> str:
        top = parser()
        args = top.parse_args(["console", *line])
        clean = {"INTERLOCK_CONFIG_DIR": str(tmp_path / "none")}
        apply_settings(top, args, environ={**clean, **(environ or {})}, directory=tmp_path)
        return args.operator

    def test_order_of_sources(self, tmp_path: Path) -> None:
        """`--as` overrides `INTERLOCK_AS`, which overrides `as` in a file."""
        (tmp_path / "none").mkdir()
        (tmp_path / "none/interlock.toml").write_text('as = "jo"')
        assert self.settle(tmp_path) == "jo"
        assert self.settle(tmp_path, environ={"INTERLOCK_AS": "ann"}) == "ann"
        assert self.settle(tmp_path, "--as", "maria", environ={"INTERLOCK_AS": "ann"}) == "maria"

    @pytest.mark.slow
    def test_errors_name_the_place(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The error for a bad name names its file, variable or option."""
        (tmp_path / "interlock.toml").write_text('as = ""')
        with pytest.raises(SettingsError, match=r"interlock\.toml: as: an operator's name.*it is empty"):
            self.settle(tmp_path)
        with pytest.raises(SettingsError, match="INTERLOCK_AS: an operator's name"):
            self.settle(tmp_path, environ={"INTERLOCK_AS": "a\tb"})
        with pytest.raises(SystemExit):
            main(["console", "--as", "a\nb"])
        assert "argument --as: an operator's name" in capsys.readouterr().err
