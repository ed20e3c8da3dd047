"""Scenarios: expected decisions of rules, in a file next to them.

    use deploy.rules
    scenario "no deploy without tests"
      call deploy
      expect block "requires a successful call to test"

This module parses such files; running them needs a gate. Errors are `RuleError`s, as for rules.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from lark import Token, Tree

from ...engine.core.hints import Hint, Hints
from ...engine.core.labels import MOST_LABELS, checked_label, checked_labels
from ...engine.net.net import Input
from ..compiler import load_rules
from ..compiler import read_text as read_file
from ..errors.fault import Fault, start
from ..errors.option_errors import no_time
from ..errors.problems import Problem, RuleError
from ..errors.scenario_errors import scenario_faults
from ..parse.durations import seconds
from ..parse.grammar import LineReading, grammar
from ..ruleset import RuleSet
from .call_input import read_input, read_output, read_text

GRAMMAR = "scenario.lark"


@dataclass(frozen=True, slots=True)
class Spot:
    """Position of a statement: file, line and column from 1, its length, and the whole line."""

    file: str
    line: int
    column: int
    length: int
    text: str

    def problem(self, message: str, remedy: str = "") -> Problem:
        """A problem with the whole statement."""
        return Problem(self.file, self.line, self.column, self.length, self.text, message, remedy)


@dataclass(frozen=True, slots=True)
class Use:
    """`use FILE`: rules that the scenarios test, relative to the file with this line."""

    file: str
    spot: Spot

    @property
    def path(self) -> str:
        return os.path.join(os.path.dirname(self.spot.file), self.file)


@dataclass(frozen=True, slots=True)
class Call:
    """`call TOOL FIELD VALUE … [fails | returns VALUE]`: the agent's call; if it runs it succeeds.

    With `fails` it fails; `output` is the text that it returns. `options.tags ["a"]` is a field within an
    object, with a value as in JSON.
    """

    tool: str
    input: Input
    fails: bool
    spot: Spot
    output: str | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """`expect allow`, `expect ask` or `expect block "REASON"`: the current decision on the last call.

    `reason` is a part of the block's reason; `None` accepts any.
    """

    outcome: Literal["allow", "ask", "block"]
    reason: str | None
    spot: Spot


@dataclass(frozen=True, slots=True)
class Answer:
    """`approve [as NAME]` or `deny [as NAME] "REASON"`: an operator answers the open approval request.

    Without a name it is a different operator each time, one who counts for the rule.
    """

    approved: bool
    reason: str | None
    spot: Spot
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """`switch NET on|off`: the operator activates or deactivates a net."""

    net: str
    on: bool
    spot: Spot


@dataclass(frozen=True, slots=True)
class SetMode:
    """`mode shadow|enforce`, from the next call on."""

    mode: Literal["enforce", "shadow"]
    spot: Spot


@dataclass(frozen=True, slots=True)
class Wait:
    """`wait TIME`: this time passes, for sliding limits and requests that expire."""

    seconds: int
    spot: Spot


@dataclass(frozen=True, slots=True)
class Say:
    """`say "TEXT"`: a user says this in the session."""

    text: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class SessionField:
    """`session agent NAME`, `session started_by NAME` or `session labels NAME …`, from here on.

    The session then has exactly these labels.
    """

    name: str
    value: str | tuple[str, ...]
    spot: Spot


@dataclass(frozen=True, slots=True)
class NewSession:
    """`session new`: another session begins, whose calls also count for limits over sessions.

    It takes over the fields of the previous session until they are set, and nothing else.
    """

    spot: Spot


@dataclass(frozen=True, slots=True)
class Claim:
    """`hint TOOL NAME true|false …`: the tool's server claims exactly this from here on."""

    tool: str
    hints: Hints
    spot: Spot


@dataclass(frozen=True, slots=True)
class Group:
    """`group NAME MEMBER, …`: these people are in the group, from here on."""

    name: str
    members: tuple[str, ...]
    spot: Spot


