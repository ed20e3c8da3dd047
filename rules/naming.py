"""All names of a call (G-50, G-51, G-64, G-65).

A call of `bash` may also be a `deploy` and a `delete`: each map whose pattern matches its input gives a
name. Then comes its dotted name, if a rule names an action of the tool, and finally the tool's own.

In a field with a shell command, each simple command is matched with the maps, and the whole text once.
For each of them the first matching map wins. A list of texts in such a field is an argv: a program and
its words. A command that is uninspectable gets the names of all maps whose pattern matches anywhere.

In other fields a map matches a text, the JSON text of a number or of true and false, and each element of
a list of these. Any other value gets the names of all maps that match any text in it, and is unclear.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from ..engine.core.condition import Input
from ..engine.core.frozen import frozen
from ..engine.core.rule import (
    UNCLEAR,
    ApprovalRule,
    BlockRule,
    LimitRule,
    Rule,
    RuleSource,
    SequenceRule,
    watched,
)
from ..engine.core.sanitize import folded_name
from ..engine.net.net import NameMaps, ToolCall
from .name_maps import Fields, gives_less, name_maps
from .parse.patterns import Pattern, PatternSet
from .parse.statements import SESSION, Map
from .shell.words import unquoted

if TYPE_CHECKING:
    from .shell import Shell, SimpleCommand

ACTION = "action"
MOST_FIELDS = 1_024
"""Names of a tool's fields cached as read by no map; an agent may invent any number."""
LONGEST_FIELD = 64
"""Longest name that is cached."""
SHELL_FIELDS = frozenset({"command", "cmd", "script"})
_OTHER = "\ue000"
"""Name of a program that no rules file mentions."""


@frozen
class Effect:
    """Name that a map gave a call: the first matching piece of its input, and the map's source.

    `field` is where it was found; a `command` is one simple command of a shell field, or all of its text.
    """

    name: str
    text: str
    source: RuleSource
    field: str = ""
    command: bool = False


@frozen
class Inspection:
    """Result of inspecting a call.

    `names` are all its names, the most specific first; `effects` say what gave each mapped name, in the
    same order. `uninspectable` is why it may do more than was found, `None` if all mapped fields were
    analysed completely; otherwise the call is also `unclear` (G-64). `unnamed` are its simple commands
    that no map names. `marked` are the positions, among all `commands`, of the other commands and of
    those with words that are not known.
    """

    names: tuple[str, ...]
    effects: tuple[Effect, ...] = ()
    uninspectable: str | None = None
    unnamed: tuple[str, ...] = ()
    commands: int = 0
    marked: tuple[int, ...] = ()


def is_shell_field(name: str) -> bool:
    """Return whether a field, or the last name of a path, is one that holds shell commands."""
    return name.rpartition(".")[2] in SHELL_FIELDS


def tools_named(rule: Rule) -> tuple[str, ...]:
    """Tools that a rule mentions, in its order."""
    match rule:
        case SequenceRule():
            return (*rule.prerequisites, rule.dependent)
        case ApprovalRule(after=str(cause)):
            return (cause, rule.tool)
        case BlockRule(after=str(cause)):
            return (rule.tool, cause)
        case ApprovalRule() | BlockRule():
            return (rule.tool,)
        case LimitRule():
            alone = rule.scope == SESSION or rule.window is not None
            return (rule.tool,) if alone else (rule.tool, rule.scope)


