"""Texts of rules files, each read once: the text that was checked is the text that is enforced.

Agents may be able to write the files that a working directory adds, also between check and use. Such a
file may not take calls from the user's rules: a rule on `anything-else` applies to every tool that no
other rule names, and a file that names a tool, or maps its calls, would exclude that tool's calls from it
(G-66).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...engine.core.sanitize import visible
from ...engine.gate.name_changes import takes_from
from ...rules import Problem, RuleSet, compile_files
from ...rules.compiler import read_text, shown_file, with_value_files


@dataclass(frozen=True, slots=True)
class RuleTexts:
    """Texts by absolute path, or the error in reading each."""

    texts: Mapping[Path, str | Problem] = field(default_factory=dict[Path, str | Problem])

    def with_files(self, files: Iterable[str | Path]) -> RuleTexts:
        """Return a copy that also has the texts of `files` and of the value files they name.

        Files that were read earlier are not read again.
        """
        texts = dict(self.texts)
        for path in {path_of(file) for file in files} - texts.keys():
            texts[path] = read_text(str(path))
            with_value_files({str(path): texts[path]}, partial(_once, texts))
        return RuleTexts(texts)

    def compile(self, *files: str | Path) -> RuleSet:
        """Compile `files` as one set; missing ones are read. Raises `RuleError`."""
        texts = self.with_files(files).texts
        named: dict[str, str | Problem] = {}
        for file in files:
            name, text = shown_file(str(file)), texts[path_of(file)]
            named[name] = replace(text, file=name) if isinstance(text, Problem) else text
        return compile_files(with_value_files(named, partial(_once, dict(texts))))


def _once(texts: dict[Path, str | Problem], file: str) -> str | Problem:
    """Return the text of a file; if it is not in `texts`, read and add it."""
    path = path_of(file)
    if path not in texts:
        texts[path] = read_text(str(path))
    return texts[path]


def path_of(file: str | Path) -> Path:
    """Return the absolute path of a rules file, however its name is written."""
    return Path(os.path.abspath(os.path.expanduser(file)))


def find_loosened_rule(
    texts: RuleTexts, users: Sequence[str | Path], added: Sequence[str | Path]
) -> str | None:
    """Return a rule of `users` that applies to fewer calls once the files `added` join it.

    `None` if none. Raises `RuleError`.
    """
    if not users or not added:
        return None
    users_nets = [*texts.compile(*users).registry.values()]
    all_nets = [*texts.compile(*users, *added).registry.values()]
    for users_net in users_nets:
        if any(takes_from(net, users_net, users_nets) for net in all_nets):
            source = None if users_net.rule is None else users_net.rule.source
            return visible(users_net.name if source is None else source.text)
    return None