Step: TypeAlias = (
    Group | Call | Expect | Answer | Switch | SetMode | Wait | Say | SessionField | NewSession | Claim
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario with a session of its own: it starts with fresh nets, all active, in enforce mode."""

    name: str
    steps: tuple[Step, ...]
    spot: Spot


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """Content of a scenario file: the rules it uses, and the scenarios in order."""

    file: str
    uses: tuple[Use, ...]
    scenarios: tuple[Scenario, ...]


def load_scenarios(path: str | os.PathLike[str]) -> ScenarioFile:
    """Read a scenario file. Raises `RuleError` as `load_rules` and `parse_scenarios` do."""
    name = os.fspath(path)
    text = read_file(name)
    if isinstance(text, Problem):
        raise RuleError([text])
    return parse_scenarios(text, file=name)


def load_used_rules(file: ScenarioFile) -> RuleSet:
    """Rules that scenarios use. Raises `RuleError`, at the `use` of a missing file."""
    missing = [use for use in file.uses if not os.path.isfile(use.path)]
    if missing:
        remedy = "the path counts from the folder of this file"
        raise RuleError(use.spot.problem(f"no such rules file: {use.path}", remedy) for use in missing)
    return load_rules(*(use.path for use in file.uses))


def parse_scenarios(text: str, *, file: str = "<scenarios>") -> ScenarioFile:
    """Scenarios of a text. Raises `RuleError` with every problem in it."""
    lines = grammar(GRAMMAR)
    reader = _ScenarioReader(file)
    for number, line in enumerate(text.split("\n"), 1):
        shown = line.rstrip("\r")
        reading = lines.read(shown)
        faults = scenario_faults(reading, lines)
        if reading.words:
            reader.take(number, shown, reading, faults)
    return reader.finish()


def parse_call(text: str, *, source: str = "<call>") -> Call:
    """One call as written in scenarios: `deploy`, `bash command "./deploy staging"`, `test fails`.

    Raises `RuleError`, which names `source` and shows the call as a scenario's line.
    """
    step = _parsed_line(f"call {text}", source)
    assert isinstance(step, Call)
    return step


def parse_setting(text: str, *, source: str = "<line>") -> Say | SessionField | NewSession | Claim:
    """One line `say "TEXT"`, `session FIELD VALUE`, `session new` or `hint TOOL …`.

    Raises `RuleError` as `parse_call`.
    """
    step = _parsed_line(text, source)
    assert isinstance(step, Say | SessionField | NewSession | Claim)
    return step


def _parsed_line(line: str, source: str) -> Step:
    lines = grammar(GRAMMAR)
    reading = lines.read(line)
    faults = scenario_faults(reading, lines)
    if not faults and reading.statement is not None:
        words = [child for child in reading.statement.children if isinstance(child, Token)]
        step = _step(str(reading.statement.data), words, Spot(source, 1, 1, len(line), line), faults)
        if not faults:
            return step
    raise RuleError(
        [Problem(source, 1, f.start + 1, f.length, line, f.message, f.remedy) for f in faults]
    )


@dataclass(slots=True)
class _OpenScenario:
    """A scenario whose end has not been read yet; a broken one has a line that could not be parsed."""

    name: str
    spot: Spot
    steps: list[Step] = field(default_factory=list[Step])
    broken: bool = False

    @property
    def called(self) -> bool:
        return any(isinstance(step, Call) for step in self.steps)


class _ScenarioReader:
    """Assembles scenarios from statements, line by line."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._uses: list[Use] = []
        self._scenarios: list[_OpenScenario] = []
        self._problems: list[Problem] = []
        self._broken_use = False

    def take(self, number: int, line: str, reading: LineReading, faults: list[Fault]) -> None:
        """Add the statement of a line, or its faults."""
        first, last = reading.words[0], reading.words[-1]
        length = start(last) + len(last) - start(first)
        spot = Spot(self._file, number, start(first) + 1, length, line)
        if reading.statement is not None and not faults:
            self._statement(reading.statement, spot, faults)
        elif reading.statement is not None and reading.statement.data == "scenario":
            self._scenarios.append(_OpenScenario("", spot, broken=True))
        elif self._scenarios:
            self._scenarios[-1].broken = True
        else:
            self._broken_use = True
        for fault in faults:
            place = (self._file, number, fault.start + 1, fault.length, line)
            self._problems.append(Problem(*place, fault.message, fault.remedy))

    def _statement(self, tree: Tree[Token], spot: Spot, faults: list[Fault]) -> None:
        words = [child for child in tree.children if isinstance(child, Token)]
        match tree.data:
            case "use":
                if self._scenarios:
                    message = "'use' must come before the first scenario"
                    self._complain(spot, message, "move the line there")
                self._uses += [Use(read_text(word, faults), spot) for word in words]
            case "scenario":
                name = read_text(words[0], faults)
                if faults:
                    self._scenarios.append(_OpenScenario("", spot, broken=True))
                else:
                    self._open(name, spot)
            case _:
                self._step(_step(tree.data, words, spot, faults), spot)

    def _open(self, name: str, spot: Spot) -> None:
        if not self._uses and not self._broken_use and not self._scenarios:
            self._complain(spot, "no rules to test", "write above the first scenario: use <file>")
        for earlier in self._scenarios:
            if not earlier.broken and earlier.name == name:
                message = f"a scenario with this name is already in line {earlier.spot.line}"
                self._complain(spot, message, "give it a name of its own")
                break
        self._scenarios.append(_OpenScenario(name, spot))

    def _step(self, step: Step, spot: Spot) -> None:
        if not self._scenarios:
            self._complain(spot, "this line belongs to no scenario", 'write above it: scenario "<name>"')
            return
        scenario = self._scenarios[-1]
        if isinstance(step, Expect | Answer) and not scenario.called and not scenario.broken:
            self._complain(spot, "nothing was called yet", "write above it: call <tool>")
            scenario.broken = True
        scenario.steps.append(step)

    def _complain(self, spot: Spot, message: str, remedy: str) -> None:
        self._problems.append(spot.problem(message, remedy))

    def finish(self) -> ScenarioFile:
        """Complete the file. Raises `RuleError` for all problems found."""
        for scenario in self._scenarios:
            if not scenario.called and not scenario.broken:
                self._complain(
                    scenario.spot, "a scenario without a call tests nothing", "add: call <tool>"
                )
        if not self._scenarios and not self._problems:
            message = "holds no scenario"
            remedy = 'begin one with: scenario "<name>"'
            self._problems.append(Problem(self._file, 0, 0, 0, "", message, remedy))
        if self._problems:
            raise RuleError(sorted(self._problems, key=lambda p: (p.line, p.column)))
        scenarios = tuple(Scenario(s.name, tuple(s.steps), s.spot) for s in self._scenarios)
        return ScenarioFile(self._file, tuple(self._uses), scenarios)


def _step(statement: str, words: Sequence[Token], spot: Spot, faults: list[Fault]) -> Step:
    """One step of a scenario. Faults that the grammar does not cover are added to `wrong`."""
    texts = [word for word in words if word.type == "STRING"]
    reason = read_text(texts[0], faults) if texts and statement in {"expect", "deny"} else None
    match statement, words:
        case "call", [tool, *rest]:
            fails = bool(rest) and rest[-1].type == "FAILS"
            returns = len(rest) > 1 and rest[-2].type == "RETURNS"
            fields = read_input(rest[:-1] if fails else rest[:-2] if returns else rest, faults)
            output = read_output(rest[-1], faults) if returns else None
            return Call(str(tool), fields, fails, spot, output)
        case "say", [text]:
            return Say(read_text(text, faults), spot)
        case "session", [Token(type="LABELS") as name, *labels]:
            return SessionField(str(name), _labels(labels, faults), spot)
        case "session", [name, value]:
            return SessionField(str(name), read_text(value, faults), spot)
        case "hint", [tool, *rest]:
            claims = zip(rest[::2], rest[1::2], strict=True)
            return Claim(
                str(tool), {cast("Hint", str(name)): v.type == "TRUE" for name, v in claims}, spot
            )
        case "another", _:
            return NewSession(spot)
        case "expect", [Token(type="ALLOW")]:
            return Expect("allow", None, spot)
        case "expect", [Token(type="ASK")]:
            return Expect("ask", None, spot)
        case "expect", [Token(type="BLOCK"), *_]:
            return Expect("block", reason, spot)
        case "approve", []:
            return Answer(True, None, spot)
        case "approve", [_, name]:
            return Answer(True, None, spot, read_text(name, faults))
        case "deny", [Token(type="AS"), name, *_]:
            why = words[2:]
            reason = read_text(why[0], faults) if why else None
            return Answer(False, reason, spot, read_text(name, faults))
        case "deny", _:
            return Answer(False, reason, spot)
        case "group", [name, *members]:
            people = (read_text(each, faults).removesuffix(",") for each in members)
            return Group(read_text(name, faults), tuple(filter(None, people)), spot)
        case "switch", [net, state]:
            return Switch(read_text(net, faults), state.type == "ON", spot)
        case "mode", [mode]:
            return SetMode("shadow" if mode.type == "SHADOW" else "enforce", spot)
        case "wait", [time]:
            length = seconds(time)
            if length is None:
                faults.append(no_time(time))
            return Wait(length or 0, spot)
        case other:
            raise AssertionError(f"{GRAMMAR} has a statement that nothing here makes: {other}")


def _labels(words: Sequence[Token], faults: list[Fault]) -> tuple[str, ...]:
    """Labels of a session as written; invalid ones are added to `wrong`."""
    found: list[str] = []
    for word in words:
        try:
            found.append(checked_label(read_text(word, faults)))
        except ValueError as error:
            faults.append(Fault.at(word, str(error), "write for example: session labels nightly ci"))
    try:
        return checked_labels(found)
    except ValueError as error:
        faults.append(Fault.at(words[MOST_LABELS], str(error), "leave some of them out"))
        return ()
