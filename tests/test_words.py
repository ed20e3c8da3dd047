"""The code's words: no names that the glossary replaced, and docstrings that name their subject."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("adapters", "app", "engine", "rules")

RETIRED = tomllib.loads((ROOT / "tests" / "data" / "retired_names.toml").read_text("utf-8"))
Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
MOST_ENTRIES = 20
"""The most modules, packages and styles in a folder; the aim is about 15."""


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the syntax trees of the product's files, by path below the project's folder."""
    found = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {path.relative_to(ROOT): ast.parse(path.read_text("utf-8")) for path in found}


@cache
def definitions() -> list[tuple[Path, Definition]]:
    """Return every module, class and function with its file's path."""
    return [(path, node) for path, tree in modules().items() for node in defined_in(tree)]


def defined_in(node: ast.AST) -> Iterator[Definition]:
    """Yield the definitions in a node and the statements below it; expressions have none."""
    if isinstance(node, Definition):
        yield node
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for each in getattr(node, block, ()):
            yield from defined_in(each)


def documented() -> Iterator[tuple[str, str]]:
    """Yield the place and the first line of each docstring."""
    for path, node in definitions():
        text = ast.get_docstring(node)
        if text:
            yield f"{path}:{getattr(node, 'lineno', 1)}", text.partition("\n")[0]


class TestNames:
    def test_module_names_are_not_replaced_words(self) -> None:
        """No module has a name that the glossary replaced."""
        assert [str(path) for path in modules() if path.stem in RETIRED["modules"]] == []

    def test_class_names_are_not_replaced_words(self) -> None:
        """No class has a name that the glossary replaced."""
        found = [
            f"{path}:{node.lineno} {node.name}"
            for path, node in definitions()
            if isinstance(node, ast.ClassDef) and node.name.lstrip("_") in RETIRED["classes"]
        ]
        assert found == []

    def test_function_and_parameter_names_are_not_replaced_words(self) -> None:
        """No function and no parameter has a name that the glossary replaced, underscore or not."""
        found = [
            f"{path}:{node.lineno} {node.name}"
            for path, node in definitions()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (
                node.name.strip("_") in RETIRED["functions"]
                or {each.arg.strip("_") for each in (*node.args.args, *node.args.kwonlyargs)}
                & set(RETIRED["parameters"])
            )
        ]
        assert found == []


class TestDocstrings:
    def test_no_docstring_begins_with_a_question_word(self) -> None:
        """No docstring begins with a question word."""
        question = re.compile(r"(What|Whether|Where|How|Who|Which|Why|When)\b")
        assert [at for at, line in documented() if question.match(line)] == []


class TestRooms:
    def test_folders_have_few_entries(self) -> None:
        """Every folder has few enough entries to be read at a glance."""
        folders = {path.parent for path in modules()}
        entries = {
            str(folder): sum(
                each.is_dir() or each.suffix in {".py", ".tcss"}
                for each in (ROOT / folder).iterdir()
                if each.name != "__pycache__"
            )
            for folder in folders
        }
        assert {folder: count for folder, count in entries.items() if count > MOST_ENTRIES} == {}
