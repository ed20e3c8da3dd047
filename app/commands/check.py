"""`interlock check`: compile rules files and print what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from textwrap import wrap
from typing import TextIO

from ...engine.net import SkillNet, Transition, format_marking
from ...engine.text import visible
from ...engine.verify import reachable
from ...rules import Problem, RuleError, RuleSet, load_rules

BAD_INPUT = 2
STATES_SHOWN = 12
WIDTH = 80
INDENT = 15


def run(files: Sequence[str], *, out: TextIO, err: TextIO) -> int:
    """Compile `files` together and print each net with its states.

    Returns 0, or 2 after printing every error with its place to `err`.
    """
    if not files:
        print("interlock check: name at least one rules file", file=err)
        return BAD_INPUT
    try:
        rules = load_rules(*files)
    except RuleError as error:
        print(error, file=err)
        print(f"\n{_count(len(error.problems), 'error')}; nothing was compiled.", file=err)
        return BAD_INPUT
    for line in chain(_summary(rules), _nets(rules), _warnings(rules.warnings)):
        print(line, file=out)
    return 0


def _summary(rules: RuleSet) -> Iterator[str]:
    files = ", ".join(visible(file) for file in rules.sources)
    findings = f", {_count(len(rules.warnings), 'warning')}" if rules.warnings else ""
    yield f"{files}: {_count(len(rules), 'net')}{findings}"
    if not rules.nets:
        yield "No rule restricts anything: every call is allowed."


def _nets(rules: RuleSet) -> Iterator[str]:
    for (key, net), verified in zip(rules.registry.items(), rules.verification, strict=True):
        yield ""
        yield from _title(key, net)
        yield from _row("places", ", ".join(_place(net, place) for place in net.places))
        for position, transition in enumerate(net.transitions):
            yield from _row("" if position else "transitions", _transition(transition))
        yield from _states(net, verified.reachable_states)


def _title(key: str, net: SkillNet) -> Iterator[str]:
    key = visible(key)
    source = None if net.rule is None else net.rule.source
    if source is None:
        yield key
        return
    where = visible(source.where)
    room = WIDTH - len(key) - len(where)
    yield f"{key}{' ' * room}{where}" if room > 1 else f"{key}  {where}"
    yield f"  {visible(source.text.partition('#')[0].strip())}"


def _place(net: SkillNet, place: str) -> str:
    tokens = net.initial_marking[place]
    return f"{place} {tokens}" if tokens else place


def _transition(transition: Transition) -> str:
    arcs = f"{', '.join(transition.inputs)} → {', '.join(transition.outputs)}"
    moved = "".join(f", all {source} → {target}" for source, target in transition.transfers)
    fired_by = f"on {', '.join(transition.tools)}" if transition.tools else "structural"
    manual = ["manual"] if transition.type == "manual" else []
    deferred = ["deferred"] if transition.deferred else []
    marks = f" ({', '.join(manual + deferred)})" if manual or deferred else ""
    return visible(f"{transition.name}: {arcs}{moved}; {fired_by}{marks}")


def _states(net: SkillNet, count: int) -> Iterator[str]:
    reached = reachable(net, keep=STATES_SHOWN)
    yield from _row("reachable", _count(count, "state"))
    for marking in reached.states:
        yield from _row("", format_marking(marking))
    if count > len(reached.states):
        yield from _row("", f"… {count - len(reached.states):,} more")


def _warnings(warnings: Sequence[Problem]) -> Iterator[str]:
    for warning in warnings:
        yield ""
        yield f"warning: {warning}"


def _row(label: str, text: str) -> Iterator[str]:
    lines = wrap(text, WIDTH - INDENT, break_long_words=False, break_on_hyphens=False) or [""]
    for position, line in enumerate(lines):
        yield f"  {'' if position else label:<{INDENT - 2}}{line}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
