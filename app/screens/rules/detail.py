"""Panels of a rule: its places, transitions and states, and the picture of its net."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ....engine.history.model.state import NetState
from ....engine.net.net import format_marking, initial_state
from ....engine.recording.records import net_record
from ....engine.verify import reachable
from ...format.rules import STATES_SHOWN, place_text, transition_text
from ...format.text import count, shown, wrap_all
from ...terminal.charset import to_charset
from ...viewmodels.rules_view import RuleFinding, RuleNet
from ...widgets.base.blocks import Block
from ..common.detail import Detail, fact, section
from ..common.net_picture import net_picture


def net_state(of: RuleNet) -> NetState:
    """Return a rule's net in its initial marking."""
    marking = dict(initial_state(of.net).marking)
    return NetState(net=net_record(of.key, of.net), active=True, marking=marking)


def rule_picture(of: RuleNet) -> Detail:
    """Return the panel with the picture of a rule's net in its initial marking."""
    return net_picture(net_state(of))


def rule_detail(where: str, nets: Sequence[RuleNet], findings: Sequence[RuleFinding]) -> Detail:
    """Return the panel of a line: what `interlock check` prints about its nets, and its findings."""
    blocks = [block for net in nets for block in _net_blocks(net)]
    if findings:
        blocks.append(section("findings", first=not blocks))
    blocks += [_finding(number, finding) for number, finding in enumerate(findings)]
    return Detail(where, blocks)


def _net_blocks(of: RuleNet) -> list[Block]:
    net, key = of.net, of.key
    rule = None if net.rule is None else net.rule.source
    written = [] if rule is None else [("rule", f"{rule.where}  {rule.text.strip()}")]
    facts = [("net", key), *written, *_labelled("does", of.does)]
    facts += [("places", ", ".join(place_text(net, place) for place in net.places))]
    facts += _labelled("transitions", [transition_text(t, to_charset("→")) for t in net.transitions])
    reached = [format_marking(marking) for marking in reachable(net, keep=STATES_SHOWN).states]
    more = of.states - len(reached)
    rest = [to_charset(f"… {more:,} more")] if more else []
    facts += _labelled("reachable", [count(of.states, "state"), *reached, *rest])
    return [fact(label, text, "") for label, text in facts]


def _labelled(label: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return labelled facts for several texts; only the first has the label."""
    return [("" if number else label, text) for number, text in enumerate(texts)]


def _finding(number: int, finding: RuleFinding) -> Block:
    problem = finding.problem
    texts = [f"{finding.severity}: {shown(problem.message)}", *filter(None, [shown(problem.remedy)])]
    style = "$text-error" if finding.severity == "error" else "$text-warning"

    def lines(width: int) -> list[Content]:
        return [
            Content.styled(row, "" if part else style)
            for part, text in enumerate(texts)
            for row in wrap_all([text], width)
        ]

    return Block(f"finding {number}", number, lines)
