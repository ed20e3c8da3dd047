"""Shells that run a text, a file or their input, and builtins that do so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import FromFile, Input, Run, SameCommand, Script, ScriptFile, Tool, as_path
from ..words import Word, texts
from .options import Split, UnclearError, by_name, may_be_option, names

SHELLS = names(
    """
    sh bash dash zsh ksh mksh ash rbash yash fish
    """
)


def _shell(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    at, letters = 1, ""
    while at < len(words):
        word = words[at]
        text = word.text
        if may_be_option(word):
            if "n" in letters and at == len(words) - 1 and word.single:
                return
            raise UnclearError(f"an option of '{words[0].text}' is known only when it runs")
        if len(text) < 2 or text[0] not in "-+":
            break
        at += 1
        if text == "--":
            break
        if text in {"--version", "--help"}:
            return
        if text.startswith("--"):
            at += _long_of_shell(text, words[0].text)
        else:
            letters += text[1:] if text[0] == "-" else ""
            at += sum(letter in "oO" for letter in text[1:])
    arguments = words[at:]
    if arguments and arguments[0].text == "-":
        arguments = arguments[1:]
    if "c" in letters:
        if not arguments:
            raise UnclearError(f"'{words[0].text} -c' runs a text that is not there")
        yield Script(arguments[0])
    elif "s" in letters or not arguments:
        yield from from_input(words[0].text, stdin)
    else:
        yield from _file(words[0].text, arguments, stdin)


def _long_of_shell(option: str, shell: str) -> int:
    """Number of words that a long option of a shell takes after itself."""
    if option.partition("=")[0] in {"--rcfile", "--init-file"}:
        raise UnclearError(f"'{option}' names a file that '{shell}' runs")
    if option not in {"--login", "--norc", "--noprofile", "--posix", "--restricted", "--verbose"}:
        raise UnclearError(f"'{option}' is no option known of '{shell}'")
    return 0


def _file(shell: str, words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """A shell that runs a file: the same as running the file, or one with that name found in PATH."""
    file = words[0]
    if _STDIN.fullmatch(file.text):
        yield from from_input(shell, None if "fd/" in file.text else stdin)
    elif not file.single or not file.known or file.text.startswith(("<(", "$(", "`")):
        raise UnclearError(f"what '{shell}' runs is known only when it runs")
    else:
        yield ScriptFile((as_path(file), *words[1:]))
        if "/" not in file.text:
            yield SameCommand((file, *words[1:]))


def from_input(shell: str, stdin: Input) -> Iterator[Run]:
    match stdin:
        case Word():
            yield Script(stdin)
        case FromFile(name):
            yield ScriptFile((as_path(name),))
        case None:
            raise UnclearError(f"'{shell}' runs what it reads from its input")


def through_shell(found: Split) -> Iterator[Run]:
    if found.rest:
        yield Script(Word(texts(found.rest), "", all(word.known for word in found.rest)))


def _source(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    arguments = after_dashes(words)
    if arguments:
        yield from _file(words[0].text, arguments, stdin)


def _eval(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    arguments = after_dashes(words)
    if arguments:
        yield Script(Word(texts(arguments), "", all(word.known for word in arguments)))


def after_dashes(words: Sequence[Word]) -> Sequence[Word]:
    return words[2:] if len(words) > 1 and words[1].text == "--" else words[1:]


_STDIN = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/[^/]+/fd/\d+")


def _cmd(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`cmd.exe /c TEXT`."""
    for at, word in enumerate(words[1:], 1):
        if word.text.lower() in {"/c", "/k", "/s", "//c"} and at + 1 < len(words):
            yield Script(Word(texts(words[at + 1 :]), "", all(w.known for w in words[at + 1 :])))
            return
    if len(words) == 1:
        raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


SHELL_TOOLS: Mapping[str, Tool] = {
    **dict[str, Tool].fromkeys(SHELLS, _shell),
    **by_name({"source .": _source, "eval": _eval, "cmd cmd.exe": _cmd}),
}
