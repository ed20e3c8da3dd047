"""Plans as agents write them."""

from __future__ import annotations

import json
import pickle

import pytest
from jsonschema import Draft202012Validator

from interlock.engine.core.condition import Compare, Condition
from interlock.engine.core.plan import (
    LONGEST_CONDITION,
    LONGEST_NAME,
    LONGEST_TITLE,
    MOST_CALLS,
    MOST_EFFECTS,
    MOST_STEPS,
    PLAN_SCHEMA,
    Plan,
    PlanError,
    PlanStep,
    plan_line,
    read_plan,
    written_plan,
)
from interlock.rules.compiler import condition_of

STAGING = Compare(("env",), "=", "staging")
STEP: dict[str, object] = {"tool": "deploy"}
SCHEMA = json.loads(json.dumps(PLAN_SCHEMA))


def plan_of(*steps: object, **others: object) -> dict[str, object]:
    return {"title": "Release 1.4", "steps": list(steps), **others}


class TestReadPlan:
    """The input of a call of `plan`."""

    def test_every_field_is_read(self) -> None:
        """Every field of a plan is read."""
        step = {"tool": "bash", "count": 2, "when": 'input.env = "staging"', "effects": ["deploy"]}
        plan = read_plan(plan_of(step, STEP), condition_of)
        assert plan == Plan(
            "Release 1.4", (PlanStep("bash", 2, STAGING, ("deploy",)), PlanStep("deploy"))
        )

    def test_repeated_effects(self) -> None:
        """A repeated effect counts once."""
        plan = read_plan(plan_of({**STEP, "effects": ["a", "b", "a"]}), None)
        assert plan.steps[0].effects == ("a", "b")
        assert plan.steps[0].names == {"deploy", "a", "b"}

    def test_plan_at_all_limits(self) -> None:
        """A plan at all limits is read."""
        step = {
            "tool": "t" * LONGEST_NAME,
            "count": MOST_CALLS,
            "effects": [f"e{n}" for n in range(MOST_EFFECTS)],
        }
        plan = read_plan({"title": "T" * LONGEST_TITLE, "steps": [step] * MOST_STEPS}, None)
        assert len(plan.steps) == MOST_STEPS

    @pytest.mark.parametrize(
        ("value", "place", "problem"),
        [
            ({}, "title", "found nothing"),
            ({"title": " ", "steps": [STEP]}, "title", "found an empty text"),
            ({"title": "T" * (LONGEST_TITLE + 1), "steps": [STEP]}, "title", "201 characters"),
            ({"title": 4, "steps": [STEP]}, "title", "found a whole number"),
            ({"title": "T"}, "steps", "found nothing"),
            (plan_of(), "steps", "found an empty list"),
            ({"title": "T", "steps": {}}, "steps", "found an object"),
            (plan_of(*[STEP] * (MOST_STEPS + 1)), "steps", "found 51 steps"),
            (plan_of(STEP, limit=3), "the plan", "unknown field 'limit'"),
            (plan_of(STEP, "deploy"), "steps[1]", "found a text"),
            (plan_of({**STEP, "max\u200b": 1}), "steps[0]", r"unknown field 'max\u200b'"),
            (plan_of({}), "steps[0].tool", "found nothing"),
            (plan_of({"tool": ""}), "steps[0].tool", "found an empty text"),
            (plan_of({"tool": "t" * 201}), "steps[0].tool", "201 characters"),
            (plan_of({"tool": "unclear"}), "steps[0].tool", "reserved name 'unclear'"),
            (plan_of({"tool": "Plan"}), "steps[0].tool", "reserved name 'Plan'"),
            (plan_of({**STEP, "count": 0}), "steps[0].count", "found 0"),
            (plan_of({**STEP, "count": MOST_CALLS + 1}), "steps[0].count", "found 101"),
            (plan_of({**STEP, "count": True}), "steps[0].count", "found true"),
            (plan_of({**STEP, "count": 2.0}), "steps[0].count", "found a number with a fraction"),
            (plan_of({**STEP, "count": None}), "steps[0].count", "found nothing"),
            (plan_of({**STEP, "count": 10**400}), "steps[0].count", "found a whole number"),
            (plan_of({**STEP, "when": ["x"]}), "steps[0].when", "found a list"),
            (plan_of({**STEP, "when": ""}), "steps[0].when", "found an empty text"),
            (plan_of({**STEP, "when": "input.env staging"}), "steps[0].when", "not a condition"),
            (plan_of({**STEP, "when": "x" * (LONGEST_CONDITION + 1)}), "steps[0].when", "2,001"),
            (plan_of({**STEP, "when": "input.a = 1 # and input.b = 2"}), "steps[0].when", "a comment"),
            (plan_of({**STEP, "when": "input.a = 1\nor input.b = 2"}), "steps[0].when", r"found '\n'"),
            (plan_of({**STEP, "when": "input.a\u200b = 1"}), "steps[0].when", r"found '\u200b'"),
            (plan_of({**STEP, "effects": "push"}), "steps[0].effects", "found a text"),
            (plan_of({**STEP, "effects": [1]}), "steps[0].effects[0]", "found a whole number"),
            (plan_of({**STEP, "effects": ["anything-else"]}), "steps[0].effects[0]", "reserved"),
            (plan_of({**STEP, "effects": ["e"] * 21}), "steps[0].effects", "found 21 names"),
        ],
    )
    def test_refused(self, value: dict[str, object], place: str, problem: str) -> None:
        """An invalid plan is refused with the place and the value found there."""
        with pytest.raises(PlanError) as refused:
            read_plan(value, condition_of)
        assert refused.value.place == place
        assert problem in refused.value.problem
        assert str(refused.value) == f"{place}: {refused.value.problem}; {refused.value.remedy}"

    def test_condition_without_reader_is_refused(self) -> None:
        """Without a condition reader, a step with a condition is refused."""
        with pytest.raises(PlanError, match="conditions are not supported here"):
            read_plan(plan_of({**STEP, "when": 'input.env = "x"'}), None)

    @pytest.mark.parametrize("when", ['input.a = "x # y"', "(input.a = 1)"])
    def test_hash_in_a_condition_is_no_comment(self, when: str) -> None:
        """A `#` or parenthesis within a condition is part of it."""
        assert read_plan(plan_of({**STEP, "when": when}), condition_of).steps[0].when is not None

    def test_readers_error_becomes_the_problem(self) -> None:
        """The message of a reader's error becomes the problem."""

        def read(text: str) -> Condition:
            raise ValueError(f"cannot read {text}")

        with pytest.raises(PlanError, match=r"steps\[0\].when: cannot read x; write it as"):
            read_plan(plan_of({**STEP, "when": "x"}), read)

    def test_error_is_pickled(self) -> None:
        """The error keeps its parts when it is pickled."""
        error = pickle.loads(pickle.dumps(PlanError("steps", "found nothing", "give one")))
        assert (error.place, error.problem, error.remedy) == ("steps", "found nothing", "give one")


