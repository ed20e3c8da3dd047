"""Texts of rules files, each read once: the checked text is the one that is enforced.

Agents may write the files that a working directory adds, also between check and use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...rules import Problem, RuleSet, compile_files
from ...rules.compiler import read_text, shown_file


@dataclass(frozen=True, slots=True)
class RuleTexts:
    """Texts by the files' absolute paths, or the error in reading them."""

    texts: Mapping[Path, str | Problem] = field(default_factory=dict[Path, str | Problem])

    def reading(self, files: Iterable[str | Path]) -> RuleTexts:
        """A copy with the present texts of `files`, except those that are here already."""
        new = {path_of(file) for file in files} - self.texts.keys()
        return RuleTexts({**self.texts, **{path: read_text(str(path)) for path in new}})

    def compiled(self, *files: str | Path) -> RuleSet:
        """The rules of `files` as one set; a missing file is read. Raises `RuleError`."""
        texts = self.reading(files).texts
        named = {shown_file(str(file)): texts[path_of(file)] for file in files}
        return compile_files({name: _called(text, name) for name, text in named.items()})


def path_of(file: str | Path) -> Path:
    """The file that a name among rules stands for, in any spelling."""
    return Path(os.path.abspath(os.path.expanduser(file)))


def _called(text: str | Problem, name: str) -> str | Problem:
    return replace(text, file=name) if isinstance(text, Problem) else text
