"""Build tools and package runners: make, cmake, ninja, go, npm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..environment import assigned
from ..invocations import CommandWords, Input, Run, SameCommand, Script, ScriptFile, Tool, as_path
from ..words import Word, plain
from .options import UnclearError, by_name, next_word, option_value, options, split, unclear_words


def _make(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """A makefile is not read, like any other file; what the command line adds to it is analysed."""
    arguments = words[1:]
    for at, word in enumerate(arguments):
        text = word.text
        option, equals, value = text.partition("=")
        following = next_word(arguments, at)
        if option in {"--eval", "-E"} or (re.match(r"-[bBdehikLnpqrRsStvw]*E", text)):
            raise UnclearError("'make' runs the rules on its command line")
        if text in {"-f-", "--file=-", "--makefile=-", "-f/dev/stdin"} or (
            (text in {"-f", "--file", "--makefile"} or re.fullmatch(r"-[a-zA-Z]*f", text))
            and following.text in {"-", "/dev/stdin", "/dev/fd/0"}
        ):
            raise UnclearError("'make' runs the rules that it reads from its input")
        if text in {"-f", "--file", "--makefile"} and following.known:
            yield ScriptFile((as_path(following),))
        elif re.fullmatch(r"-f.+", text):
            yield ScriptFile((as_path(plain(text[2:])),))
        if text in {"-f", "--file", "--makefile"} and not following.known:
            raise UnclearError("'make' runs rules that are known only when it runs")
        if equals and re.fullmatch(r"[A-Za-z_.]\w*[:?+!]*", option):
            name = option.rstrip(":?+!")
            if name in {"SHELL", ".SHELLFLAGS", "MAKE"}:
                raise UnclearError(f"'{name}' is what 'make' runs its commands with")
            if "$(shell" in value or "!" in option[-1:]:
                raise UnclearError("a value given to 'make' runs a program")
            if " " in value and word.known and not value.startswith("-"):
                yield Script(Word(value, ""))
            elif "/" in value:
                yield SameCommand((Word(value, "", word.known),))
            yield from assigned(name, Word(value, "", word.known))


def _cmake(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    word_texts = [word.text for word in words]
    if "-P" in word_texts and {*word_texts} & {"-", "/dev/stdin"}:
        raise UnclearError("'cmake' runs what it reads from its input")
    if "-E" in word_texts:
        arguments = words[word_texts.index("-E") + 1 :]
        if arguments and arguments[0].text in {"env", "time"}:
            yield CommandWords(
                [w for w in arguments[1:] if "=" not in w.text and w.text != "--"] or [plain("true")]
            )
        elif arguments and arguments[0].text == "chdir":
            yield CommandWords(arguments[2:] or [plain("true")])
        elif arguments:
            as_program = {
                "remove": "rm",
                "remove_directory": "rm -r",
                "copy": "cp",
                "rename": "mv",
                "rm": "rm",
            }
            yield CommandWords(
                (plain(as_program.get(arguments[0].text, arguments[0].text)), *arguments[1:])
            )
    if any(
        text.startswith(("-DCMAKE_C_COMPILER_LAUNCHER", "-DCMAKE_CXX_COMPILER_LAUNCHER"))
        for text in word_texts
    ):
        raise UnclearError("a setting of 'cmake' names a program")


def _ctest(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    """`ctest --build-and-test … --test-command PROGRAM WORDS`."""
    word_texts = [word.text for word in words]
    for option in ("--test-command", "--build-makeprogram"):
        if option in word_texts[:-1]:
            yield CommandWords(words[word_texts.index(option) + 1 :])
    if {"-S", "-SP", "--script", "--script-new-process"} & {*word_texts}:
        raise UnclearError("'ctest' runs the commands of a file")


def _ninja(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        file = (
            plain(word.text[2:]) if len(word.text) > 2 else words[at + 1] if at + 1 < len(words) else None
        )
        if word.text.startswith("-f") and file is not None:
            if not file.known:
                raise UnclearError("'ninja' runs rules that are known only when it runs")
            yield ScriptFile((as_path(file),))


def _go(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    for at, word in enumerate(words[1:], 1):
        name = word.text.lstrip("-").partition("=")[0]
        if word.text.startswith("-") and name in {"exec", "toolexec", "vettool"}:
            yield Script(option_value(words, at))
            raise UnclearError(f"'-{name}' of 'go' names a program")


_NPX = options(
    "yq",
    "pcwn",
    """
        yes no no-install quiet package= call= workspace= workspaces include-workspace-root
        ignore-existing prefer-offline
        """
    "prefer-online offline node-arg= shell= cache= userconfig= registry= prefix= silent",
)


def _npx(words: Sequence[Word], _stdin: Input) -> Iterator[Run]:
    found = split(words, _NPX)
    text = found.given.get("c") or found.given.get("call")
    if text is not None:
        yield Script(text)
    elif found.rest:
        name = found.rest[0]
        bare = re.sub(r"(?<=.)@[^/]*$", "", name.text)
        yield CommandWords((Word(bare, bare, name.known, name.single), *found.rest[1:]))


def _deno(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`deno eval` and `bun -e` run a program, and `bun x` is `npx`."""
    word_texts = [word.text for word in words[1:]]
    if word_texts[:1] == ["x"]:
        yield from _npx(words[1:], stdin)
    elif word_texts[:1] in (
        ["eval"],
        ["repl"],
        ["-e"],
        ["-p"],
        ["--eval"],
        ["--print"],
        ["exec"],
    ) or word_texts[:2] == ["run", "-"]:
        raise UnclearError(f"what the program given to '{words[0].text}' runs is not known")


def _npm(words: Sequence[Word], stdin: Input) -> Iterator[Run]:
    """`npm pkg set scripts.test=TEXT` and `npm set-script test TEXT` define what is run later."""
    word_texts = [word.text for word in words[1:]]
    if "set-script" in word_texts or ("pkg" in word_texts and "set" in word_texts):
        for word in words[2:]:
            name, equals, value = word.text.partition("=")
            if equals and name.startswith("scripts"):
                yield Script(Word(value, "", word.known))
            elif " " in word.text and not equals:
                yield Script(word)
            elif not word.known:
                raise UnclearError(f"the script that '{words[0].text}' sets is known only when it runs")
    if any(
        re.match(r"--(?:script-shell|shell|node-options|git|editor|viewer)\b", text)
        for text in word_texts
    ):
        raise UnclearError(f"an option of '{words[0].text}' names a program")


BUILD: Mapping[str, Tool] = by_name(
    {
        "make gmake": _make,
        "cmake": _cmake,
        "ctest": _ctest,
        "ninja": _ninja,
        "go": _go,
        "npx bunx pnpx uvx": _npx,
        "deno bun": _deno,
        "npm pnpm yarn": _npm,
        "apt apt-get aptitude dpkg dpkg-deb": unclear_words(
            r"(?i)invoke|::.*(?:=|cmd|command)|^-Zx", "an option of {} names a program"
        ),
    }
)
