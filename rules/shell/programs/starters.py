"""Programs that start others: in terminals, many at once, at a time, as a user, as a service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..invocations import CommandWords, Input, Run, Script, Tool
from ..words import Word, texts
from .options import UnclearError, by_name, names, option_value, refused


def _script(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`script -c TEXT`, and `script file` with a shell on the terminal."""
    for at, word in enumerate(words[1:], 1):
        text = word.text
        if text == "--":
            if at + 1 < len(words):
                yield CommandWords(words[at + 1 :])
                return
        elif text.startswith("--command="):
            yield Script(Word(text.partition("=")[2], "", word.known))
            return
        elif text == "--command" or re.fullmatch(r"-[aefqr]*c", text):
            if at + 1 < len(words):
                yield Script(words[at + 1])
                return
        elif re.fullmatch(r"-[aefqr]*c.+", text):
            yield Script(Word(text.partition("c")[2], "", word.known))
            return
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


_TMUX_QUIET = names(
    """
    ls list-sessions list-windows lsw list-panes lsp has-session has -V -ls capture-pane capturep
    kill-session kill-server display-message info -list show-options list-keys -v kill-window
    kill-pane select-window attach attach-session detach
    """
)


def _tmux(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """tmux and screen start programs, and type into running ones."""
    arguments = list(words[1:])
    while arguments:
        end = next((at for at, word in enumerate(arguments) if word.text in {";", "\\;"}), len(arguments))
        part, arguments = arguments[:end], arguments[end + 1 :]
        verb = next((word.text for word in part if not word.text.startswith("-")), "")
        if verb in _TMUX_QUIET or {word.text for word in part} & {"-ls", "-V", "-v", "-list"}:
            continue
        word_texts = [
            word for word in part if re.search(r"[ /]", word.text) and not word.text.startswith("-")
        ]
        for word in word_texts:
            yield Script(word)
        typed = (
            verb in {"send-keys", "send"} and part[-1].text in {"Enter", "C-m"} and len(word_texts) == 1
        )
        started = verb in {"new-session", "new", "new-window", "neww", "split-window", "splitw"}
        if not all(word.known for word in part) or not (
            typed or (started and _named_only(part, verb, word_texts))
        ):
            raise UnclearError(f"'{words[0].text}' types commands or starts them")


def _named_only(part: Sequence[Word], verb: str, text_words: Sequence[Word]) -> bool:
    """Return whether all words after a verb are its options, their values, or one text that is parsed."""
    others = [
        word for word in part[[word.text for word in part].index(verb) + 1 :] if word not in text_words
    ]
    option = False
    for word in others:
        if not word.text.startswith("-") and not option:
            return False
        option = word.text.startswith("-")
    return True


def _parallel(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """GNU parallel and moreutils' parallel: the words before `:::`, or lines of the input."""
    arguments = words[1:]
    end = next(
        (at for at, word in enumerate(arguments) if word.text.startswith(":::") or word.text == "--"),
        None,
    )
    inner = [
        word for word in (arguments if end is None else arguments[:end]) if not word.text.startswith("-")
    ]
    if inner:
        yield Script(Word(texts(inner) + ' "$@"', "", all(word.known for word in inner)))
    for word in arguments[end + 1 :] if end is not None else ():
        yield Script(word)
    raise UnclearError(f"'{words[0].text}' runs what it reads from its input")


def _command_lines(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`hyperfine 'make test'`: each word that is not an option is a command line."""
    for word in words[1:]:
        if not word.text.startswith("-") and not re.fullmatch(r"[\d.:,]+", word.text):
            yield Script(word)


def _crontab(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if [word.text for word in words[1:]] != ["-l"]:
        raise UnclearError("'crontab' schedules commands")


def _sg(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`sg GROUP COMMAND`."""
    arguments = [word for word in words[1:] if word.text not in {"-c", "-"}]
    if len(arguments) > 1:
        yield Script(arguments[1])
    else:
        raise UnclearError("'sg' runs what it reads from its input")


def _run_parts(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    yield from ()
    if not any(word.text in {"--list", "--test"} for word in words):
        raise UnclearError(f"'{words[0].text}' runs the programs of a directory")


def _start_stop_daemon(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    word_texts = [word.text for word in words]
    found = False
    for at, word in enumerate(words):
        name = word.text.partition("=")[0]
        if name in {"--exec", "--startas", "-x", "-a"}:
            program = option_value(words, at)
            following = words[word_texts.index("--") + 1 :] if "--" in word_texts else ()
            found = True
            yield CommandWords((program, *following))
        elif re.fullmatch(r"-[SKbqvomtT]*[xa]", word.text) and at + 1 < len(words):
            found = True
            yield CommandWords((words[at + 1],))
    if not found and not {"--stop", "-K", "--status", "-T"} & {*word_texts}:
        raise UnclearError(f"what '{word_texts[0]}' runs is not known")


def _busybox(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    arguments = words[1:]
    if arguments and not arguments[0].text.startswith("-"):
        yield CommandWords(arguments)


STARTERS: Mapping[str, Tool] = by_name(
    {
        "script": _script,
        "tmux screen byobu abduco dtach zellij": _tmux,
        "parallel rush": _parallel,
        "mispipe hyperfine concurrently npm-run-all multitime": _command_lines,
        "crontab": _crontab,
        "sg": _sg,
        "run-parts": _run_parts,
        "start-stop-daemon": _start_stop_daemon,
        "busybox toybox": _busybox,
        "at batch": refused("runs what it reads from its input"),
    }
)
