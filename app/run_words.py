"""The words of `interlock run [AGENT] [TASK]` that belong to no option: which of them is what.

An agent is a `.toml` file or `package.module:name`; everything else is the task. Imports nothing heavy:
this runs while the command line is read.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

IMPORTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
NO_TASK = "what is the agent to do? Give a task, in quotes, after the options"


class WordsError(ValueError):
    """Words that make no agent and task; the message says what was expected."""


def settle_words(args: argparse.Namespace, extra: Sequence[str], line: Sequence[str]) -> None:
    """Set `args.target` and `args.task` from the positional words, `extra` ones included.

    argparse gives back in `extra` what follows an option after the first word. A task may be missing
    where an agent is named: its file may have one. Raises `WordsError`.
    """
    words = [word for word in (args.target, args.task) if word is not None]
    words += _words(extra)
    target = words[0] if words and is_target(words[0], alone=len(words) == 1) else None
    if target is not None:
        words.pop(0)
    if not words:
        words = _from_lists(args, line, has_target=target is not None)
        if target is None and words and is_target(words[0], alone=len(words) == 1):
            target = words.pop(0)
    if len(words) > 1:
        raise WordsError(
            f"found {words[0]!r} and {words[1]!r}; expected a task in quotes, "
            "after an agent (agent.toml or package.module:name) if there is one"
        )
    if target is None and not words:
        raise WordsError(NO_TASK)
    args.target, args.task = target, words[0] if words else None


def is_target(word: str, *, alone: bool) -> bool:
    """Whether `word` names an agent.

    `alone` it may as well be the task, so it must not look like a sentence, or the thing must be there.
    """
    if word.endswith(".toml"):
        return not alone or not any(map(str.isspace, word)) or Path(word).is_file()
    return IMPORTED.fullmatch(word) is not None and (not alone or _is_module(word))


def _is_module(word: str) -> bool:
    """Whether the module that `word` begins with can be found; nothing is imported."""
    package = word.partition(":")[0].partition(".")[0]
    return PathFinder.find_spec(package, [str(Path.cwd()), *sys.path]) is not None


def _words(extra: Sequence[str]) -> list[str]:
    words: list[str] = []
    for position, word in enumerate(extra):
        if word == "--":
            return [*words, *extra[position + 1 :]]
        if word.startswith("-"):
            raise WordsError(f"unrecognized arguments: {' '.join(extra)}")
        words.append(word)
    return words


def _from_lists(args: argparse.Namespace, line: Sequence[str], *, has_target: bool) -> list[str]:
    """In `run --rules a.rules "Ship it"` the option takes the task for a file: give it back.

    An agent may bring its task: then only a sentence is one, lest the name of a net be lost.
    """
    for given in (args.rules, args.active):
        if not given or given[-1] != line[-1]:
            continue
        words: list[str] = []
        if len(given) > 1 and _is_task(given[-1], has_target=has_target):
            words.append(given.pop())
        if len(given) > 1 and not has_target and is_target(given[-1], alone=not words):
            words.insert(0, given.pop())
        return words
    return []


def _is_task(word: str, *, has_target: bool) -> bool:
    sentence = any(map(str.isspace, word))
    return not Path(word).is_file() and (sentence or not (has_target or word.endswith(".rules")))
