"""Paths that stay inside, allowed commands, dependencies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.flows import Context, ForbiddenCommand, MissingDependency, PathEscape, ToolError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path.resolve() / "w"
    (inside / "a").mkdir(parents=True)
    (inside / "data.txt").write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("x")
    return inside


class TestInside:
    def test_relative_and_absolute(self, root: Path) -> None:
        """P-150: relative paths start at the working directory, absolute ones must be inside."""
        ctx = Context(working_dir=root)
        for raw, expected in (
            ("a/b.txt", root / "a/b.txt"),
            (str(root / "a"), root / "a"),
            (".", root),
            ("", root),
            ("a/../b", root / "b"),
            (str(root), root),
        ):
            assert ctx.resolve(raw) == expected

    def test_outside(self, root: Path) -> None:
        """P-151: a path that leads out is refused with the path as written."""
        ctx = Context(working_dir=root)
        for raw in ("../x", "a/../../x", "/etc/passwd", f"{root}/../../etc/passwd", "..", "/", "//etc"):
            with pytest.raises(PathEscape) as caught:
                ctx.resolve(raw)
            assert str(caught.value) == f"path '{raw}' escapes the working directory"

    def test_same_beginning(self, root: Path) -> None:
        """P-152: a directory whose name only starts the same is outside."""
        with pytest.raises(PathEscape):
            Context(working_dir=root).resolve(f"{root}2/x")

    def test_files_need_not_exist(self, root: Path) -> None:
        """P-153: neither files nor the working directory need to exist."""
        assert Context(working_dir=root).resolve("new/deep/file") == root / "new/deep/file"
        missing = root / "missing"
        assert Context(working_dir=missing).resolve("x") == missing / "x"
        with pytest.raises(PathEscape):
            Context(working_dir=missing).resolve("../x")


class TestLinks:
    @pytest.mark.parametrize("raw", ["file", "dir", "dir/x", "dir/deep/x"])
    def test_to_outside(self, root: Path, raw: str) -> None:
        """P-154: a link to the outside is refused, even in the middle of a path."""
        (root / "file").symlink_to(root.parent / "out" / "secret")
        (root / "dir").symlink_to(root.parent / "out")
        with pytest.raises(PathEscape):
            Context(working_dir=root).resolve(raw)

    def test_to_inside(self, root: Path) -> None:
        """P-154: a link to the inside is followed to its end."""
        (root / "one").symlink_to(root / "two")
        (root / "two").symlink_to("data.txt")
        assert Context(working_dir=root).resolve("one") == root / "data.txt"

    def test_chain_that_leaves(self, root: Path) -> None:
        """P-154: a chain of links that ends outside is refused."""
        (root / "one").symlink_to(root / "two")
        (root / "two").symlink_to(root.parent / "out" / "secret")
        with pytest.raises(PathEscape):
            Context(working_dir=root).resolve("one")

    def test_parent_of_a_link(self, root: Path) -> None:
        """P-155: `..` is resolved as text, before links are followed."""
        (root / "link").symlink_to(root.parent / "out")
        assert Context(working_dir=root).resolve("link/../x") == root / "x"

    def test_root_is_a_link(self, root: Path) -> None:
        """P-156: if the working directory is a link, both spellings are inside."""
        link = root.parent / "l"
        link.symlink_to(root)
        ctx = Context(working_dir=link)
        assert ctx.resolve("x") == ctx.resolve(f"{link}/x") == ctx.resolve(f"{root}/x") == root / "x"

    def test_dangling(self, root: Path) -> None:
        """P-157: a dangling link is judged by its target."""
        (root / "in").symlink_to(root / "later")
        (root / "out").symlink_to(root.parent / "later")
        ctx = Context(working_dir=root)
        assert ctx.resolve("in") == root / "later"
        with pytest.raises(PathEscape):
            ctx.resolve("out")

    def test_nul(self, root: Path) -> None:
        """P-157: a path with a NUL byte is refused."""
        with pytest.raises(PathEscape):
            Context(working_dir=root).resolve("a\0b")

    @given(st.lists(st.sampled_from(["a", "..", ".", "", "in", "out", "loop", "x"]), max_size=6))
    def test_resolved_path_is_always_inside(
        self, tmp_path_factory: pytest.TempPathFactory, parts: list[str]
    ) -> None:
        """P-151, P-154: any resolved path is inside and has no links left."""
        base = tmp_path_factory.getbasetemp().resolve() / "law"
        root = base / "w"
        if not root.exists():
            (root / "a").mkdir(parents=True)
            (root / "in").symlink_to("a")
            (root / "out").symlink_to(base)
            (root / "a" / "out").symlink_to("../..")
            (root / "loop").symlink_to("loop")
        try:
            found = Context(working_dir=root).resolve("/".join(parts).lstrip("/"))
        except ToolError:
            return
        assert found.is_relative_to(root)
        if "loop" not in found.parts:
            assert os.path.realpath(found) == str(found)


class TestCommands:
    def test_command_is_allowed_by_exact_name(self) -> None:
        """P-158: a command is allowed by its exact name only."""
        ctx = Context(commands=["git"])
        ctx.check_command("git")
        for command in ("rm", "/usr/bin/git", "git status", "GIT", "", "gi"):
            with pytest.raises(ForbiddenCommand) as caught:
                ctx.check_command(command)
            assert str(caught.value) == f"command '{command}' is not in the allowed list"

    def test_no_command_is_allowed_without_a_list(self) -> None:
        """P-158: without a list no command is allowed; a text is not accepted as a list."""
        with pytest.raises(ForbiddenCommand):
            Context().check_command("git")
        with pytest.raises(TypeError, match="commands must be a list of names, found the text 'git'"):
            Context(commands="git")


class TestDefaults:
    def test_defaults(self) -> None:
        """P-159: the current directory, no commands, 30 seconds for a request."""
        ctx = Context()
        assert (ctx.working_dir, ctx.http_timeout) == (Path.cwd(), 30)
        assert not ctx.commands

    def test_dependencies(self) -> None:
        """P-159: dependencies are found by type; a missing one is named."""
        ctx = Context(deps={int: 7})
        assert ctx.require(int) == 7
        with pytest.raises(MissingDependency, match="the context has no Path") as caught:
            ctx.require(Path)
        assert isinstance(caught.value, ToolError)