class CallNamer:
    """The `call_names` function of one set of rules: all names of a call, the most specific first.

    Mapped names come in the order of their maps, then `tool.action`, then `unclear` for a call that
    cannot be analysed completely, then the tool's own name. A tool whose name only folds to one that maps
    or dotted rules name has the names of that one (G-66). One instance serves all nets of a set, so that
    a gate can call it once for all of them. `renames` are the tools whose calls may have other names than
    their tool's own. `carriers` has, for a name, the tools whose calls can have it besides their own.

    Only calls of `unclear_tools` can be `unclear`; if it is `None`, calls of any tool can.
    """

    def __init__(
        self, maps: Sequence[Map], rules: Iterable[Rule], unclear_tools: frozenset[str] | None = None
    ) -> None:
        rules = list(rules)
        named = [tool for rule in rules for tool in tools_named(rule)]
        self._risky = frozenset(name for rule in rules for name in watched(rule))
        self._fields = _by_field(maps, self._risky)
        self._unclear_tools = unclear_tools
        self._dotted = frozenset(tool.partition(".")[0] for tool in named if "." in tool)
        self.renames = self._dotted.union(self._fields)
        self._folded: dict[str, tuple[str, ...]] = {}
        for tool in sorted(self.renames):
            folded = folded_name(tool)
            self._folded[folded] = (*self._folded.get(folded, ()), tool)
        self.carriers = _carriers(maps, named, self._unclear_tools)
        self._spellings = {tool: _Spellings(fields) for tool, fields in self._fields.items()}

    @property
    def needed(self) -> bool:
        """True if any call has another name than its tool's own."""
        return bool(self.renames)

    def __call__(self, call: ToolCall) -> tuple[str, ...]:
        return self._inspected(call, unnamed=False).names

    def named(self, call: ToolCall) -> tuple[tuple[str, ...], str | None]:
        """Names of a call, and why it is unclear."""
        found = self._inspected(call, unnamed=False)
        return found.names, found.uninspectable

    def deed(self, call: ToolCall, name: str) -> tuple[str, str] | None:
        """Place and text that gave `call` the name `name`: `bash`, `sudo ls`; `None` for its own name.

        Unless it is a command, the place includes the field: `http.url`.
        """
        for effect in self._inspected(call, unnamed=False).effects:
            if effect.name == name and name != call.tool_name:
                place = call.tool_name if effect.command else f"{call.tool_name}.{effect.field}"
                return place, effect.text
        action = call.input.get(ACTION)
        if isinstance(action, str) and name in {f"{one}.{action}" for one in self._tools(call.tool_name)}:
            return f"{call.tool_name}.{ACTION}", action
        return None

    def inspect(self, call: ToolCall) -> Inspection:
        """Names of a call, and what else its maps found."""
        return self._inspected(call, unnamed=True)

    def name_maps(self, name: str) -> NameMaps:
        """Maps that give calls `name` (G-67)."""
        return name_maps(name, self._each_field(), self.renames, self._risky, self._unclear_tools)

    def gives_less(self, name: str, was: NameMaps) -> bool:
        """Return whether `name` is given to fewer calls than by the maps described by `was` (G-67)."""
        return gives_less(name, was, self.name_maps(name), self._each_field())

    def _each_field(self) -> Fields:
        for tool, fields in self._fields.items():
            for each in fields:
                yield tool, each.name, each.shell, each.maps

    # Further information for grants by names.

    @cached_property
    def declares_shells(self) -> bool:
        """True if maps declare fields to hold shell commands whose names do not show it."""
        return any(self.shell_fields(tool) for tool in self._fields)

    @cached_property
    def maps_digest(self) -> str:
        """Digest that two sets of maps share only if they give every call the same names."""
        written = [
            (at, m.tool, m.field, m.pattern.text, m.name, m.shell)
            for fields in self._fields.values()
            for looked_in in fields
            for at, m in zip(looked_in.order, looked_in.maps, strict=True)
        ]
        unclear = None if self._unclear_tools is None else sorted(self._unclear_tools)
        return sha256(repr((sorted(written), sorted(self._dotted), unclear)).encode()).hexdigest()

    def shell_fields(self, tool: str) -> tuple[str, ...]:
        """Fields of a tool declared to hold shell commands, whose names do not show it (G-51)."""
        fields = self._fields_of(tool)
        return tuple(each.name for each in fields if each.shell and not is_shell_field(each.name))

    def command_fields(self, tool: str) -> tuple[str, ...]:
        """Fields of a tool in which maps read shell commands; paths lead into objects."""
        return tuple(each.name for each in self._fields_of(tool) if each.shell)

    def unread(self, call: ToolCall) -> Input:
        """A call's input without the texts, or lists of texts, that its maps read (G-74)."""
        left: Input = call.input
        for each in self._fields_of(call.tool_name):
            left = _without(left, tuple(each.name.split(".")))
        return left

    def other_effect(self, call: ToolCall) -> str | None:
        """Reason why a call does more than run programs that have names, or `None` (G-74)."""
        for each in self._fields_of(call.tool_name):
            for command in each.commands(call.input):
                why = f"{each.name} is no text" if command is None else _not_plain(command)
                if why is not None:
                    return why
        return None

    def programs(self, call: ToolCall) -> tuple[str, ...]:
        """Programs that a call's commands run, as far as its maps do not determine them (G-74).

        If a map matches a program by its whole name, only the directory counts: `./` of `./deploy` if
        `deploy` is mapped, nothing of `git` if `/^git push/` is. For any other program the whole path
        counts, such as `rm` of `rm deploy`, which the same map matches. The script that an interpreter
        runs is also one.
        """
        fields = self._fields_of(call.tool_name)
        return tuple(sorted({name for each in fields for name in each.programs(call.input, call.shell)}))

    def _tools(self, tool: str) -> tuple[str, ...]:
        """Tools of the rules as which a call of `tool` counts."""
        return (tool,) if tool in self.renames else self._folded.get(folded_name(tool), ())

    def _fields_of(self, tool: str) -> Iterator[_Field]:
        """Fields that maps read, of the tools as which a call of `tool` counts."""
        return (each for one in self._tools(tool) for each in self._fields.get(one, ()))

    def _inspected(self, call: ToolCall, *, unnamed: bool) -> Inspection:
        # Unnamed commands are found by matching the maps again, which a gate does not need for the names.
        tool = call.tool_name
        tools = self._tools(tool)
        found = _CallFindings([] if unnamed else None, call.shell)
        for one in tools:
            for looked_in in self._fields.get(one, ()):
                looked_in.look(call.input, found)
            if (spellings := self._spellings.get(one)) is not None and spellings.are_odd(call.input):
                spellings.look(call.input, found)
        effects: dict[str, Effect] = {}
        for _, effect in sorted(found.met.items()):
            effects.setdefault(effect.name, effect)
        names = list(effects)
        for one in tools:
            action = call.input.get(ACTION) if one in self._dotted else None
            if isinstance(action, str):
                names.append(f"{one}.{action}")
        unclear_tools = self._unclear_tools
        if found.unclear is not None and (unclear_tools is None or not unclear_tools.isdisjoint(tools)):
            names.append(UNCLEAR)
        if tool in names:
            names.remove(tool)
        names.append(tool)
        every = tuple(dict.fromkeys(names))
        return Inspection(
            every,
            tuple(effects.values()),
            found.unclear,
            tuple(found.unnamed or ()),
            found.commands,
            tuple(found.marked),
        )


