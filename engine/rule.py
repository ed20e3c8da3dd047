"""Rules as they were written: what a net was made of, and where that stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .condition import Condition

Risk: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class RuleSource:
    """Where a rule was written: file (or `<rules>`), line and column from 1, and the line's own text."""

    file: str
    line: int
    column: int
    text: str

    @property
    def where(self) -> str:
        """`deploy.rules:4`, the form people are shown."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class SequenceRule:
    """`require A before B`; `when` is about calls of B."""

    prerequisite: str
    dependent: str
    source: RuleSource | None = None
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """`require human-approval before B`.

    `people` is how many different ones must approve, `within` the seconds they have, `grants` whether
    one answer may let later calls pass as well.
    """

    tool: str
    source: RuleSource | None = None
    when: Condition | None = None
    people: int = 1
    within: float | None = None
    risk: Risk | None = None
    grants: bool = True


@dataclass(frozen=True, slots=True)
class BlockRule:
    """`block A`."""

    tool: str
    source: RuleSource | None = None
    when: Condition | None = None


@dataclass(frozen=True, slots=True)
class LimitRule:
    """`limit A to N per session`, or per another tool's success: then `scope` is that tool's name.

    With `window`, in seconds, uses come back one by one so long after they were made, and `scope` is the
    time as it was written. `when` is about calls of A.
    """

    tool: str
    limit: int
    scope: str
    source: RuleSource | None = None
    when: Condition | None = None
    window: float | None = None


Rule: TypeAlias = SequenceRule | ApprovalRule | BlockRule | LimitRule
