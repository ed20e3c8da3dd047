"""Unusual files: too large, in another encoding, with very long lines, or no regular files."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.app.cli.rules import check
from interlock.rules import Problem, RuleError, compile_rules, load_rules
from interlock.rules.scenarios.scenarios import load_scenarios
from tests.support.command import printed

LONG = 100_000


def problem_of(path: Path | str) -> Problem:
    """Return the only problem of a file, which `interlock check` reports with the same text."""
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    [problem] = caught.value.problems
    code, out, err = checked(path)
    assert (code, out) == (2, "")
    assert err == f"{problem}\n\n1 error; nothing was compiled.\n"
    assert err.isascii() or all(c.isprintable() or c == "\n" for c in err)
    return problem


def checked(path: Path | str) -> tuple[int, str, str]:
    args = Namespace(
        files=[str(path)],
        tools=None,
        json=None,
        strict=None,
        each=None,
        quiet=None,
        format=None,
        against=None,
    )
    return printed(lambda: check.run(args))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        path = tmp_path / "odd.rules"
        path.write_bytes(data)
        return path

    return write


Write = Callable[[bytes], Path]


class TestSize:
    """A file may have at most a million bytes."""

    @pytest.mark.parametrize("size", [1_000_001, 10_000_000])
    @pytest.mark.parametrize("unit", [b"block a\n", b"#", b"x", b"\0", b"\xff", b" ", b"\n"])
    def test_too_large(self, size: int, unit: bytes, write: Write) -> None:
        """G-40: a larger file is refused with any content."""
        path = write((unit * size)[:size])
        problem = problem_of(path)
        assert (problem.line, problem.message) == (0, "is larger than 1,000,000 bytes")
        assert problem.remedy == "is this a rules file? Split it if it is"
        with pytest.raises(RuleError, match="is larger than 1,000,000 bytes"):
            load_scenarios(path)

    def test_file_at_the_limit_is_read(self, write: Write) -> None:
        """G-40: a file of a million bytes is read to its end, and a fault there is located."""
        path = write(b"#" * 999_988 + b"\nblock a\nfoo")
        assert path.stat().st_size == 1_000_000
        problem = problem_of(path)
        assert (problem.line, problem.column, problem.length) == (3, 1, 3)


class TestNul:
    """NUL characters."""

    @pytest.mark.parametrize(
        ("data", "line", "column", "text"),
        [
            (b"\0block a\nblock b", 1, 1, "\0block a"),
            (b"block a\nbl\0ock b\nblock c", 2, 3, "bl\0ock b"),
            (b"block a\nblock b # \0", 2, 11, "block b # \0"),
            (b"block a\n\0", 2, 1, "\0"),
            (b"block a\0\r\nblock \0b", 1, 8, "block a\0"),
            (b"\xef\xbb\xbf\0", 1, 1, "\0"),
            (b"\0" * 1_000_000, 1, 1, "\0" * 1_000_000),
        ],
        ids=range(7),
    )
    def test_first_nul_is_located(
        self, data: bytes, line: int, column: int, text: str, write: Write
    ) -> None:
        """G-40: the first NUL is located at the start, in a comment or at the end."""
        problem = problem_of(write(data))
        assert problem.message == "a NUL character"
        assert (problem.line, problem.column, problem.length) == (line, column, 1)
        assert problem.text == text
        assert len(str(problem)) < 500


class TestEncoding:
    """Files that are not UTF-8."""

    @pytest.mark.parametrize(
        ("data", "line", "column", "byte"),
        [
            ("block café".encode("latin-1"), 1, 10, 0xE9),
            ("# ü\nblock é".encode("latin-1"), 1, 3, 0xFC),
            ("block a\r\n# 工具".encode("gb18030"), 2, 3, 0xB9),
            ("block a".encode("utf-16"), 1, 1, 0xFF),
            (b"\xfe\xff" + "block a".encode("utf-16-be"), 1, 1, 0xFE),
            ("block a".encode("utf-32"), 1, 1, 0xFF),
            ("block a\nblock 工".encode()[:-1], 2, 7, 0xE5),
            ("block a\nblock 工".encode()[:-2], 2, 7, 0xE5),
            ("block \U0001f512".encode()[:-1], 1, 7, 0xF0),
            (b"block \xc0\xaf", 1, 7, 0xC0),
            (b"block \xe0\x80\xaf", 1, 7, 0xE0),
            (b"block \xc0\x80", 1, 7, 0xC0),
            (b"block \xed\xa0\x80", 1, 7, 0xED),
            (b"block \xed\xb0\x80 # x", 1, 7, 0xED),
            (b"block \xf4\x90\x80\x80", 1, 7, 0xF4),
            (b"block \x80", 1, 7, 0x80),
            (b"block \xef\xbb", 1, 7, 0xEF),
            (b"\xef\xbb\xbfblock a\nblock \xff", 2, 7, 0xFF),
            ("block 工具 ".encode() + b"\xff", 1, 10, 0xFF),
            (b"block a\nblock b\n" * 50_000 + b"\xff", 100_001, 1, 0xFF),
        ],
        ids=range(20),
    )
    def test_first_invalid_byte_is_located(
        self, data: bytes, line: int, column: int, byte: int, write: Write
    ) -> None:
        """G-40: the first invalid byte is located by its column in characters."""
        problem = problem_of(write(data))
        assert problem.message == f"is not UTF-8 text: byte 0x{byte:02x}"
        assert (problem.line, problem.column, problem.length) == (line, column, 1)
        assert problem.remedy == "save the file as UTF-8"
        with pytest.raises(RuleError, match="is not UTF-8 text"):
            load_scenarios(problem.file)

    @pytest.mark.parametrize(("encoding", "column"), [("utf-16-le", 2), ("utf-16-be", 1)])
    def test_utf_16_without_a_mark(self, encoding: str, column: int, write: Write) -> None:
        """G-40: UTF-16 without a mark is detected by its NULs, and the remedy names UTF-8."""
        problem = problem_of(write("block a\nblock b".encode(encoding)))
        assert (problem.line, problem.column, problem.message) == (1, column, "a NUL character")
        assert "save the file as UTF-8" in problem.remedy

    def test_byte_order_mark_shifts_no_column(self, write: Write) -> None:
        """G-40: a byte order mark at the file's start shifts no column."""
        problem = problem_of(write(b"\xef\xbb\xbfblock a\n\xef\xbb\xbffoo"))
        assert (problem.line, problem.column, problem.text) == (2, 2, "\ufefffoo")


