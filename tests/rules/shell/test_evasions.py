"""Shell commands that try to evade a rule: each matches the rule's map or is unclear (G-51, G-64)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.rules.parse.patterns import Pattern, compile_regex, compile_word
from interlock.rules.shell import Shell, read

DATA = Path(__file__).parents[2] / "data"
ACTIONS = (("kubectl", "delete"), ("terraform", "apply"), ("docker", "exec"), ("npm", "publish"))
BARE = {
    "rm": compile_word("rm"),
    "deploy": compile_word("./deploy"),
    "push": compile_regex(r"/\bgit\b.*\bpush\b/"),
    "curl": compile_word("curl"),
    **{
        f"{program}-{action}": compile_regex(rf"/\b{program}\b.*\b{action}\b/")
        for program, action in ACTIONS
    },
    "sudo": compile_word("sudo"),
}
ANCHORED = {
    "rm": compile_regex(r"/^rm\b/"),
    "deploy": compile_regex(r"/^\.\/deploy\b/"),
    "push": compile_regex(r"/^git\s+push\b/"),
    "curl": compile_regex(r"/^curl\b/"),
    **{
        f"{program}-{action}": compile_regex(rf"/^{program}\s+{action}\b/") for program, action in ACTIONS
    },
    "sudo": compile_regex(r"/^sudo\b/"),
}

RUNS_NOTHING = frozenset(
    (
        "a=(rm victim)",
        "echo {rm,victim}",
        "echo a\x85rm victim",
        "echo \u202erm victim",
        "echo \U0010e3cf{ rm victim",
    )
)
"""Assignments and arguments of `echo`: no shell runs the program; anchored maps match programs only."""


@dataclass(frozen=True)
class Evasion:
    """A command that does what `rule` forbids."""

    command: str
    rule: str
    shells: tuple[Shell, ...]


def evasions(name: str) -> Iterator[Evasion]:
    for line in (DATA / name).read_text(encoding="utf-8").strip().split("\n"):
        entry = json.loads(line)
        yield Evasion(entry["command"], entry["rule"], tuple(entry.get("proven_by_running", ())))


def is_undetected(command: str, pattern: Pattern, shell: Shell | None = None) -> bool:
    """Return true if no map matches a command and it is not unclear for this map."""
    reading = read(command, shell)
    texts = [command, *(text for found in reading.commands for text in found.texts)]
    unclear = any(found.unclear and pattern.begins_with(found.start) for found in reading.commands)
    return not (reading.uninspectable or unclear or any(pattern.search(text) for text in texts))


def is_missed(evasion: Evasion) -> bool:
    """Return true if a map of either kind misses it, in a shell that runs it or in an unknown one."""
    maps = (BARE[evasion.rule], ANCHORED[evasion.rule])
    return any(
        is_undetected(evasion.command, m, shell) for shell in (*evasion.shells, None) for m in maps
    )


FILES = ("evasions.jsonl", "evasions_more.jsonl")
REASONS = ("another program with the same effect", "contents of files")
SILENT: Mapping[str, Sequence[str]] = json.loads(
    (DATA / "evasions_silent.json").read_text(encoding="utf-8")
)


class TestEvasions:
    @pytest.mark.slow
    def test_only_listed_evasions_remain_undetected(self) -> None:
        """G-64: only the evasions that are listed with a reason remain undetected."""
        found = {e.command for name in FILES for e in evasions(name) if is_missed(e)} - RUNS_NOTHING
        listed = {command for commands in SILENT.values() for command in commands}
        assert sorted(found - listed) == []
        assert sorted(listed - found) == []

    def test_each_is_listed_once_with_a_valid_reason(self) -> None:
        """Each undetected command is listed once, under one of two reasons."""
        assert tuple(SILENT) == REASONS
        listed = [command for commands in SILENT.values() for command in commands]
        assert len(set(listed)) == len(listed)

    def test_commands_that_run_nothing_are_no_evasions(self) -> None:
        """The excluded commands run the program in no shell."""
        unproven = {e.command for e in evasions(FILES[0]) if not e.shells}
        assert unproven >= RUNS_NOTHING


class TestMendedCauses:
    @pytest.mark.parametrize(
        "command",
        [
            "echo ${HOME#\\``rm victim`}",
            "cat > x <<E\nUse \\`ls\\` and `rm victim`.\nE",
            "cat <<E\n\\``rm victim```\nE",
            "echo ${HOME#$(: # )\nrm victim)}",
            "[[ a =~ <(rm victim) ]]",
            "[[ a =~ (`rm victim`) ]]",
        ],
    )
    def test_substitutions_are_paired_as_a_shell_pairs_them(self, command: str) -> None:
        """G-51: escaped backquotes, comments and patterns of `=~` hide no substitution."""
        assert not is_undetected(command, ANCHORED["rm"], "bash")

    @pytest.mark.parametrize(
        "command",
        [
            "sh -c 'ls &>x rm victim'",
            "dash -c 'true &>x >|y rm victim'",
            "sh <<'E'\necho $'\\'; rm victim #'\nE",
            "zsh -c '=rm victim'",
        ],
    )
    def test_an_inner_shell_reads_its_own_text(self, command: str) -> None:
        """G-64: a text that bash passes to another shell is read for that shell."""
        assert not is_undetected(command, ANCHORED["rm"], "bash")

    @pytest.mark.parametrize("script", [":a;1e rm victim", "t a;:a;e rm victim", ":a;s/.*/rm victim/;e"])
    def test_labels_of_sed_end_at_a_semicolon(self, script: str) -> None:
        """G-51: GNU sed runs the command after a label."""
        assert not is_undetected(f"sed '{script}' f", ANCHORED["rm"], "bash")

    @pytest.mark.parametrize(
        "command",
        [
            "x='1e rm victim;'; sed -n \"${x}p\" f",
            "for x in '1e rm victim;'; do sed -n \"${x}p\" f; done",
            "x='bisect run rm victim'; git $x",
            "set -- -c alias.y='!rm victim' y; git \"$@\"",
            "find . $(echo -exec rm victim ';')",
        ],
    )
    def test_variables_set_to_commands_are_no_plain_values(self, command: str) -> None:
        """G-64: a variable that the same text sets to words of a command is no plain value."""
        assert read(command, "bash").uninspectable is not None

    @pytest.mark.parametrize(
        "command",
        [
            'n=12; sed -n "${n}p" f',
            'for n in 1 2 3; do sed -n "${n}p" f; done',
            'n=$(grep -n TODO f | cut -d: -f1); sed -n "${n}p" f',
            "b=$(git rev-parse --abbrev-ref HEAD); git push origin $b",
            "for b in main dev; do git checkout $b; done",
            "git log $range",
            'sed -i "s|^VERSION=.*|VERSION=${VERSION}|" .env',
        ],
    )
    def test_variables_with_plain_values_stay_clear(self, command: str) -> None:
        """Numbers, names and output about files are plain values."""
        assert read(command, "bash").uninspectable is None

    @pytest.mark.parametrize(
        "command", ["sed ':a;N;$!ba;s/\\n/,/g' f", "cat <<E\nuse \\`ls\\`\nE", "[[ a =~ ^(a|b)$ ]]"]
    )
    def test_ordinary_commands_stay_clear(self, command: str) -> None:
        """Labels, escaped backquotes and alternatives do not make a command unclear."""
        assert read(command, "bash").uninspectable is None


class TestFilesThatAreMadeAndRun:
    @pytest.mark.parametrize(
        "command",
        [
            "y=x; echo rm victim > $y; sh x",
            "for i in 1 2; do sh x; echo rm victim > $y; done",
            "{ sleep 1; sh x; } | echo rm victim > $y",
            "eval 'echo rm victim; sh x' > $y",
            "echo rm victim > dir/x$y; . dir/xa",
            "git log -1 --format='rm victim' --output=x; sh x",
            "find . -maxdepth 0 -fprintf x 'rm victim'; sh x",
            "python3 -c \"print('rm victim', file=open('x', mode='w'))\"; sh x",
            "python3 -c \"from pathlib import Path; Path('x').write_text('rm victim')\"; sh x",
            "python3 -c \"f=open; f('x','w').write('rm victim')\"; sh x",
            'awk \'BEGIN { f = "x"; print "rm victim" > f }\'; sh x',
            "node -e \"const f='x'; require('fs').writeFileSync(f, 'rm victim')\"; sh x",
            "printf 'all:\\n\\trm victim\\n' > Makefile; make",
            "echo 'rm victim' | gzip > x.gz; gunzip x.gz; sh x",
            "printf 'int main(){system(\"rm victim\");}' > q.c; cc q.c -o q; ./q",
        ],
    )
    def test_writing_and_running_a_file_is_unclear(self, command: str) -> None:
        """G-64: a command that writes a file and runs it is unclear."""
        assert read(command, "bash").uninspectable is not None

    @pytest.mark.parametrize(
        "command",
        [
            'make test > "$LOG" 2>&1',
            './build.sh 2>&1 | tee "$LOG"',
            'for f in *.txt; do sort "$f" > "$f.sorted"; done; ./check.sh',
            "gcc -O2 main.c -o main && ./main",
            "go build -o app . && ./app --version",
            "chmod +x build.sh && ./build.sh",
            "git add run.sh && git commit -m run && ./run.sh",
            "tar xzf src.tar.gz && cd src && ./configure && make",
            "sed -i 's/a/b/' src/app.py && pytest -q",
            "python3 -c \"print(open('x').read())\"; sh x",
            "echo done > notes.txt; ./deploy.sh; cat notes.txt",
        ],
    )
    def test_ordinary_builds_stay_clear(self, command: str) -> None:
        """Running an existing file, or one built from existing files, stays clear."""
        assert read(command, "bash").uninspectable is None
