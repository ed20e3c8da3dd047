"""Programs with commands of their own: editors, debuggers, database clients, mail, calculators."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..invocations import CommandWords, Input, Run, Tool
from ..words import Word, plain
from .options import UnclearError, by_name, names, next_word, unclear_words

_VIM_QUIET = re.compile(
    r"set (?:ff|fileformat|fenc|fileencoding|ft|filetype|ts|tabstop|sw|shiftwidth)=[\w-]+"
    r"|(?:q|wq|x|qa|qall|wqa|set \w+|%?s/[^|!&]*|\d+|normal \w+|syntax on|version)!?"
)

_VIM_FILES = names("-u -U -S -l -V1")


def _vim(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """Editors run commands of their own, such as `:!rm`."""
    yield from ()
    for at, word in enumerate(words[1:], 1):
        text = word.text
        command: Word | None = None
        if text.startswith("+"):
            command = Word(text[1:], "", word.known)
        elif text == "--cmd" or re.fullmatch(r"-[a-zA-Z]*c", text):
            command = next_word(words, at)
        elif text in _VIM_FILES or (re.fullmatch(r"-[a-zA-Z]*[sS]", text) and "e" not in text):
            raise UnclearError(f"'{words[0].text}' runs the commands of a file")
        elif re.fullmatch(r"-[a-zA-Z]*c.+", text):
            command = Word(text.partition("c")[2], "", word.known)
        if command is not None and not (
            command.known and (not command.text or _VIM_QUIET.fullmatch(command.text))
        ):
            raise UnclearError(f"'{words[0].text}' runs commands of its own")
    word_texts = [word.text for word in words[1:]]
    silent = any(re.fullmatch(r"-[a-zA-Z]*[es][a-zA-Z]*", text) for text in word_texts)
    commands = any(re.fullmatch(r"-[a-zA-Z]*c.*|\+.+", text) for text in word_texts)
    if not commands and (silent or words[0].text.rpartition("/")[2] in {"ex", "ed", "red"}):
        raise UnclearError(f"'{words[0].text}' runs commands that it reads from its input")


_GDB_QUIET = re.compile(
    r"(?:bt|backtrace|where)(?: full)?|thread apply all bt(?: full)?|info \w+|quit|q|run|r"
    r"|set pagination off|set confirm off|list|frame \d+|set args [\w ./-]*"
)


def _gdb(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    word_texts = [word.text for word in words]
    for mark in ("--args", "-args"):
        if mark in word_texts and word_texts.index(mark) + 1 < len(words):
            yield CommandWords(words[word_texts.index(mark) + 1 :])
    commands = [
        words[at + 1] for at, text in enumerate(word_texts[:-1]) if text in {"-ex", "--ex", "-iex"}
    ]
    options = [word for word in commands if word.text.startswith("set args ")]
    operands = [
        word
        for before, word in pairwise(words)
        if not word.text.startswith("-") and before.text not in {"-ex", "--ex", "-iex", "--args", "-args"}
    ]
    if operands and any(word.text in {"run", "r"} for word in commands):
        arguments = [plain(text) for word in options for text in word.text.split()[2:]]
        yield CommandWords((operands[0], *arguments))
    batch = "-batch" in word_texts or "--batch" in word_texts
    files = {"-x", "--command", "-ix", "-iex", "--init-command", "-o", "-s", "-O", "-S"} & {*word_texts}
    if word_texts[1:2] in (["--version"], ["-v"], ["--help"], ["-h"]) and len(word_texts) == 2:
        return
    if not (
        batch
        and commands
        and not files
        and all(g.known and _GDB_QUIET.fullmatch(g.text) for g in commands)
    ):
        raise UnclearError(f"'{word_texts[0]}' runs commands of its own")


def _sqlite(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    word_texts = [word.text for word in words[1:]]
    texts_given = [*word_texts, stdin.text if isinstance(stdin, Word) else ""]
    if any(
        re.search(
            r"(?m)^\s*\.(?!tables|schema|mode|headers?|quit|exit|dbinfo|indexes|indices|databases)|load_extension|"
            r"edit\s*\(|writefile",
            text,
        )
        for text in texts_given
    ) or any(text in {"-init", "--init"} for text in word_texts):
        raise UnclearError(f"'{words[0].text}' may run programs by commands of its own")
    operands = [text for text in word_texts if not text.startswith("-")]
    if (
        stdin is None
        and len(operands) < 2
        and not {"-version", "--version", "-help", "--help"} & {*word_texts}
    ):
        raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _psql(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    commands = [*(word.text for word in words[1:]), stdin.text if isinstance(stdin, Word) else ""]
    if any(
        re.search(
            r"^--pager=|\\[!gowi|]|\bprogram\b|^\s*system\b|;\s*system\b|\\copy", text, re.IGNORECASE
        )
        for text in commands
    ):
        raise UnclearError(f"'{words[0].text}' may run programs by commands of its own")


def _mail(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    if isinstance(stdin, Word) and "~" in stdin.text:
        raise UnclearError(f"'{words[0].text}' may run what a line of its input says")


def _dc(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    yield from ()
    commands = " ".join(
        [*(word.text for word in words[1:]), stdin.text if isinstance(stdin, Word) else ""]
    )
    if "!" in commands or (stdin is None and len(words) == 1):
        raise UnclearError("'dc' may run programs")


INTERACTIVE: Mapping[str, Tool] = by_name(
    {
        "vim vi view nvim ex ed red vimdiff rvim": _vim,
        "gdb lldb": _gdb,
        "psql mysql mariadb mycli pgcli duckdb": _psql,
        "sqlite3 sqlite": _sqlite,
        "mail mailx": _mail,
        "dc": _dc,
        "fzf": unclear_words(
            r"^--(?:preview|bind|with-shell|become|execute)(?!-window)", "{} runs commands of its own"
        ),
    }
)