class TestLongLines:
    """Lines of a hundred thousand characters."""

    @pytest.mark.parametrize(
        ("line", "nets"),
        [
            (f"block {'x' * LONG}", 1),
            (f"require {'x' * LONG} before b", 1),
            (f"map a.b {'x' * LONG} as c\nblock c", 1),
            (f"map a.b /{'x' * LONG}/ as c\nblock c", 1),
            (f"map {'t' * LONG}.b x as c\nblock c", 1),
            (f"limit a to {'0' * LONG}3 per b", 1),
            (f"# {'x' * LONG}\nblock a", 1),
            (f"block a # {'# ' * (LONG // 2)}", 1),
            (f"{' ' * LONG}block{chr(9) * LONG}a{' ' * LONG}", 1),
            ("\n" * LONG, 0),
        ],
        ids=range(10),
    )
    def test_valid_line_compiles(self, line: str, nets: int, write: Write) -> None:
        """G-40: a long valid line compiles, and `check` reports its nets."""
        path = write(line.encode())
        assert len(load_rules(path).nets) == nets
        code, out, err = checked(path)
        assert (code, err) == (0, "")
        assert f": {nets} net{'' if nets == 1 else 's'}" in out

    @pytest.mark.variants
    @pytest.mark.parametrize(
        ("line", "column", "length"),
        [
            ("x" * LONG, 1, LONG),
            (f"block {'x ' * (LONG // 2)}", 9, LONG - 3),
            (" ".join("x" * (LONG // 2)), 1, 1),
            (f"{' ' * LONG}foo", LONG + 1, 3),
            (f"block # {'x' * LONG}", 6, 1),
            (f"map a.b /{'x' * LONG}(/ as c", 10, LONG + 1),
            (f"map a.b /{'x' * LONG}(?=y)/ as c", LONG + 10, 3),
            (f"map a.b {'x' * LONG}/ as c", 9, LONG + 1),
            (f"map a.b /{'[a-z]{1,1000}' * 700}/ as c", 10, 9_100),
            (f"block {'工' * LONG} \u200b", LONG + 8, 1),
        ],
        ids=range(10),
    )
    def test_fault_place_is_exact(self, line: str, column: int, length: int, write: Write) -> None:
        """G-40: the place in a long line is exact, and the line is shown in part."""
        problem = problem_of(write(line.encode()))
        assert (problem.line, problem.column, problem.length) == (1, column, length)
        assert len(str(problem)) < 700

    @pytest.mark.slow
    def test_many_faulty_lines_are_all_reported(self, write: Write) -> None:
        """G-40: each of twenty thousand faulty lines is reported."""
        path = write(b"x\n" * 20_000)
        with pytest.raises(RuleError) as caught:
            load_rules(path)
        assert [p.line for p in caught.value.problems] == [*range(1, 20_001)]
        code, _, err = checked(path)
        assert code == 2
        assert err.endswith("\n20,000 errors; nothing was compiled.\n")

    def test_very_long_tool_name_is_kept(self) -> None:
        """G-18: a net's name contains even a tool's name of a hundred thousand characters."""
        tool = "x" * LONG
        assert [net.name for net in compile_rules(f"block {tool}")] == [f"block-{tool}"]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run as a user without root's permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and permissions are those of POSIX")
class TestNoFile:
    """Paths that are not regular files."""

    def test_pipe_without_a_writer(self, tmp_path: Path) -> None:
        """G-40: a pipe without a writer is refused without waiting."""
        path = tmp_path / "pipe.rules"
        os.mkfifo(path)
        assert problem_of(path).message == "is a pipe or a device, expected a rules file"
        with pytest.raises(RuleError, match="is a pipe"):
            load_scenarios(path)

    def test_pipe_with_a_writer(self, tmp_path: Path) -> None:
        """G-40: a pipe with a writer is refused unread."""
        path = tmp_path / "pipe.rules"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(path, os.O_WRONLY)
        try:
            os.write(writer, b"block a\n")
            assert "is a pipe" in problem_of(path).message
        finally:
            os.close(reader)
            os.close(writer)

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/full"])
    def test_device(self, device: str) -> None:
        """G-40: a device is refused."""
        assert problem_of(device).message == "is a pipe or a device, expected a rules file"

    def test_socket(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """G-40: a socket is refused."""
        import socket

        monkeypatch.chdir(tmp_path)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("odd.rules")
            assert problem_of("odd.rules").message.startswith("cannot be read: ")

    def test_directory(self, tmp_path: Path) -> None:
        """G-40: a directory is reported as one."""
        assert problem_of(tmp_path).message == "is a directory, expected a rules file"

    def test_links(self, tmp_path: Path) -> None:
        """G-40: a link is followed, and a broken or circular one is refused."""
        good, gone, loop = (tmp_path / name for name in ("good.rules", "gone.rules", "loop.rules"))
        (tmp_path / "real.rules").write_text("block a")
        good.symlink_to("real.rules")
        gone.symlink_to("nothing.rules")
        loop.symlink_to(loop)
        assert len(load_rules(good)) == 1
        assert problem_of(gone).message == "no such rules file"
        assert problem_of(loop).message.startswith("cannot be read: ")

    def test_no_permission(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        """G-40: an unreadable file is refused with the system's reason."""
        # The other user cannot read the settings of the user who runs the tests.
        monkeypatch.setenv("XDG_CONFIG_HOME", "/no-settings")
        path = write(b"block a")
        # The other user cannot read the modules that the command imports.
        assert checked(path)[0] == 0
        path.chmod(0)
        with unprivileged():
            problem = problem_of(path)
        assert problem.message == "cannot be read: Permission denied"
        assert problem.remedy == "check the path and its permissions"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(b"\0", id="0", marks=pytest.mark.thorough),
            pytest.param(b"\xff", id="1"),
            pytest.param(b"x" * 1_000_001, id="2", marks=pytest.mark.thorough),
            pytest.param(None, id="3"),
        ],
    )
    def test_as_a_command(self, data: bytes | None, tmp_path: Path) -> None:
        """G-40: `interlock check` as a program ends with code 2 and a message without a traceback.

        Each change runs it with invalid content and with a pipe; `make thorough` adds other contents.
        """
        path = tmp_path / "odd.rules"
        if data is None:
            os.mkfifo(path)
        else:
            path.write_bytes(data)
        code = "from interlock.app.cli.main import main; raise SystemExit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code, "check", str(path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(str(path))
        assert done.stderr.endswith("\n1 error; nothing was compiled.\n")
        assert "Traceback" not in done.stderr
