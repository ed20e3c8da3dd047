"""Rules as a test writes them and as it understands them, without the language or the nets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HOUR = 3600.0
QUARTER = 900.0
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """What an agent calls."""

    tool: str
    input: Fields


@dataclass(frozen=True)
class When:
    """A condition as it is written, and what it comes to: yes, no, or `None` where nobody can tell."""

    text: str
    holds: Callable[[Fields], bool | None]

    def __repr__(self) -> str:
        return self.text


def _env(given: Fields) -> bool | None:
    return given["env"] == "prod" if "env" in given else None


def _env_not(given: Fields) -> bool | None:
    return given["env"] != "prod" if "env" in given else None


def _many(given: Fields) -> bool | None:
    return given["n"] > 1 if "n" in given else None


def _either(given: Fields) -> bool | None:
    answers = (_env(given), _many(given))
    return True if True in answers else None if None in answers else False


CONDITIONS = (
    When('input.env = "prod"', _env),
    When('not input.env = "prod"', _env_not),
    When('input.env = "prod" or input.n > 1', _either),
)


@dataclass(frozen=True)
class Written:
    """One rule. `within` is in seconds; `limit` and `first` are of the rules that have these."""

    kind: str
    tool: str
    people: int = 1
    within: float | None = None
    grants: bool = True
    limit: int = 0
    first: str = ""
    when: When | None = None

    @property
    def text(self) -> str:
        when = f" when {self.when.text}" if self.when else ""
        match self.kind:
            case "block":
                return f"block {self.tool}{when}"
            case "limit":
                return f"limit {self.tool} to {self.limit} per 1h{when}"
            case "sequence":
                return f"require {self.first} before {self.tool}{when}"
            case _:
                asks = "human-approval" if self.people == 1 else f"{self.people} human-approvals"
                within = f" within {self.within:.0f}s" if self.within else ""
                grants = "" if self.grants else " risk high no grants"
                return f"require {asks} before {self.tool}{within}{grants}{when}"

    def applies(self, tool: str, given: Fields) -> bool:
        """Whether it has a say: not where its condition does not hold, but where nobody can tell."""
        return tool == self.tool and (self.when is None or self.when.holds(given) is not False)


def text_of(rules: Sequence[Written]) -> str:
    """A file of them, one a line."""
    return "\n".join(rule.text for rule in rules)