class TestPlanText:
    """A plan as shown to operators."""

    def test_calls_of_a_tool_are_summed_up(self) -> None:
        """Calls of the same tool are summed up."""
        plan = Plan("Release 1.4", (PlanStep("deploy"), PlanStep("push"), PlanStep("deploy")))
        assert plan.calls == {"deploy": 2, "push": 1}
        assert plan_line(plan) == "Release 1.4 · 3 steps: 2 deploy, 1 push"

    def test_hidden_characters_are_escaped(self) -> None:
        """Hidden and confusable characters in title and names are escaped."""
        line = plan_line(Plan("R\u202e\n\x1b[2J", (PlanStep("сору"),)))
        assert line == r"R\u202e\n\x1b[2J · 1 step: 1 \u0441\u043e\u0440\u0443"

    def test_title_cannot_pass_for_the_calls(self) -> None:
        """A title can neither pass for the calls nor push them out of a short line."""
        steps = (PlanStep("drop", 100),)
        assert plan_line(Plan("A · 1 step: 1 read", steps)) == '"A · 1 step: 1 read" · 1 step: 100 drop'
        line = plan_line(Plan(f"A{' ' * 180}B", steps))
        assert line == f'"A{" " * 46}…" · 1 step: 100 drop'
        assert plan_line(Plan("T" * 48, steps)).startswith("T" * 48 + " · ")

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("deploy", "deploy"),
            ("read, 1 push", '"read, 1 push"'),
            ('a"b', r'"a\"b"'),
            ("a\u2003b", '"a\u2003b"'),
        ],
    )
    def test_ambiguous_name_is_quoted(self, name: str, shown: str) -> None:
        """An ambiguous name is shown in quotes."""
        plan = Plan("R", (PlanStep(name, effects=(name,)),))
        assert plan_line(plan) == f"R · 1 step: 1 {shown}"


class TestWrittenPlan:
    """The input of a `plan` call, made from a plan."""

    def test_written_plan_is_read_back(self) -> None:
        """A written plan is read back as the same plan."""
        plan = Plan("Release", (PlanStep("bash", 2, STAGING, ("deploy",)), PlanStep("push")))
        assert read_plan(written_plan(plan.title, plan.steps), condition_of) == plan

    def test_step_as_json_object(self) -> None:
        """A step can be given as its JSON object."""
        assert written_plan("Release", [STEP]) == {"title": "Release", "steps": [STEP]}


class TestSchema:
    """The schema given to models."""

    def test_schema_accepts_a_plan(self) -> None:
        """The schema is valid and accepts a plan."""
        Draft202012Validator.check_schema(SCHEMA)
        schema = Draft202012Validator(SCHEMA)
        full = {"tool": "bash", "count": 2, "when": "input.a = 1", "effects": ["deploy"]}
        assert schema.is_valid(plan_of(full, STEP))

    @pytest.mark.parametrize(
        "value",
        [{}, plan_of(), plan_of({}), plan_of({**STEP, "count": 0}), plan_of({**STEP, "max": 1})],
    )
    def test_schema_refuses_what_the_reader_refuses(self, value: dict[str, object]) -> None:
        """A plan that the reader refuses is invalid by the schema as well."""
        assert not Draft202012Validator(SCHEMA).is_valid(value)
        with pytest.raises(PlanError):
            read_plan(value, condition_of)
