"""`interlock completion`: commands, options and their values for a shell to complete."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..config.arguments import CommandParser
from .options import journal_location

SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "DIR", "PATH", "OUT")
"""Parts of metavars whose values are files."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the completion script of a shell, generated from the parsers of all commands. Returns 0."""
    from .main import parser

    write = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    sys.stdout.write(write(list(positions(parser()))))
    return 0


@dataclass(frozen=True, slots=True)
class Value:
    """Value of an option or argument: one of `choices`, a file, or text without completions."""

    choices: tuple[str, ...] = ()
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """Option under its `names`; `value` is `None` for a switch."""

    names: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class Position:
    """Position on a line after the words of a command: its subcommands, options and arguments."""

    path: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    options: tuple[Option, ...]
    arguments: tuple[Value, ...]

    @property
    def name(self) -> str:
        """Words of the command, such as `history export`; empty at the beginning of the line."""
        return " ".join(self.path)

    @property
    def words(self) -> tuple[str, ...]:
        """Words that may come next, other than options."""
        return tuple(
            dict.fromkeys(
                [part for part, _ in self.parts] + [c for a in self.arguments for c in a.choices]
            )
        )

    @property
    def takes_files(self) -> bool:
        return any(argument.is_file for argument in self.arguments)


def positions(parser: CommandParser, path: tuple[str, ...] = ()) -> Iterator[Position]:
    """Yield the position after a parser's own words, then those of its subcommands."""
    parts: list[tuple[str, str]] = []
    options: list[Option] = []
    arguments: list[Value] = []
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] - argparse lists them nowhere else
        if action.help is argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            helps = {each.dest: each.help or "" for each in action._choices_actions}  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType, reportUnknownMemberType]
            parts += [(name, helps.get(name, "")) for name in parser.commands]
        elif action.option_strings:
            value = None if action.nargs == 0 else _value(action)
            options.append(Option(tuple(action.option_strings), _help(parser, action), value))
        else:
            arguments.append(_value(action))
    yield Position(path, tuple(parts), tuple(options), tuple(arguments))
    for name, part in parser.commands.items():
        yield from positions(part, (*path, name))


def _value(action: argparse.Action) -> Value:
    choices = tuple(map(str, action.choices or ()))
    metavar = str(action.metavar or "").upper()
    is_file = action.type in (Path, journal_location) or any(f in metavar for f in _FILES)
    return Value(choices, not choices and is_file)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = parser._get_formatter()  # pyright: ignore[reportPrivateUsage]
    return formatter._expand_help(action) if action.help else ""  # pyright: ignore[reportPrivateUsage]


# Each script first finds the position: the longest chain of subcommands among the words before the
# cursor.


def _walk(found: Sequence[Position]) -> Iterator[str]:
    """Yield the `case` branches in which a word leads to the next position; the shells share them."""
    for position in found:
        for part, _ in position.parts:
            name = f"{position.name} {part}".strip()
            yield f"{shlex.quote(f'{position.name}:{part}')}) at={shlex.quote(name)} ;;"


def _words(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))


def _valued(position: Position) -> Iterator[tuple[str, Value]]:
    """Yield a pattern for each option of a position that takes a value, with that value."""
    for option in position.options:
        if option.value is not None:
            yield "|".join(shlex.quote(f"{position.name}:{name}") for name in option.names), option.value