class _CallFindings:
    """Findings in one call: the positions of the maps that match it, and why there may be more.

    `unnamed` collects the simple commands that match no map, unless it is `None`. Then `marked` has the
    positions of the others, and of those that are not known, among all `commands`. `shell` runs the shell
    commands in the call.
    """

    def __init__(self, unnamed: list[str] | None, shell: Shell | None) -> None:
        self.unnamed = unnamed
        self.shell: Shell | None = shell
        self.met: dict[int, Effect] = {}
        self.unclear: str | None = None
        self.commands = 0
        self.marked: list[int] = []


class _Spellings:
    """Other spellings of a tool's fields in a call: in another case, or with invisible characters.

    Decoders of some languages accept `Command` for `command`. A map also reads such a field, and the call
    is unclear, because the tool decides which of two such fields counts (G-66).
    """

    def __init__(self, fields: Sequence[_Field]) -> None:
        self._fields = fields
        self._paths = [each for each in fields if "." in each.name]
        parts = {part for each in fields for part in (each.name, *each.name.split("."))}
        self._folded = {folded_name(part) for part in parts}
        self._known = {part for part in parts if "." not in part}

    def are_odd(self, call_input: Input) -> bool:
        """Return whether there may be fields that fold to mapped ones without being equal."""
        return bool(self._paths) or not all(
            name in self._known or self._is_other(name) for name in call_input
        )

    def _is_other(self, name: str) -> bool:
        """Return whether no map reads a field; such names are cached and not folded again."""
        if folded_name(name) in self._folded:
            return False
        if len(self._known) < MOST_FIELDS and len(name) <= LONGEST_FIELD:
            self._known.add(name)
        return True

    def look(self, call_input: Input, found: _CallFindings) -> None:
        """Read the fields that are spelled differently from the maps."""
        for each in self._fields:
            for written, value in _reached_otherwise(call_input, tuple(each.name.split("."))):
                each.look_otherwise(written, value, found)


