"""Conversion of lines to statements: the tree of each line becomes a rule or a map.

Every line is parsed to its end, so that all errors of a file are reported together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from lark import Token, Tree

from ...engine.core.amounts import SumField, amount_units
from ...engine.core.approvers import Approvers, Escalation
from ...engine.core.condition import Condition
from ...engine.core.rule import (
    ANYTHING_ELSE,
    RESERVED,
    UNCLEAR,
    ApprovalRule,
    BlockRule,
    LimitRule,
    Risk,
    RuleSource,
    SequenceRule,
)
from ...engine.core.shared_limit import REACHES, Reach
from ...engine.core.value_key import ValueKey
from ..errors.across_errors import across_without_time
from ..errors.after_errors import after_faults, raised_by_itself, until_several
from ..errors.approver_errors import escalated_late, escalated_to_itself
from ..errors.condition_errors import bad_escape
from ..errors.fault import Fault, start
from ..errors.option_errors import no_people, no_reason, no_time, twice
from ..errors.problems import Problem, quote
from ..errors.sequence_errors import expiring_itself, unlocking_itself
from ..errors.since_errors import since_faults
from ..errors.statement_errors import WHOLE_NUMBER, faults
from ..errors.sum_errors import no_amount, sum_in_time
from ..errors.value_key_errors import EACH, SAME, no_input_field, other_quantity
from .conditions import input_path, read_clauses
from .durations import seconds
from .grammar import grammar
from .patterns import Pattern, PatternError, compile_regex, compile_word
from .statements import MAX_LIMIT, MAX_PEOPLE, MOST_REASON, SESSION, Allowance, Let, Map, Statement
from .values import Names, has_names, read_names

# Clauses that may follow a rule: options in any order, and its condition.


class Clauses:
    """Options of one rule and its condition. Faults in them are added to `wrong`.

    A word that the grammar did not expect has been reported, and is ignored.
    """

    def __init__(
        self, line: str, trees: Sequence[Tree[Token]], line_faults: list[Fault], names: Mapping[str, Let]
    ) -> None:
        self._line = line
        self._names = names
        self._faults = line_faults
        self._options: dict[str, Sequence[Token]] = {}
        self._values: Sequence[Token] = ()
        self._across: Token | None = None
        self.when: Condition | None = None
        self.because: str | None = None
        for tree in trees:
            words = [child for child in tree.children if isinstance(child, Token)]
            if str(tree.data) == "when":
                self.when = self._condition(words[0])
            elif str(tree.data) == "because":
                self.because = self._reason(words[0])
            elif str(tree.data) == "values":
                self._values = words
            elif str(tree.data) == "across":
                self._across = words[-1]
            else:
                self._take(str(tree.data), words)

    def _condition(self, word: Token) -> Condition | None:
        if word.type != "CONDITION":
            return None
        condition, reason, line_faults = read_clauses(self._line, start(word), self._names)
        self._faults += line_faults
        if reason is not None:
            self.because = self._reason(reason)
        return condition

    def _reason(self, word: Token) -> str | None:
        """Text of a `because`, on one line."""
        if word.type not in {"REASON", "TEXT"}:
            return None
        try:
            text = " ".join(cast("str", json.loads(word, strict=False)).split())
        except json.JSONDecodeError as error:
            self._faults.append(bad_escape(word, error))
            return None
        if not 0 < len(text) <= MOST_REASON:
            self._faults.append(no_reason(word, len(text), MOST_REASON))
        return text

    def _take(self, option: str, words: Sequence[Token]) -> None:
        if option in self._options:
            self._faults.append(twice(self._line, words[0], words[-1]))
        self._options.setdefault(option, words)

    def _value(self, option: str) -> Token | None:
        """Last word of an option, which is its value."""
        words = self._options.get(option)
        return None if words is None else words[-1]

    def approval(
        self,
        tool: str,
        source: RuleSource,
        number: Token | None = None,
        causes: Sequence[Token] = (),
        *,
        until: bool = False,
    ) -> ApprovalRule:
        """Rule that requires approval; `number` is how many people, if the line gives it."""
        after, *others = map(str, causes) if causes else (None,)
        by = self._value("by")
        if until and by is not None:
            self._faults.append(until_several(by, tool, after or "<tool>"))
        if by is not None and number is not None:
            self._faults.append(twice(self._line, self._keyword(by), by))
        window, risk = self._value("within"), self._value("risk")
        within = None if window is None else time(window, self._faults)
        return ApprovalRule(
            tool,
            source,
            self.when,
            people=self._people(number or by),
            within=within,
            risk=cast("Risk", str(risk)) if risk is not None else None,
            grants="no_grants" not in self._options,
            because=self.because,
            after=after,
            until=until,
            approvers=self._approvers(within),
            others=tuple(str(each) for each in others),
            same=self.value_key(SAME, folded=True),
        )

    def _approvers(self, within: float | None) -> Approvers | None:
        """Conditions on who approves; escalation must come before the request expires `within` a time."""
        of = self._value("of_group")
        group = str(of) if of is not None and of.type == "GROUP" else None
        found = Approvers(
            group,
            "not_author" not in self._options,
            self._escalation(group, within),
            "with_passkey" in self._options,
        )
        return None if found == Approvers() else found

    def _escalation(self, group: str | None, within: float | None) -> Escalation | None:
        words = self._options.get("escalate")
        if words is None:
            return None
        _, _, to, _, wait = words
        after = time(wait, self._faults)
        if to.type != "GROUP" or after is None:
            return None
        if str(to) == group:
            self._faults.append(escalated_to_itself(to))
        if within is not None and after >= within:
            self._faults.append(escalated_late(self._line, wait, within))
        return Escalation(str(to), after)

    def sequence(
        self, needed: Sequence[Token], then: Token, source: RuleSource, *, every: bool
    ) -> SequenceRule:
        """Rule that requires calls of other tools before those of a tool."""
        since, within, once = (self._value(name) for name in ("since", "within", "once"))
        first, *others = map(str, needed)
        if since is not None:
            self._faults += [fault for fault in since_faults(since, needed, then) if fault is not None]
        elif within is not None and first == str(then):
            self._faults.append(expiring_itself(within, then))
        elif once is not None and first == str(then):
            self._faults.append(unlocking_itself(once, then))
        return SequenceRule(
            first,
            str(then),
            source,
            self.when,
            self.because,
            others=tuple(others),
            every=every,
            since=None if since is None else str(since),
            within=None if within is None else time(within, self._faults),
            same=self.value_key(SAME),
            once=once is not None,
        )

    def value_key(self, word: str, *, folded: bool = False) -> ValueKey | None:
        """Field for each value of which the rule applies; `word` is the keyword of this kind of rule.

        Values are `folded` if another spelling must not evade the rule; in an order another spelling
        unlocks nothing (G-89).
        """
        if not self._values:
            return None
        _, quantity, field = self._values
        if field.type != "FIELD":
            return None
        path = input_path(field)
        if str(quantity) != word and str(quantity) in {SAME, EACH}:
            self._faults.append(other_quantity(quantity, word))
        elif path is None:
            self._faults.append(no_input_field(field))
        return None if path is None else ValueKey(path, folded=folded)

    def across(self, scope: Token) -> Reach | None:
        """Sessions whose calls count together; over sessions a limit needs a time."""
        if self._across is None or str(self._across) not in REACHES:
            return None
        if scope.type != "DURATION":
            self._faults.append(across_without_time(scope, self._across))
        return cast("Reach", str(self._across))

    def _keyword(self, by: Token) -> Token:
        at = self._line.rindex("by", 0, start(by))
        return Token("BY", "by", start_pos=at)

    def _people(self, number: Token | None) -> int:
        if number is None or number.type != "NUMBER":
            return 1
        digits = number.lstrip("0")
        if not digits or len(digits) > len(str(MAX_PEOPLE)) or int(digits) > MAX_PEOPLE:
            self._faults.append(no_people(self._line, number))
            return 1
        return int(digits)


def time(word: Token, line_faults: list[Fault]) -> float | None:
    """Seconds of a time. Faults in it are added to `wrong`."""
    if word.type != "DURATION":
        return None
    length = seconds(str(word))
    if length is None:
        line_faults.append(no_time(word))
    return length


GRAMMAR = "grammar.lark"


def parse(
    text: str, file: str, texts: Mapping[str, str | Problem] | None = None
) -> tuple[list[Statement], list[Problem]]:
    """Statements of a file, and the faults of its other lines.

    `texts` are the texts of the rule set, by key: `let` may name one of them.
    """
    rules = grammar(GRAMMAR)
    names = read_names(text, file, texts or {}, GRAMMAR) if has_names(text) else Names()
    statements: list[Statement] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        rule_line = line.rstrip("\r")
        reading = rules.read(rule_line)
        line_faults = [] if reading.clean else faults(rule_line, reading, rules)
        if number in names.lines:
            let, line_faults = names.lines[number]
            statements += [let] if let is not None else []
        elif reading.statement is not None and reading.fits:
            source = RuleSource(file, number, start(reading.words[0]) + 1, rule_line)
            statement = _statement(reading.statement, rule_line, source, line_faults, names.values)
            if statement is not None and not line_faults:
                statements.append(statement)
        for fault in sorted(line_faults, key=lambda fault: fault.start):
            place = (file, number, fault.start + 1, fault.length, rule_line)
            problems.append(Problem(*place, fault.message, fault.remedy))
    return statements, problems


def _statement(
    tree: Tree[Token], line: str, source: RuleSource, line_faults: list[Fault], names: Mapping[str, Let]
) -> Statement | None:
    """The statement in a line. Faults that the grammar does not cover are added to `wrong`.

    A word that the grammar did not expect has been reported, and is not checked again.
    """
    words = [child for child in tree.children if isinstance(child, Token)]
    line_faults += [fault for fault in _misnamed(str(tree.data), words) if fault is not None]
    clauses = Clauses(
        line, [child for child in tree.children if isinstance(child, Tree)], line_faults, names
    )
    # A plain `str` compares fast; lark's tokens compare in Python.
    match str(tree.data), words:
        case "map" | "shell_map", [field, word, name]:
            pattern = _pattern(word, line_faults)
            tool, _, key = field.partition(".")
            return pattern and Map(tool, key, pattern, str(name), source, str(tree.data) == "shell_map")
        case "sequence" | "one_before" | "each_before", [*needed, then]:
            return clauses.sequence(needed, then, source, every=str(tree.data) == "each_before")
        case "approval", [tool]:
            return clauses.approval(str(tool), source)
        case "people", [number, tool]:
            return clauses.approval(str(tool), source, number)
        case "after", [*causes, tool]:
            line_faults += after_faults(causes, tool, clauses.when)
            return clauses.approval(str(tool), source, causes=causes)
        case "after_people", [*causes, number, tool]:
            line_faults += after_faults(causes, tool, clauses.when)
            return clauses.approval(str(tool), source, number, causes)
        case "block_until", [tool, *causes]:
            line_faults += after_faults(causes, tool, clauses.when) or raised_by_itself(causes[0], tool)
            return clauses.approval(str(tool), source, causes=causes, until=True)
        case "block", [tool]:
            return BlockRule(str(tool), source, clauses.when, clauses.because)
        case "block", [tool, cause, *others]:
            line_faults += after_faults((cause, *others), tool, clauses.when)
            value_key = clauses.value_key(SAME, folded=True)
            others_named = tuple(map(str, others))
            return BlockRule(
                str(tool),
                source,
                clauses.when,
                clauses.because,
                str(cause),
                value_key,
                others=others_named,
            )
        case "limit", [tool, count, scope]:
            return _limit(tool, count, scope, source, clauses, line_faults)
        case "limit_sum", [tool, amount, field, scope]:
            return _sum_limit(tool, amount, field, scope, source, clauses, line_faults)
        case "allow", [tool]:
            return Allowance(str(tool), source)
        case "let", _:
            # Complete `let` lines were read before; this one is incomplete, which has been reported.
            return None
        case other:
            raise AssertionError(f"{GRAMMAR} has a statement that nothing here makes: {other}")


def _misnamed(statement: str, words: Sequence[Token]) -> Iterable[Fault | None]:
    """Faults of the names in a statement (G-66); `None` for each name that is allowed."""
    match statement, words:
        case "map" | "shell_map", [field, _, name]:
            tool = Token.new_borrow_pos("WORD", field.partition(".")[0], field)
            return _pattern_name(tool), _no_tool(tool), _pattern_name(name), _reserved_fault(name)
        case "sequence", [first, then]:
            return _pattern_name(first), _unlocking(first, "require"), _pattern_name(then)
        case "one_before" | "each_before", [*needed, then]:
            unlocking = [_unlocking(name, "require") for name in needed]
            return (*map(_pattern_name, words), *unlocking, *_repeated_names(needed, then))
        case "limit" | "limit_sum", [tool, *_, scope]:
            return _pattern_name(tool), _pattern_name(scope), _unlocking(scope, "restore")
        case "allow", [tool]:
            return _pattern_name(tool), _no_tool(tool)
        case "let", _:
            return ()
        case "after_people", [*causes, _, tool]:
            return map(_pattern_name, (*causes, tool))
        case "after" | "block" | "block_until", _:
            return map(_pattern_name, words)
        case _:
            return map(_pattern_name, words[-1:])


def _repeated_names(needed: Sequence[Token], then: Token) -> Iterable[Fault | None]:
    """Faults of a list of prerequisites with duplicate names, or with the name that it unlocks."""
    for at, name in enumerate(needed):
        if str(name) in map(str, needed[:at]):
            yield Fault.at(name, f"{quote(name)} is named twice", "name each tool once")
        elif str(name) == str(then):
            message = f"{quote(name)} is required before itself"
            yield Fault.at(name, message, "leave it out of what comes before")


def _pattern_name(name: Token) -> Fault | None:
    if "*" not in name:
        return None
    remedy = f"write '{ANYTHING_ELSE}' for every call that no rule names, or name each tool"
    return Fault.at(name, f"'*' has no meaning in a name, got {quote(name)}", remedy)


def _no_tool(tool: Token) -> Fault | None:
    if str(tool) not in RESERVED:
        return None
    return Fault.at(tool, f"{quote(tool)} is a reserved name, and no tool's", "name a tool")


def _reserved_fault(name: Token) -> Fault | None:
    """Fault of a map to a reserved name, because only the gate gives these names."""
    if str(name) not in RESERVED:
        return None
    return Fault.at(name, f"{quote(name)} is a reserved name: no map gives it", "choose another name")


def _unlocking(name: Token, event: str) -> Fault | None:
    """Fault of a name whose success proves nothing, because it is unknown what ran."""
    if str(name) not in RESERVED:
        return None
    reason = "could not be read" if str(name) == UNCLEAR else "no rule knows"
    message = f"{quote(name)} unlocks nothing: what was called {reason}"
    remedy = "name the tool whose success restores it" if event == "restore" else "name a tool"
    return Fault.at(name, message, remedy)


def _limit(
    tool: Token,
    count: Token,
    scope: Token,
    source: RuleSource,
    clauses: Clauses,
    line_faults: list[Fault],
) -> LimitRule:
    limit = _count(count, line_faults)
    window = None
    if scope.type == "DURATION":
        window = time(scope, line_faults)
    else:
        _check_scope(tool, scope, line_faults)
    each = clauses.value_key(EACH, folded=True)
    return LimitRule(
        str(tool),
        limit,
        str(scope),
        source,
        clauses.when,
        window,
        clauses.because,
        each,
        across=clauses.across(scope),
    )


def _sum_limit(
    tool: Token,
    amount: Token,
    field: Token,
    scope: Token,
    source: RuleSource,
    clauses: Clauses,
    line_faults: list[Fault],
) -> LimitRule:
    path = input_path(field) if field.type == "FIELD" else ()
    if path is None:
        line_faults.append(no_input_field(field))
    if scope.type == "DURATION":
        line_faults.append(sum_in_time(scope))
    else:
        _check_scope(tool, scope, line_faults)
    found = amount_units(amount) if amount.type in {"COUNT", "AMOUNT"} else (1, 2)
    if found is None:
        line_faults.append(no_amount(amount))
    limit, decimals = found or (1, 2)
    each = clauses.value_key(EACH, folded=True)
    total = SumField(path or (), decimals)
    return LimitRule(
        str(tool), limit, str(scope), source, clauses.when, None, clauses.because, each, total
    )


def _check_scope(tool: Token, scope: Token, line_faults: list[Fault]) -> None:
    if scope.type != "SESSION" and scope == tool:
        message = f"{quote(tool)} cannot restore its own budget: it would never be limited"
        remedy = f"name another tool after 'per', or write 'per {SESSION}'"
        line_faults.append(Fault.at(scope, message, remedy))


def _pattern(word: Token, line_faults: list[Fault]) -> Pattern | None:
    try:
        if word.type == "REGEX":
            return compile_regex(str(word))
        if word.type == "LITERAL":
            return compile_word(str(word))
    except PatternError as error:
        line_faults.append(Fault.at_part(word, error))
    return None


def _count(count: Token, line_faults: list[Fault]) -> int:
    digits = count.lstrip("0")
    if count.type != "COUNT":
        return 0
    if len(digits) <= len(str(MAX_LIMIT)) and int(digits) <= MAX_LIMIT:
        return int(digits)
    message = f"limit count must be at most {MAX_LIMIT}, got {quote(count)}"
    line_faults.append(Fault.at(count, message, WHOLE_NUMBER))
    return 0