def bash(found: Sequence[Position]) -> str:
    """Return the script for bash."""
    lines = [
        "# Completion of interlock for bash: source <(interlock completion bash)",
        "_interlock_files() {",
        "    local IFS=$'\\n'",
        "    compopt -o filenames",
        '    COMPREPLY+=($(compgen -f -- "$current"))',
        "}",
        "_interlock() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '    local at="" word words="" options="" files=""',
        "    COMPREPLY=()",
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '        case "$at:$word" in',
        *(f"            {case}" for case in _walk(found)),
        "        esac",
        "    done",
        '    case "$at:$previous" in',
    ]
    for position in found:
        for pattern, value in _valued(position):
            if value.choices:
                choices = shlex.quote(_words(value.choices))
                does = f'COMPREPLY=($(compgen -W {choices} -- "$current")); return'
            elif value.is_file:
                does = "_interlock_files; return"
            else:
                does = "return"
            lines.append(f"        {pattern}) {does} ;;")
    lines += ["    esac", '    case "$at" in']
    for position in found:
        options = _words([name for option in position.options for name in option.names])
        does = f"words={shlex.quote(_words(position.words))} options={shlex.quote(options)}"
        does += " files=1" if position.takes_files else ""
        lines.append(f"        {shlex.quote(position.name)}) {does} ;;")
    lines += [
        "    esac",
        '    if [[ "$current" == -* ]]; then',
        '        COMPREPLY=($(compgen -W "$options" -- "$current"))',
        "        return",
        "    fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        '    if [[ -n "$files" ]]; then',
        "        _interlock_files",
        "    fi",
        "}",
        "complete -F _interlock interlock",
    ]
    return "\n".join(lines) + "\n"


def zsh(found: Sequence[Position]) -> str:
    """Return the script for zsh."""
    lines = [
        "#compdef interlock",
        "# Completion of interlock for zsh: put it as _interlock into a folder of $fpath, or source it.",
        "_interlock() {",
        '    local at="" word files=""',
        "    local -a described options",
        '    for word in "${(@)words[2,CURRENT-1]}"; do',
        '        case "$at:$word" in',
        *(f"            {case}" for case in _walk(found)),
        "        esac",
        "    done",
        '    case "$at:${words[CURRENT-1]}" in',
    ]
    for position in found:
        for pattern, value in _valued(position):
            does = "_files; return" if value.is_file else "return"
            if value.choices:
                does = f"compadd -- {_words(value.choices)}; return"
            lines.append(f"        ({pattern}) {does} ;;")
    lines += ["    esac", '    case "$at" in']
    for position in found:
        helps = dict(position.parts)
        described = [_described(word, helps.get(word, "")) for word in position.words]
        options = [_described(name, option.help) for option in position.options for name in option.names]
        does = f"described=({_words(described)}); options=({_words(options)})"
        does += "; files=1" if position.takes_files else ""
        lines.append(f"        ({shlex.quote(position.name)}) {does} ;;")
    lines += [
        "    esac",
        '    if [[ "${words[CURRENT]}" == -* ]]; then',
        "        _describe -o option options",
        "        return",
        "    fi",
        "    (( ${#described} )) && _describe word described",
        '    [[ -n "$files" ]] && _files',
        "    return 0",
        "}",
        'if [[ "${funcstack[1]}" == _interlock ]]; then',
        '    _interlock "$@"',
        "else",
        "    compdef _interlock interlock",
        "fi",
    ]
    return "\n".join(lines) + "\n"


def _described(word: str, text: str) -> str:
    return f"{word.replace(':', chr(92) + ':')}:{text}"


def fish(found: Sequence[Position]) -> str:
    """Return the script for fish."""
    lines = [
        "# Completion of interlock for fish: interlock completion fish | source",
        "function __interlock_at",
        "    set -l at ''",
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$at:$word"',
    ]
    for position in found:
        for part, _ in position.parts:
            name = f"{position.name} {part}".strip()
            lines.append(f"            case {_fish(f'{position.name}:{part}')}; set at {_fish(name)}")
    lines += [
        "        end",
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        "complete -c interlock -f",
    ]
    for position in found:
        here = f"complete -c interlock -n {_fish(f'__interlock_at {_fish(position.name)}')}"
        helps = dict(position.parts)
        for word in position.words:
            lines.append(f"{here} -a {_fish(word)} -d {_fish(helps.get(word, ''))}")
        if position.takes_files:
            lines.append(f"{here} -F")
        for option in position.options:
            names = " ".join(
                f"-l {_fish(name[2:])}" if name.startswith("--") else f"-s {_fish(name[1:])}"
                for name in option.names
            )
            argument = ""
            if option.value is not None:
                argument = " -r -F" if option.value.is_file else " -x"
                argument += f" -a {_fish(' '.join(option.value.choices))}" if option.value.choices else ""
            lines.append(f"{here} {names}{argument} -d {_fish(option.help)}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    """Quote a text for fish, where a backslash in single quotes escapes a quote or a backslash."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
