"""Every name a call goes by (G-50).

A call of `bash` may also be a `deploy` and a `delete`: each map whose pattern its input meets gives a
name. Then comes its dotted name, if a rule names an action of the tool, and last the tool's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..engine.net import ApprovalRule, BlockRule, LimitRule, Rule, SequenceRule, ToolCall
from .statements import SESSION, Map

ACTION = "action"


def tools_named(rule: Rule) -> tuple[str, ...]:
    """The tools a rule speaks of, in the order it names them."""
    match rule:
        case SequenceRule():
            return (rule.prerequisite, rule.dependent)
        case ApprovalRule() | BlockRule():
            return (rule.tool,)
        case LimitRule():
            return (rule.tool,) if rule.scope == SESSION else (rule.tool, rule.scope)


def matching(maps: Sequence[Map], value: str) -> Iterable[Map]:
    """Those of `maps`, all of one field, that the field's value meets."""
    return (m for m in maps if m.pattern.search(value))


class CallNamer:
    """The `call_names` function of one set of rules: all names of a call, the most specific first.

    Mapped names stand in the order their maps were written, then `tool.action`, then the tool's own
    name. Only string fields are looked at. One instance serves all nets of a set, so that a gate can
    ask it once for all of them.
    """

    def __init__(self, maps: Sequence[Map], rules: Iterable[Rule]) -> None:
        self._order = {id(m): position for position, m in enumerate(maps)}
        self._maps = _by_field(maps)
        named = (tool for rule in rules for tool in tools_named(rule))
        self._dotted = frozenset(tool.partition(".")[0] for tool in named if "." in tool)

    @property
    def needed(self) -> bool:
        """Whether any call has another name than its tool's own."""
        return bool(self._maps or self._dotted)

    def __call__(self, call: ToolCall) -> tuple[str, ...]:
        tool = call.tool_name
        names = [m.name for m in self._matched(call)]
        action = call.input.get(ACTION) if tool in self._dotted else None
        if isinstance(action, str):
            names.append(f"{tool}.{action}")
        names.append(tool)
        return tuple(dict.fromkeys(names))

    def _matched(self, call: ToolCall) -> list[Map]:
        fields = self._maps.get(call.tool_name)
        if not fields:
            return []
        found: list[Map] = []
        for field, maps in fields.items():
            value = call.input.get(field)
            if isinstance(value, str):
                found += matching(maps, value)
        return sorted(found, key=lambda m: self._order[id(m)])


def _by_field(maps: Sequence[Map]) -> Mapping[str, Mapping[str, Sequence[Map]]]:
    """Maps by tool and field, each list in the order written."""
    grouped: dict[str, dict[str, list[Map]]] = {}
    for m in maps:
        grouped.setdefault(m.tool, {}).setdefault(m.field, []).append(m)
    return grouped