def _reached_otherwise(call_input: Input, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    """Values of a field that is spelled differently in its path, with that spelling; see `_reached`."""
    waiting: list[tuple[object, tuple[str, ...], str | None]] = [(call_input, path, None)]
    while waiting:
        value, rest, odd = waiting.pop()
        if not rest:
            if odd is not None and value is not None:
                yield odd, value
        elif isinstance(value, Mapping):
            for name, inner in cast("Mapping[str, object]", value).items():
                for length in range(1, len(rest) + 1):
                    wanted = ".".join(rest[:length])
                    if name == wanted:
                        waiting.append((inner, rest[length:], odd))
                    elif folded_name(name) == folded_name(wanted):
                        waiting.append((inner, rest[length:], odd or name))
        elif isinstance(value, list | tuple):
            waiting += [(item, rest, odd) for item in cast("Sequence[object]", value)]


def _carriers(
    maps: Iterable[Map], named: Iterable[str], unclear_tools: frozenset[str] | None
) -> Mapping[str, tuple[str, ...]]:
    """By name, the other tools whose calls can have it: through a map, as `tool.action`, as `unclear`."""
    found: dict[str, dict[str, None]] = {}
    for m in maps:
        found.setdefault(m.name, {})[m.tool] = None
        if unclear_tools is None or m.tool in unclear_tools:
            found.setdefault(UNCLEAR, {})[m.tool] = None
    for name in named:
        tool, dot, action = name.partition(".")
        if dot and tool and action:
            found.setdefault(name, {})[tool] = None
    # A map may give a call the name that its tool already has; that has no effect.
    others = {name: tuple(tool for tool in tools if tool != name) for name, tools in found.items()}
    return {name: tools for name, tools in others.items() if tools}


def _not_plain(command: str) -> str | None:
    """See `side_effects.not_plain`, which is loaded together with the parser of shell commands."""
    from .shell.side_effects import not_plain

    return not_plain(command)


class _Field:
    """The maps of one field of a tool, in order, and the position of each among all maps.

    `risky` are those to a name that a rule restricts.
    """

    def __init__(self, name: str, maps: Sequence[tuple[int, Map]], risky: frozenset[str]) -> None:
        self.name = name
        self.maps = [m for _, m in maps]
        self.order = [at for at, _ in maps]
        self.shell = is_shell_field(name) or any(m.shell for m in self.maps)
        self._risky = [m for m in self.maps if m.name in risky]
        self._path = tuple(name.split(".")) if "." in name else ()
        self._patterns = PatternSet([m.pattern for m in self.maps])

    def look(self, call_input: Input, found: _CallFindings) -> None:
        """Search a call's input for matches of the maps."""
        if self._path:
            for value, whole in _reached(call_input, self._path):
                self._look_at(value, found) if whole else self._look_inside(value, "no object", found)
        elif (value := call_input.get(self.name)) is not None:
            self._look_at(value, found)

    def look_otherwise(self, written: str, value: object, found: _CallFindings) -> None:
        """Search the value of a field that folds to this one and is spelled differently (G-66)."""
        self._unclear(f"the field {written!r} differs from it only in looks", found)
        self._look_at(value, found)

    def _look_at(self, value: object, found: _CallFindings) -> None:
        text = _text_of(value)
        if text is not None:
            self._read(text, found, found.shell) if self.shell else self._search(text, found)
            self._search_whole(value, found)
        elif isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            texts = [text for item in items if (text := _text_of(item)) is not None]
            if len(texts) < len(items):
                self._look_inside(items, "a list that contains more than texts", found)
            elif self.shell:
                self._read_argv(texts, found)
            else:
                for text in dict.fromkeys(texts):
                    self._search(text, found)
                for item in items:
                    self._search_whole(item, found)
        elif isinstance(value, Mapping):
            self._look_inside(cast("object", value), "an object", found)
        else:
            self._look_inside(value, "no text", found)

    def _look_inside(self, value: object, shape: str, found: _CallFindings) -> None:
        """Search every text in a value that is not a text, because it may become one in many ways."""
        self._unclear(f"it is {shape}", found)
        for text in _texts_in(value):
            self._search(text, found)

    def _unclear(self, reason: str, found: _CallFindings) -> None:
        found.unclear = found.unclear or f"{self.name}: {reason}"

    def _search(self, text: str, found: _CallFindings) -> None:
        """Every map that matches a text gives a name."""
        for at in self._patterns.all(text):
            self._meet(at, text, found)

    def _search_whole(self, value: object, found: _CallFindings) -> None:
        """Also search a whole number's integer form: to most readers `5.0` is the number 5."""
        if isinstance(value, float) and value.is_integer():
            self._search(str(int(value)), found)

    def _meet(self, at: int, text: str, found: _CallFindings) -> None:
        place = self.order[at]
        if place not in found.met:
            mapped = self.maps[at]
            found.met[place] = Effect(mapped.name, text, mapped.source, self.name, self.shell)

    def _read_argv(self, words: Sequence[str], found: _CallFindings) -> None:
        """A program and its words, which no shell parses."""
        if not words:
            return
        if len(words[0].split()) > 1:
            self._unclear("its first element contains blanks: it may be lines of a script", found)
        self._read(_argv_text(words), found, "bash")

    def _read(self, text: str, found: _CallFindings, shell: Shell | None) -> None:
        """For each simple command in a shell command, the first matching map wins."""
        from .shell import read, views

        reading = read(text, shell)
        if reading.uninspectable is not None:
            self._unclear(reading.uninspectable, found)
            for command in reading.commands:
                for alternative in command.texts:
                    for at in self._patterns.all(alternative):
                        self._meet(at, command.source, found)
            for view in views(text):
                for at in self._patterns.all(view):
                    self._meet(at, text, found)
        else:
            for command in reading.commands:
                if (first := self._patterns.first(command.texts)) is not None:
                    self._meet(first, command.source, found)
                if command.unclear is not None and self._may_be_more(command):
                    self._unclear(command.unclear, found)
            if (first := self._patterns.first((text,))) is not None:
                self._meet(first, text, found)
        if found.unnamed is not None:
            for at, command in enumerate(reading.commands, found.commands):
                named = self._patterns.first(command.texts) is not None
                if not named:
                    found.unnamed.append(command.source)
                if named or command.unclear is not None:
                    found.marked.append(at)
            found.commands += len(reading.commands)

    def commands(self, call_input: Input) -> Iterator[str | None]:
        """Commands in a shell field of an input, as parsed; `None` for a value that is not text."""
        path = self._path or (self.name,)
        for value, whole in _reached(call_input, path) if self.shell else ():
            text = _text_of(value)
            items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
            words = [word for item in items if (word := _text_of(item)) is not None]
            if not whole or (text is None and (not words or len(words) < len(items))):
                yield None
            else:
                yield _argv_text(words) if text is None else text

    def programs(self, call_input: Input, shell: Shell | None) -> Iterator[str]:
        """The undetermined part of each program's path in a shell field; see `CallNamer.programs`."""
        from .shell import read

        for text in self.commands(call_input):
            for command in () if text is None else read(text, shell).commands:
                yield from self._programs(command)

    def _programs(self, command: SimpleCommand) -> Iterator[str]:
        program = _program_in(unquoted(command.texts[0]))
        folder, slash, name = program.rpartition("/")
        first = self._patterns.first(command.texts)
        about = first is not None and any(
            _is_about(self.maps[first].pattern, name, text) for text in command.texts
        )
        yield folder + slash if about else program
        script = _program_in(command.texts[-1])
        if script.rpartition("/")[2] != name:
            yield script

    def _may_be_more(self, command: SimpleCommand) -> bool:
        """Return whether words known only when the command runs may make it match a risky map."""
        return any(
            m.pattern.begins_with(command.start) and not any(map(m.pattern.search, command.texts))
            for m in self._risky
        )


def _argv_text(words: Sequence[str]) -> str:
    """A program and its words as an equivalent command."""
    return " ".join((_program(words[0]), *map(shlex.quote, words[1:])))


def _program(word: str) -> str:
    """A word quoted so that a shell reads it as a program's name, not as a keyword or an assignment."""
    quoted = shlex.quote(word)
    plain = quoted == word and "=" not in word and word not in _KEYWORDS
    return word if plain else quoted if quoted != word else f"'{word}'"


_KEYWORDS = frozenset(
    ("case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in")
) | {"select", "then", "time", "until", "while"}


def _text_of(value: object) -> str | None:
    """A text, or the JSON text of a number or of true and false; `None` for other values."""
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, int | float) else None


