"""The law of reading shell commands, checked against real shells."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.net.net import ToolCall
from interlock.rules import compile_rules
from interlock.rules.shell import Shell, read

from ...support.laws import examples

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


RAN = ("rm", "git push", "./deploy")
"""Words that run a program that leaves its name."""
SPELT = {
    "rm": ("rm", "rm victim", "'rm'", "r\\m", "=rm"),
    "git push": ("git push", "git 'push'", "git -C . push", "git --no-pager push origin"),
    "./deploy": ("./deploy", ".//deploy prod", "'./deploy'"),
}
WORDS = (
    *("echo", "x", "victim", "-c", "-e", "-n", "-s", "-i", "-exec", "{}", "\\;", "+", "prod", "$x"),
    *("'$x'", "#", "sh", "bash", "eval", "env", "xargs", "find .", "printf '%s\n'", "awk", "sed"),
    *("exec", "command", "timeout 1", "nice", "nohup", "source", ".", "set --", "read x", "export"),
    *("declare", "alias", "cat", "true", "test", "for x in", "do", "done", "while", "case x in x)"),
    *("esac", "if", "then", "fi", "[[", "]]", "x=rm", "x=(", "a()", "'BEGIN{system(", ")}'"),
    *("PATH=.:$PATH", "IFS=_", "-S", "-I{}", "--", "<<<", "<<E\n", "\nE\n", "$(", "`", "<(", "("),
    *(")", "{", "}", ";", "|", "||", "&&", "&", ">f", ">>f", "<f", "sh f", "\n", "'", '"', "\\"),
    *(" ", "!", "deploy"),
)
"""Pieces of the commands in tests/data that evade rules; none affects anything outside the folder."""
EVERY_RULE = {
    "rm": ("map bash.command rm as found", "map bash.command /^rm\\b/ as found"),
    "git push": (
        "map bash.command /\\bgit\\b.*\\bpush\\b/ as found",
        "map bash.command /^git\\s+push\\b/ as found",
    ),
    "./deploy": ("map bash.command ./deploy as found", "map bash.command /^\\.\\/deploy\\b/ as found"),
}
RULE_SETS = {
    name: [compile_rules(f"{text}\nblock found") for text in texts] for name, texts in EVERY_RULE.items()
}


def missed_programs(command: str, shell: Shell | None) -> list[str]:
    """Return the programs for which some rules give the command neither a name nor `unclear`."""
    call = ToolCall("c", "bash", {"command": command}, shell)
    return [
        name
        for name, sets in RULE_SETS.items()
        if any(rules.resolve(call) == ("bash",) for rules in sets)
    ]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of programs that leave their names, and of some that run others."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "bin").mkdir()
    for name in ("rm", "git"):
        _traced(folder / "bin" / name, folder / "trace", name)
    known = (
        "cat",
        "env",
        "bash",
        "xargs",
        "timeout",
        "nice",
        "nohup",
        "find",
        "sed",
        "awk",
        "printf",
        "true",
    )
    for name in known:
        (folder / "bin" / name).symlink_to(shutil.which(name) or BASH)
    (folder / "bin" / "sh").symlink_to(shutil.which("dash") or BASH)
    return folder


def _traced(program: Path, trace: Path, name: str) -> None:
    """Write a program that leaves its name; one in `bin` does not if a shell reads it as a script."""
    lines = [f"#!{BASH} -p"]
    if program.parent.name == "bin":
        lines.append("[[ $- == *p* ]] || exit")
    if name == "git":
        lines.append("while [[ $1 == -* ]]; do [[ $1 == -C ]] && shift; shift; done")
    lines.append(f"echo \"{name} ${{*//[[:space:]]/ }}\" >> '{trace}'\n")
    program.write_text("\n".join(lines))
    program.chmod(0o755)


def programs_run(command: str, folder: Path, shell: str) -> set[str]:
    """Return the programs that a shell runs for this command, in a folder with only `deploy`."""
    work, trace = folder / "work", folder / "trace"
    shutil.rmtree(work, ignore_errors=True)
    trace.unlink(missing_ok=True)
    work.mkdir()
    _traced(work / "deploy", trace, "./deploy")
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [shell, "-c", command],
            cwd=work,
            env={"PATH": str(folder / "bin"), "HOME": str(work)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
            start_new_session=True,
        )
    said = trace.read_text(errors="replace").splitlines() if trace.exists() else []
    return {name for name in RAN if any(f"{line} ".startswith(f"{name} ") for line in said)}


@pytest.fixture(scope="module")
def programs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def runs_victim(command: str, house: Path, shell: str = BASH) -> bool:
    """Return true if a shell runs `victim` for this command."""
    trace = house / "trace"
    trace.unlink(missing_ok=True)
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [shell, "-c", command],
            cwd=house / "work",
            env={"PATH": str(house / "bin")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    return trace.exists()


def is_missed(command: str, shell: Shell | None = None) -> bool:
    """Return true if the reading neither contains `victim` nor is uninspectable."""
    reading = read(command, shell)
    texts = (text for found in reading.commands for text in found.texts)
    return reading.uninspectable is None and not any("victim" in text for text in texts)


class TestNothingRunsUnseen:
    @settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        before=st.lists(st.sampled_from(PIECES + VICTIM), max_size=6),
        victim=st.sampled_from(VICTIM),
        after=st.lists(st.sampled_from(PIECES + VICTIM), max_size=4),
    )
    def test_every_program_that_bash_runs_is_found(
        self, programs_folder: Path, before: list[str], victim: str, after: list[str]
    ) -> None:
        """G-51: a program that bash runs is found by its name, or the command is uninspectable."""
        command = "".join((*before, victim, *after))
        assert not (is_missed(command) and runs_victim(command, programs_folder))

    @pytest.mark.slow
    @pytest.mark.parametrize(("program", "shell"), [("bash", "bash"), ("dash", "sh"), ("zsh", "zsh")])
    def test_every_program_that_any_shell_runs_is_found(
        self, programs_folder: Path, program: str, shell: Shell
    ) -> None:
        """G-64: programs that bash, dash and zsh run are found when read for that shell or any shell."""
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is missing: apt-get install {program}")

        @settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(
            before=st.lists(st.sampled_from(PIECES + VICTIM), max_size=6),
            victim=st.sampled_from(VICTIM),
            after=st.lists(st.sampled_from(PIECES + VICTIM), max_size=4),
        )
        def law(before: list[str], victim: str, after: list[str]) -> None:
            command = "".join((*before, victim, *after))
            if is_missed(command, shell) or is_missed(command):
                assert not runs_victim(command, programs_folder, path)

        law()

    @pytest.mark.parametrize("victim", VICTIM)
    def test_trace_shows_that_a_program_ran(self, programs_folder: Path, victim: str) -> None:
        """The trace is left, so that the law above can fail."""
        assert runs_victim(f"echo; {victim}", programs_folder)
        assert not is_missed(f"echo; {victim}")
        assert is_missed("echo")

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
            ">f >f v''ictim >f",
            ">f 2>g >f v''ictim x >f y",
        ],
    )
    def test_known_tricks_are_detected_or_uninspectable(
        self, programs_folder: Path, command: str
    ) -> None:
        """G-51: each of these runs the program, and is detected or uninspectable."""
        assert runs_victim(command, programs_folder)
        assert not is_missed(command)


class TestEveryName:
    @pytest.mark.variants
    @pytest.mark.parametrize(("program", "shell"), [("bash", "bash"), ("dash", "sh"), ("zsh", "zsh")])
    def test_is_given_or_unclear(self, programs: Path, program: str, shell: Shell) -> None:
        """G-64: programs that a shell runs are named by maps of each kind, or the command is unclear."""
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is missing: apt-get install {program}")
        spelt = st.sampled_from([each for name in RAN for each in SPELT[name]])
        piece = st.sampled_from(WORDS)

        @settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(
            before=st.lists(piece | spelt, max_size=5),
            core=spelt,
            after=st.lists(piece | spelt, max_size=4),
            between=st.sampled_from(["", " "]),
        )
        def law(before: list[str], core: str, after: list[str], between: str) -> None:
            command = between.join((*before, core, *after))
            passed = {*missed_programs(command, shell), *missed_programs(command, None)}
            if passed:
                assert not passed & programs_run(command, programs, path)

        law()

    @pytest.mark.parametrize("name", RAN)
    def test_each_spelling_runs_and_matches(self, programs: Path, name: str) -> None:
        """Each spelling runs the program and matches every map."""
        for spelt in SPELT[name]:
            shell = shutil.which("zsh") if spelt.startswith("=") else BASH
            if shell is not None:
                assert programs_run(f"true; {spelt}", programs, shell) == {name}
            assert name not in missed_programs(f"true; {spelt}", None)
        assert missed_programs("echo", "bash") == list(RAN)

    def test_script_found_in_the_path(self, programs: Path) -> None:
        """`source x` and `bash x` also run the `x` that PATH leads to."""
        trace = programs / "trace"
        publish = programs / "bin" / "publish"
        publish.write_text(f"echo rm $* >> '{trace}'\n")
        rules = compile_rules("map bash.command /^publish\\b/ as found\nblock found")
        for command in ("source publish", "bash publish x", ". publish"):
            assert programs_run(command, programs, BASH) == {"rm"}
            assert "found" in rules.resolve(ToolCall("c", "bash", {"command": command}, "bash"))
