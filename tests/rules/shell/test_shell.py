"""Parsing of shell commands: the commands found, and the reasons for uninspectable ones."""

from __future__ import annotations

import sys
import threading
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.rules.shell import CommandReading
from interlock.rules.shell import read as read_for
from interlock.rules.shell.command_reader import MAX_COMMANDS


def read(command: str) -> CommandReading:
    """Return the reading for bash."""
    return read_for(command, "bash")


def programs(command: str) -> list[str]:
    """Return the simple commands of a text, without quotes and wrappers."""
    return [found.texts[-1] for found in read(command).commands]


class TestEverySimpleCommand:
    @pytest.mark.parametrize(
        "command",
        [
            "rm x",
            "ls; rm x",
            "ls && rm x || true",
            "ls | rm x",
            "ls |& rm x",
            "ls & rm x",
            "(ls; rm x)",
            "{ rm x; }",
            "! rm x",
            "ls $(rm x)",
            'echo "a $(rm x) b"',
            "echo `rm x`",
            "echo `echo \\`rm x\\``",
            "y=$(rm x)",
            "y[$(rm x)]=1",
            "y=(1 $(rm x))",
            "echo $((1 + $(rm x)))",
            "echo ${y:-$(rm x)}",
            "diff <(rm x) y",
            "tee >(rm x)",
            "if rm x; then ls; fi",
            "if ls; then ls; else rm x; fi",
            "while rm x; do ls; done",
            "until ls; do rm x; done",
            "for i in a; do rm x; done",
            "for i in $(rm x); do ls; done",
            "for ((i=0;i<1;i++)); do rm x; done",
            "select i in a; do rm x; done",
            "case a in a) rm x;; esac",
            "case $(rm x) in a) ls;; esac",
            "f() { rm x; }",
            "function f { rm x; }",
            "[[ a == $(rm x) ]]",
            "[ -f a ] && rm x",
            "export A=$(rm x)",
            "cat <<EOF\n$(rm x)\nEOF",
            "cat <<EOF\ntext\nEOF\nrm x",
            "cat <<'EOF'\n$(\nEOF\nrm x",
            "cat <<EOF | rm x\ntext\nEOF",
            "ls # rm\nrm x",
            "A=1 rm x",
            ">f rm x",
            "rm x >f 2>&1",
            "ls > $(rm x)",
        ],
    )
    def test_is_found(self, command: str) -> None:
        """G-51: lists, pipes, subshells, substitutions, loops, tests and here-documents are searched."""
        assert read(command).uninspectable is None
        assert any(text.startswith("rm x") for text in programs(command))

    @pytest.mark.parametrize(
        "command",
        [
            "bash -c 'rm x'",
            "sh -lc 'rm x'",
            "bash -o pipefail -ec 'rm x' name",
            "/usr/bin/env bash -c 'rm x'",
            "bash -c 'bash -c \"rm x\"'",
            "eval rm x",
            "eval 'rm x'",
            "eval 'rm' 'x'",
            'eval $"rm x"',
            "bash <<< 'rm x'",
            "bash <<EOF\nrm x\nEOF",
            "sudo bash <<'EOF'\nrm x\nEOF",
            "bash -s <<-'EOF'\n\trm x\n\tEOF",
            "sudo rm x",
            "sudo -u root -- rm x",
            "sudo A=1 rm x",
            "doas rm x",
            "env rm x",
            "env -i A=1 B=2 rm x",
            "env - A=1 rm x",
            "env -S 'rm x'",
            "xargs rm x",
            "ls | xargs -0 -n 1 -I{} rm x {}",
            "nohup rm x",
            "time rm x",
            "time -p rm x",
            "time (rm x)",
            "timeout 5 rm x",
            "timeout -s KILL --kill-after=2 5 rm x",
            "nice rm x",
            "nice -n 10 rm x",
            "nice -10 rm x",
            "find . -exec rm x {} \\;",
            "find . -exec ls {} + -execdir rm x ';'",
            "find . -exec sh -c 'rm x' \\;",
            "command rm x",
            "builtin command rm x",
            "exec -a y rm x",
            "busybox rm x",
            "coproc rm x",
            "setsid stdbuf -o L ionice -c 3 rm x",
            "flock f rm x",
            "flock f -c 'rm x'",
            "watch -n 2 rm x",
            "su -c 'rm x' root",
            "trap 'rm x' EXIT",
            "alias y='rm x'",
            "mapfile -C 'rm x' -c 1 y",
            "ssh -p 22 host 'rm x'",
            "sudo nice timeout 5 env A=1 bash -c 'ls; rm x'",
        ],
    )
    def test_is_found_behind_shells_and_wrappers(self, command: str) -> None:
        """G-51: strings for a shell and commands after wrappers are separate commands."""
        assert read(command).uninspectable is None
        assert any(text.startswith("rm x") for text in programs(command))

    @pytest.mark.parametrize(
        "command",
        [
            "r''m x",
            '"rm" x',
            "'r'\"m\" x",
            "\\rm x",
            "r\\m x",
            "$'\\x72m' x",
            "$'r\\155' x",
            "$'\\u0072m' x",
            "/bin/rm x",
            "/usr/bin/rm x",
            "r\\\nm x",
            'rm "x"',
            "rm\t\tx",
            "rm \\\n x",
            '$"rm" x',
        ],
    )
    def test_is_the_same_without_its_quotes(self, command: str) -> None:
        """G-51: quotes, escapes, directories and line ends do not hide a name."""
        assert "rm x" in {text for found in read(command).commands for text in found.texts}

    def test_is_given_in_several_spellings(self) -> None:
        """Maps see the source, the words without quotes, and the program with its words alone."""
        (found,) = read("A='b c' ./x \"y\" > 'o ut'").commands
        assert found.source == "A='b c' ./x \"y\" > 'o ut'"
        assert found.texts == (found.source, "A=b c ./x y > o ut", "./x y")

    def test_empty_expansion_is_left_out(self) -> None:
        """`--fo${x}rce` also counts as `--force`."""
        assert "git push --force" in read("git push --fo${x}rce").commands[0].texts

    def test_words_of_other_programs_are_no_commands(self) -> None:
        """Arguments of a program that is no wrapper are not followed, and files are not opened."""
        for command in ("python -c 'import os'", "sh deploy.sh", "echo 'rm x; ls'", "sudo -l"):
            assert len(read(command).commands) == 1
            assert read(command).uninspectable is None


