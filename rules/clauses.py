"""What may follow a rule: options in any order, and its condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from lark import Token, Tree

from ..engine.condition import Condition
from ..engine.rule import ApprovalRule, Risk, RuleSource
from .conditions import read_condition
from .durations import seconds
from .fault import Fault, start
from .option_faults import no_people, no_time, twice
from .statements import MAX_PEOPLE


class Clauses:
    """The options of one rule and its condition. What is wrong with them is added to `wrong`.

    A word that is not what the grammar expected has been complained of, and counts for nothing.
    """

    def __init__(self, line: str, trees: Sequence[Tree[Token]], wrong: list[Fault]) -> None:
        self._line = line
        self._wrong = wrong
        self._options: dict[str, Token] = {}
        self.when: Condition | None = None
        for tree in trees:
            words = [child for child in tree.children if isinstance(child, Token)]
            if str(tree.data) == "when":
                self.when = self._condition(words[0])
            else:
                self._take(str(tree.data), words)

    def _condition(self, word: Token) -> Condition | None:
        if word.type != "CONDITION":
            return None
        condition, wrong = read_condition(self._line, start(word))
        self._wrong += wrong
        return condition

    def _take(self, option: str, words: Sequence[Token]) -> None:
        if option in self._options:
            self._wrong.append(twice(self._line, words[0], words[-1]))
        self._options.setdefault(option, words[-1])

    def approval(self, tool: str, source: RuleSource, number: Token | None = None) -> ApprovalRule:
        """The rule that asks people; `number` is how many, where it stands in front."""
        by = self._options.get("by")
        if by is not None and number is not None:
            self._wrong.append(twice(self._line, self._keyword(by), by))
        within = self._options.get("within")
        risk = self._options.get("risk")
        return ApprovalRule(
            tool,
            source,
            self.when,
            people=self._people(number or by),
            within=None if within is None else time(within, self._wrong),
            risk=cast("Risk", str(risk)) if risk is not None else None,
            grants="no_grants" not in self._options,
        )

    def _keyword(self, by: Token) -> Token:
        at = self._line.rindex("by", 0, start(by))
        return Token("BY", "by", start_pos=at)

    def _people(self, number: Token | None) -> int:
        if number is None or number.type != "NUMBER":
            return 1
        digits = number.lstrip("0")
        if not digits or len(digits) > len(str(MAX_PEOPLE)) or int(digits) > MAX_PEOPLE:
            self._wrong.append(no_people(self._line, number))
            return 1
        return int(digits)


def time(word: Token, wrong: list[Fault]) -> float | None:
    """The seconds of a time. What is wrong with it is added to `wrong`."""
    if word.type != "DURATION":
        return None
    length = seconds(str(word))
    if length is None:
        wrong.append(no_time(word))
    return length
