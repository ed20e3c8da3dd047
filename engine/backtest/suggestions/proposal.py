"""A rule before its effect is known, and the calls from which scenarios about it are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.rule import RuleSource
from ...history.model.times import from_ms
from ...net.net import Input
from .facts import Observation
from .suggestion import Kind, Support

Example = tuple[str, Input]
"""Tool and input of a recorded call."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A line of rules, and the location of the line that it replaces; `None` for a new one.

    Each of `examples` is the calls of one scenario in order. `open_fields` may have any value in calls
    that the rule exempts.
    """

    kind: Kind
    text: str
    support: Support
    replaces: RuleSource | None = None
    examples: tuple[tuple[Example, ...], ...] = ()
    open_fields: tuple[str, ...] = ()

    @property
    def loosens(self) -> bool:
        return self.replaces is not None


def support_of(calls: Iterable[Observation], denied: int) -> Support:
    """Approved calls that support a rule, and the number of denied ones."""
    observations = list(calls)
    times = sorted(each.at for each in observations if each.at is not None)
    return Support(
        calls=len(observations),
        denied=denied,
        sessions=len({each.session for each in observations}),
        people=tuple(sorted({name for each in observations for name in each.by})),
        first=from_ms(times[0]) if times else None,
        last=from_ms(times[-1]) if times else None,
    )
