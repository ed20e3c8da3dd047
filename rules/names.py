"""Every name a call goes by (G-50, G-51).

A call of `bash` may also be a `deploy` and a `delete`: each map whose pattern its input meets gives a
name. Then comes its dotted name, if a rule names an action of the tool, and last the tool's own.

In a field that holds a shell command each simple command meets the maps on its own, and the whole text
once; the first map that one of them meets wins for it. A command that is uninspectable takes every map
whose pattern it meets anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..engine.net import ToolCall
from ..engine.rule import ApprovalRule, BlockRule, LimitRule, Rule, RuleSource, SequenceRule
from .pattern_set import PatternSet
from .shell import Reading, read, views
from .statements import SESSION, Map

ACTION = "action"
SHELL_FIELDS = frozenset({"command", "cmd", "script"})


@dataclass(frozen=True, slots=True)
class Effect:
    """What made a call `name`: the piece of its input that first met a map, and where that map stands."""

    name: str
    text: str
    source: RuleSource


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a call.

    `names` are all it goes by, the most specific first; `effects` say what made it each mapped name, in
    the same order. `uninspectable` is why a shell command in it may do more than was found, `None` if
    it was read to its end. `unnamed` are the simple commands found in it that no map has a name for.
    """

    names: tuple[str, ...]
    effects: tuple[Effect, ...] = ()
    uninspectable: str | None = None
    unnamed: tuple[str, ...] = ()


def tools_named(rule: Rule) -> tuple[str, ...]:
    """The tools a rule speaks of, in the order it names them."""
    match rule:
        case SequenceRule():
            return (rule.prerequisite, rule.dependent)
        case ApprovalRule() | BlockRule():
            return (rule.tool,)
        case LimitRule():
            alone = rule.scope == SESSION or rule.window is not None
            return (rule.tool,) if alone else (rule.tool, rule.scope)


class CallNamer:
    """The `call_names` function of one set of rules: all names of a call, the most specific first.

    Mapped names stand in the order their maps were written, then `tool.action`, then the tool's own
    name. Only string fields are looked at. One instance serves all nets of a set, so that a gate can
    ask it once for all of them. `renames` are the tools whose calls may have other names than their
    tool's own; `carriers` gives, for a name, the tools whose calls can have it beside their own.
    """

    def __init__(self, maps: Sequence[Map], rules: Iterable[Rule]) -> None:
        self._fields = _by_field(maps)
        named = [tool for rule in rules for tool in tools_named(rule)]
        self._dotted = frozenset(tool.partition(".")[0] for tool in named if "." in tool)
        self.renames = self._dotted.union(self._fields)
        self.carriers = _carriers(maps, named)

    @property
    def needed(self) -> bool:
        """Whether any call has another name than its tool's own."""
        return bool(self.renames)

    def __call__(self, call: ToolCall) -> tuple[str, ...]:
        return self._inspected(call, unnamed=False).names

    def inspect(self, call: ToolCall) -> Inspection:
        """The names of a call, and what else its maps found."""
        return self._inspected(call, unnamed=True)

    def _inspected(self, call: ToolCall, *, unnamed: bool) -> Inspection:
        # What has no name is found by meeting the maps once more, which no gate needs for its names.
        tool = call.tool_name
        met: dict[int, Effect] = {}
        unclear: str | None = None
        without: list[str] = []
        for field in self._fields.get(tool, ()):
            value = call.input.get(field.name)
            if isinstance(value, str):
                reading = read(value) if field.shell else None
                for at, text in field.meet(value, reading):
                    met.setdefault(field.order[at], _effect(field.maps[at], text))
                without += field.unmet(reading) if unnamed and reading is not None else ()
                if reading and reading.uninspectable and unclear is None:
                    unclear = f"{field.name}: {reading.uninspectable}"
            elif field.shell and value is not None and unclear is None:
                unclear = f"{field.name}: it is no text"
        effects: dict[str, Effect] = {}
        for _, effect in sorted(met.items()):
            effects.setdefault(effect.name, effect)
        names = list(effects)
        action = call.input.get(ACTION) if tool in self._dotted else None
        if isinstance(action, str):
            names.append(f"{tool}.{action}")
        names.append(tool)
        found = tuple(dict.fromkeys(names))
        return Inspection(found, tuple(effects.values()), unclear, tuple(without))


def _carriers(maps: Iterable[Map], named: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """By name, the other tools whose calls can have it: through a map, or as `tool.action`."""
    found: dict[str, dict[str, None]] = {}
    for m in maps:
        found.setdefault(m.name, {})[m.tool] = None
    for name in named:
        tool, dot, action = name.partition(".")
        if dot and tool and action:
            found.setdefault(name, {})[tool] = None
    # A map may give a call the name its tool has already: that call is one like any other.
    others = {name: tuple(tool for tool in tools if tool != name) for name, tools in found.items()}
    return {name: tools for name, tools in others.items() if tools}


class _Field:
    """The maps of one field of a tool, in the order written, and the place of each among all maps."""

    def __init__(self, name: str, maps: Sequence[tuple[int, Map]]) -> None:
        self.name = name
        self.maps = [m for _, m in maps]
        self.order = [at for at, _ in maps]
        self.shell = name in SHELL_FIELDS or any(m.shell for m in self.maps)
        self._patterns = PatternSet([m.pattern for m in self.maps])

    def meet(self, value: str, reading: Reading | None) -> Iterator[tuple[int, str]]:
        """The maps that a value meets, each with the piece that met it; some may come again."""
        if reading is None:
            yield from ((at, value) for at in self._patterns.all(value))
            return
        for command in reading.commands:
            if reading.uninspectable is not None:
                yield from ((at, command.source) for t in command.texts for at in self._patterns.all(t))
            elif (first := self._patterns.first(command.texts)) is not None:
                yield first, command.source
        if reading.uninspectable is not None:
            yield from ((at, value) for text in views(value) for at in self._patterns.all(text))
        elif (first := self._patterns.first((value,))) is not None:
            yield first, value

    def unmet(self, reading: Reading) -> Iterator[str]:
        """The commands that meet no map."""
        for command in reading.commands:
            if self._patterns.first(command.texts) is None:
                yield command.source


def _effect(m: Map, text: str) -> Effect:
    return Effect(m.name, text, m.source)


def _by_field(maps: Sequence[Map]) -> Mapping[str, Sequence[_Field]]:
    """The fields that maps look in, by tool."""
    grouped: dict[str, dict[str, list[tuple[int, Map]]]] = {}
    for at, m in enumerate(maps):
        grouped.setdefault(m.tool, {}).setdefault(m.field, []).append((at, m))
    return {
        tool: [_Field(name, of_field) for name, of_field in fields.items()]
        for tool, fields in grouped.items()
    }
