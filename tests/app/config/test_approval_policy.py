"""`[approvals]` in a settings file: the policy for requests whose rules leave it open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from interlock.app.config.approvals import LATE, approval_settings
from interlock.app.config.loader import SettingsError
from interlock.engine.approvals.policy import ApprovalPolicy


def policy(folder: Path, text: str) -> ApprovalPolicy:
    (folder / "interlock.toml").write_text(text, "utf-8")
    environ = {"INTERLOCK_CONFIG_DIR": str(folder)}
    return approval_settings(environ=environ, directory=folder / "project").policy


class TestPolicy:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", ApprovalPolicy()),
            ("[approvals]\n", ApprovalPolicy()),
            ('[approvals]\nexpire = "15m"\n', ApprovalPolicy(expire=900)),
            ('[approvals]\nexpire = "never"\n', ApprovalPolicy()),
            ("[approvals]\nown_approvals = true\n", ApprovalPolicy(own_approvals=True)),
            ('[approvals]\nfuse = "5s"\n', ApprovalPolicy(fuse=5)),
            ('[approvals]\nfuse = "none"\n', ApprovalPolicy()),
            ("[approvals]\nfuse = 0\n", ApprovalPolicy()),
        ],
    )
    def test_expiry_and_own_approvals(self, tmp_path: Path, text: str, expected: ApprovalPolicy) -> None:
        """By default requests do not expire and a session's starter does not count as an approver."""
        assert policy(tmp_path, text) == replace(expected, late=LATE)

    def test_directory_cannot_allow_own_approvals(self, tmp_path: Path) -> None:
        """A setting that loosens a rule is refused in the working directory, where agents may write."""
        (tmp_path / "interlock.toml").write_text("[approvals]\nown_approvals = true\n", "utf-8")
        with pytest.raises(
            SettingsError, match=r"own_approvals: is allowed in .*config/interlock.toml only"
        ):
            approval_settings(
                environ={"INTERLOCK_CONFIG_DIR": str(tmp_path / "config")}, directory=tmp_path
            )

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ('expire = "soon"', "expire: expected a length of time such as 90d, 12w or 36h"),
            ('expire = "0s"', "expire: expected a length of time, or 'never'"),
            ("expire = 15", "expire: expected a length of time"),
            ('fuse = "soon"', "fuse: expected a length of time such as 90d, 12w or 36h"),
            ('fuse = "1h"', "fuse: expected at most 10 minutes, or 'none', found '1h'"),
            ('own_approvals = "yes"', "own_approvals: expected true or false, found 'yes'"),
            (
                "expires = 1",
                "unknown setting 'expires'; known: deny_reasons, expire, own_approvals, fuse, "
                "late_answers",
            ),
        ],
    )
    def test_wrong_setting_is_refused(self, tmp_path: Path, line: str, problem: str) -> None:
        """A wrong setting is refused with its file and what is expected."""
        with pytest.raises(SettingsError, match=r"interlock\.toml") as found:
            policy(tmp_path, f"[approvals]\n{line}\n")
        assert problem in str(found.value)