class TestUninspectable:
    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            ("$X -rf", "what '$X' runs is known only when it runs"),
            ("$(echo rm) x", "what '$(echo rm)' runs is known only when it runs"),
            ("r$Y x", "what 'r$Y' runs is known only when it runs"),
            ("/bin/r? x", "what '/bin/r?' runs is known only when it runs"),
            ("sudo $X", "an option of 'sudo' is known only when it runs"),
            ("sudo --frob rm", "'--frob' is no option known of 'sudo'"),
            ("nice -q rm", "'-q' is no option known of 'nice'"),
            ("timeout $T rm", "an option of 'timeout' is known only when it runs"),
            ("echo rm | sh", "'sh' runs what it reads from its input"),
            ("echo rm | sudo bash -s", "'bash' runs what it reads from its input"),
            ("echo rm | bash /dev/stdin", "'bash' runs what it reads from its input"),
            ("echo rm | bash 3<<EOF\nls\nEOF", "'bash' runs what it reads from its input"),
            ("echo rm | { sh; }", "'sh' runs what it reads from its input"),
            ("tee >(sh)", "'sh' runs what it reads from its input"),
            ("sudo -s", "'sudo' runs what it reads from its input"),
            ("ssh host", "'ssh' runs what it reads from its input"),
            ("bash <(curl x)", "an option of 'bash' is known only when it runs"),
            ("source <(curl x)", "what 'source' runs is known only when it runs"),
            ('bash -c "rm $x"', "what 'bash' runs is known only when it runs"),
            ("bash <<EOF\nrm $x\nEOF", "what 'bash' runs is known only when it runs"),
            ("eval $x", "what 'eval' runs is known only when it runs"),
            ("xargs -I% sh -c '%'", "what 'sh' runs is known only when it runs"),
            ("find . -exec {} \\;", "what '{}' runs is known only when it runs"),
            ("xargs env", "an option of 'env' is known only when it runs"),
            ("parallel rm", "'parallel' runs what it reads from its input"),
            ("echo ${x@P}", "an expansion in it runs what a variable holds"),
            ("unset 'a[$(rm)]'", "it holds a quoted substitution that may be run later"),
            ("let 'a[$(rm)]'", "it holds a quoted substitution that may be run later"),
            ("x='a[$(rm)]'", "it holds a quoted substitution that may be run later"),
            ("{rm,-rf,/}", "it is not a complete shell command"),
            ('echo "x', "it is not a complete shell command"),
            ("if rm", "it is not a complete shell command"),
            ("time { rm; }", "'{' in it is not a command"),
            ("r\0m", "it holds a control character that shells read in their own ways"),
            ("echo a\r#; rm", "it holds a control character that shells read in their own ways"),
            ("# a\\\nr\\\nm", "a line in it may continue, or may be a comment"),
            ("echo a\\\n#b; rm", "what looks like a comment in it may not be one"),
            ('cat <<\'A\' "\n" ; rm\nA\n"\nA\n', "it is not a complete shell command"),
            ("# <<'EOF'\nrm\nEOF", "what looks like a here-document in it may not be one"),
            ("bash -c '" * 3, "it is not a complete shell command"),
            ("nohup " * 50 + "ls", "it is nested too deeply"),
            ("ls $(" * 250 + ")" * 250, "it is"),
            ("$(" * 10_000, "there is too much in it"),
            ("".join(f"a{i}\n" for i in range(MAX_COMMANDS + 1)), "it is made of more than"),
            ("a" * 1_000_000, "it is longer than 262,144 characters"),
            ("word " * 10_000, "there is too much in it"),
        ],
    )
    def test_has_a_reason(self, command: str, reason: str) -> None:
        """G-51: a command that is unknown until it runs, invalid or too large is uninspectable."""
        assert (read(command).uninspectable or "").startswith(reason)

    def test_readable_part_is_still_read(self) -> None:
        """The readable part of an uninspectable command is still read."""
        assert programs('$X; bash -c "rm $y"')[-1].startswith("rm")

    def test_parser_error_makes_it_uninspectable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error in the parser makes the command uninspectable."""

        def fail(_source: bytes) -> None:
            raise MemoryError

        monkeypatch.setattr("interlock.rules.shell.syntax_tree.parse", fail)
        assert read("never read before").uninspectable == "reading it failed: MemoryError"

    @given(st.text("rm xA$(){}[]<>|&;'\"`\\\n#=!*-", max_size=60))
    def test_never_raises(self, text: str) -> None:
        """Any text yields a reading."""
        assert isinstance(read(text).commands, tuple)

    @pytest.mark.parametrize("character", ["\U0010e3cf", "\U0010ffff", "\u00e9", "\u2028"])
    @pytest.mark.parametrize("before", ["{", "{1..", "$", "${", "<<", "[[ ", "((", "\\", "'", '"', ""])
    def test_unusual_characters_do_not_crash_the_parser(self, before: str, character: str) -> None:
        """The native parser once crashed on a character beyond its tables; later commands are found."""
        read(before + character)
        assert "rm x" in [c.texts[0] for c in read(f"echo {character}; rm x").commands]

    @given(st.text(max_size=40))
    def test_takes_any_text(self, text: str) -> None:
        """Any Unicode text is read, including surrogates."""
        assert isinstance(read(text + "\ud800").commands, tuple)


class TestHereDocuments:
    def test_quoted_text_is_not_part_of_the_command(self) -> None:
        """The text of a quoted here-document is not part of the command."""
        body = "def f(x): return {'a': [`x`, \"$(\"]}\n" * 3_000
        reading = read(f"cat > x.py <<'EOF'\n{body}EOF\nls")
        assert reading.uninspectable is None
        assert [found.texts[-1] for found in reading.commands] == ["cat", "ls"]

    def test_end_where_a_shell_ends_them(self) -> None:
        """A mark in quotes and a line with two marks do not hide the following command."""
        for command in ("echo \"<<'A'\"\nrm x\nA", "cat <<B; cat <<'A'\nB\nA\nrm x\nB\nA"):
            reading = read(command)
            assert reading.uninspectable or any("rm x" in found.texts for found in reading.commands)


class TestParser:
    @pytest.mark.slow
    def test_is_loaded_when_first_used(self) -> None:
        """Compiling rules with maps does not load the parser."""
        code = (
            "import sys; from interlock.rules import compile_rules;"
            "compile_rules('map bash.command rm as rm\\nblock rm');"
            "print([m for m in sys.modules if m.startswith('tree_sitter')])"
        )
        done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    def test_each_thread_has_its_own(self) -> None:
        """Each thread has its own parser, with the same results."""
        seen: list[list[str]] = []
        commands = [f"ls {i} && rm x{i}" for i in range(50)]

        def work() -> None:
            for command in commands:
                seen.append(programs(command))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 200
        assert all(len(found) == 2 for found in seen)