def _texts_in(value: object) -> Iterator[str]:
    """Every text, number and name of a field in a value, at any depth."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, Mapping):
            of_object = cast("Mapping[object, object]", inner)
            waiting += [*of_object.values(), *of_object.keys()]
        elif isinstance(inner, list | tuple):
            waiting += cast("Sequence[object]", inner)
        elif (text := _text_of(inner)) is not None:
            yield text


def _reached(call_input: Input, path: tuple[str, ...]) -> Iterator[tuple[object, bool]]:
    """Values of a field `a.b.c`: of that literal name, and in objects, or lists of them, along the path.

    A value that is absent or null gives none. `False` accompanies a value on the path that is not an
    object: its text may contain the field all the same.
    """
    waiting: list[tuple[object, tuple[str, ...]]] = [(call_input, path)]
    while waiting:
        value, rest = waiting.pop()
        if value is None:
            continue
        if not rest:
            yield value, True
        elif isinstance(value, Mapping):
            inner = cast("Mapping[str, object]", value)
            for length in range(1, len(rest) + 1):
                name = ".".join(rest[:length])
                if name in inner:
                    waiting.append((inner[name], rest[length:]))
        elif isinstance(value, list | tuple):
            waiting += [(item, rest) for item in cast("Sequence[object]", value)]
        else:
            yield value, False


def _program_in(text: str) -> str:
    """First word of a command."""
    return next(iter(text.split(maxsplit=1)), "")


def _is_about(pattern: Pattern, name: str, text: str) -> bool:
    """Return whether a pattern matches the command `text` by its program's whole `name`.

    It does not if it matches the same words after another program as well.
    """
    program = _program_in(text)
    start, end = program.rfind("/") + 1, len(program)
    if program[start:] != name or (span := pattern.span(text)) is None:
        return False
    return span[0] <= start and end <= span[1] and not pattern.search(text[:start] + _OTHER + text[end:])


def _without(call_input: Input, path: tuple[str, ...]) -> dict[str, object]:
    """An object without what a map of the field `path` reads in it; see `_reached`."""
    left = dict(call_input)
    for length in range(1, len(path) + 1):
        name, rest = ".".join(path[:length]), path[length:]
        value = left.get(name)
        if rest:
            if isinstance(value, Mapping):
                left[name] = _without(cast("Input", value), rest)
            elif isinstance(value, list | tuple):
                items = cast("Sequence[object]", value)
                left[name] = [
                    _without(cast("Input", item), rest) if isinstance(item, Mapping) else item
                    for item in items
                ]
        elif name in left and _is_text(value):
            del left[name]
    return left


def _is_text(value: object) -> bool:
    """Return whether a map reads all of a value: a text, or a list of texts, but not null."""
    if isinstance(value, list | tuple):
        return all(_text_of(each) is not None for each in cast("Sequence[object]", value))
    return _text_of(value) is not None


def _by_field(maps: Sequence[Map], risky: frozenset[str]) -> Mapping[str, Sequence[_Field]]:
    """Fields that maps read, by tool."""
    grouped: dict[str, dict[str, list[tuple[int, Map]]]] = {}
    for at, m in enumerate(maps):
        grouped.setdefault(m.tool, {}).setdefault(m.field, []).append((at, m))
    return {
        tool: [_Field(name, of_field, risky) for name, of_field in fields.items()]
        for tool, fields in grouped.items()
    }
