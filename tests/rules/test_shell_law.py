"""The law of reading shell commands, held against a real bash."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.rules.shell import read

BASH = shutil.which("bash") or ""
VICTIM = ("v''ictim", "vic\\tim", '"vic"tim', "$'\\x76ictim'", "v\\\nictim", "vi\"c\"t'i'm")
PIECES = (
    *("echo ", "cat ", "eval ", "bash -c ", "env ", "nice ", "timeout 1 ", "xargs ", "time ", "command "),
    *("exec ", "trap ", " EXIT", "alias a=", "if ", "; then ", "; fi", "for i in 1; do ", "; done"),
    *("case a in a)", "esac", ";;", "f() { ", "{ ", "; }", "(", ")", "$(", "`", "<(", "${x:-", "}"),
    *("[[ ", " ]]", "((", "))", "$((", "x=", "$x", "|", "&&", "||", "&", ";", "!", "#", "# x", "*", "~"),
    *("<<A\n", "<<'A'\n", "\nA\n", "<<-A\n", "\n\tA\n", "<<<", '"', "'", "\\", "\\\n", "\n", " ", "  "),
    *("\t", "\r", "\v", "\u00a0", "\u3000", "a", '$"', "$'", "\\`", '\\"', "coproc ", "declare ", "let "),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs: `victim`, which leaves a trace, and a few that run others."""
    house = tmp_path_factory.mktemp("house")
    (house / "bin").mkdir()
    (house / "work").mkdir()
    victim = house / "bin" / "victim"
    victim.write_text(f"#!{BASH}\n: > '{house}/trace'\n")
    victim.chmod(0o755)
    for name in ("cat", "env", "bash", "xargs", "timeout", "nice"):
        (house / "bin" / name).symlink_to(shutil.which(name) or BASH)
    return house


def ran(command: str, house: Path) -> bool:
    """Whether bash runs `victim` for this command."""
    trace = house / "trace"
    trace.unlink(missing_ok=True)
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [BASH, "-c", command],
            cwd=house / "work",
            env={"PATH": str(house / "bin")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    return trace.exists()


def passed_over(command: str) -> bool:
    """Whether nothing is said of `victim`, and nothing of the command being uninspectable."""
    reading = read(command)
    texts = (text for found in reading.commands for text in found.texts)
    return reading.uninspectable is None and not any("victim" in text for text in texts)


class TestNothingRunsUnseen:
    @settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        before=st.lists(st.sampled_from(PIECES + VICTIM), max_size=6),
        victim=st.sampled_from(VICTIM),
        after=st.lists(st.sampled_from(PIECES + VICTIM), max_size=4),
    )
    def test_whatever_is_sent(
        self, house: Path, before: list[str], victim: str, after: list[str]
    ) -> None:
        """G-51: what bash runs is found under its name, or the command is said to be uninspectable."""
        command = "".join((*before, victim, *after))
        assert not (passed_over(command) and ran(command, house))

    @pytest.mark.parametrize("victim", VICTIM)
    def test_would_be_noticed(self, house: Path, victim: str) -> None:
        """The trace is left, so the law above can fail."""
        assert ran(f"echo; {victim}", house)
        assert not passed_over(f"echo; {victim}")
        assert passed_over("echo")

    @pytest.mark.parametrize(
        "command",
        [
            "# a\\\nv\\\nictim",
            "echo \\\\\nv\\\nictim",
            "echo a\\\n#b; v''ictim",
            "echo a\r#b; v''ictim",
            "cat <<'A' \"\n\" ; v''ictim\nA\n\"\nA\n",
            "cat <<B; cat <<'A'\nB\nA\nv''ictim\nB\nA\n",
            "echo \"<<'A'\"\nv''ictim\nA\n",
            "# <<'A'\nv''ictim\nA\n",
            "echo v''ictim | bash 3<<A\nA\n",
            "x='a[$(v\\ictim)]'; echo $((x))",
            "x='$(v\\ictim)'; echo ${x@P}",
            "x=vic; ${x}tim",
            "echo vic''tim | { bash; }",
            "echo v''ictim | bash /dev/stdin",
        ],
    )
    def test_known_tricks(self, house: Path, command: str) -> None:
        """G-51: each of these runs the program, and is seen through or not trusted."""
        assert ran(command, house)
        assert not passed_over(command)
