"""Recorded cases, and when a difference from them is one of Interlock's own decisions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent.parent / "data"
Json = dict[str, Any]

UNDEFINED = {"$undefined": True}

QUIRKS: dict[str, str] = {
    "undeclared_place_nan": "G-3",
    "js_key_order": "G-5",
    "unknown_active_ignored": "G-21",
    "parseint_lenient": "G-41",
    "limit_float_overflow": "G-41",
    "engine_message": "G-42",
    "duplicate_approval_prompts": "G-43",
    "map_first_wins": "G-50",
    "mapped_name_hides_base": "G-50",
    "shell_command_not_parsed": "G-51",
    "bareword_nonword_edge": "G-52",
    "regex_form_fallthrough": "G-52",
    "duplicate_tool_call_id": "G-53",
    "result_tool_name_unchecked": "G-53",
    "deferred_hook_sees_result_input": "G-53",
    "prereq_blocked_when_satisfied": "G-54",
    "refill_blocked_when_full": "G-55",
    "refill_one_at_a_time": "G-55",
    "refill_fires_on_call": "G-55",
    "refill_net_shape": "G-55",
    "limit_self_refill": "G-55",
    "limit_state_cap": "G-56",
    "shadow_still_asks_human": "G-57",
    "registry_toggle_during_confirm": "G-58",
    "deferred_not_rechecked": "G-58",
    "phase4_block_no_meta_rollback": "G-59",
    "validator_throw_no_meta_rollback": "G-59",
    "on_deferred_throw_aborts_fanout": "G-59",
    "hook_throw_turns_success_into_error": "G-59",
    "pairwise_conflict": "G-61",
    "unbounded_structural_loop": "G-61",
    "duplicate_result_counted_twice": "G-62",
    "result_without_call_trusted": "G-62",
    "duplicate_call_id_last_input_wins": "G-62",
    "name_folds_to_a_rules_name": "G-66",
}
"""Recorded behaviour that a statement overrides. What is not here, Interlock does as recorded."""


UNMARKED: dict[str, dict[str, int]] = {
    "rules-00025": {"name_folds_to_a_rules_name": 36},
    "rules-00073": {"name_folds_to_a_rules_name": 6},
    "rules-00077": {"name_folds_to_a_rules_name": 20},
    "rules-00144": {"name_folds_to_a_rules_name": 7},
    "rules-00231": {"name_folds_to_a_rules_name": 25},
    "rules-00400": {"name_folds_to_a_rules_name": 5},
    "rules-00586": {"name_folds_to_a_rules_name": 6},
    "rules-00601": {"name_folds_to_a_rules_name": 14},
    "rules-00725": {"name_folds_to_a_rules_name": 31},
    "rules-00796": {"name_folds_to_a_rules_name": 5},
    "rules-00798": {"name_folds_to_a_rules_name": 3},
    "rules-01318": {"name_folds_to_a_rules_name": 18},
    "rules-01470": {"shell_command_not_parsed": 2},
    "rules-01541": {"name_folds_to_a_rules_name": 0},
    "rules-01665": {"name_folds_to_a_rules_name": 5},
    "rules-01669": {"name_folds_to_a_rules_name": 9},
    "rules-01678": {"name_folds_to_a_rules_name": 16},
    "rules-01718": {"name_folds_to_a_rules_name": 6},
    "rules-01721": {"name_folds_to_a_rules_name": 2},
    "rules-02007": {"name_folds_to_a_rules_name": 0},
    "rules-02019": {"name_folds_to_a_rules_name": 0},
    "rules-01634": {"shell_command_not_parsed": 2},
    "single-0120": {"on_deferred_throw_aborts_fanout": 9},
    "single-0144": {"pairwise_conflict": -1},
}
"""Quirks, and the first event they affect, of cases that were not searched for them when recorded."""


def load(name: str) -> list[Json]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases: list[Json] = [json.loads(line) for line in lines]
    for case in cases:
        case.get("quirk_at", {}).update(UNMARKED.get(case["id"], {}))
    return cases


def excused(case: Json, at: int | None = None) -> bool:
    """Whether a statement overrides something that this case depends on, at event `at` or before."""
    if at is None:
        return any(quirk in QUIRKS for quirk in case["quirk"])
    return any(quirk in QUIRKS and since <= at for quirk, since in case["quirk_at"].items())


def difference(got: object, expected: object, where: str = "") -> str | None:
    """The first place where `got` is not as recorded; keys that were not recorded do not count."""
    match got, expected:
        case dict(), dict():
            missing = [key for key in expected if key not in got]
            if missing:
                return f"{where} lacks {missing}"
            pairs = ((got[key], value, f"{where}.{key}") for key, value in expected.items())
        case list() | tuple(), list():
            if len(got) != len(expected):
                return f"{where}: {got!r}, recorded {expected!r}"
            pairs = (
                (mine, theirs, f"{where}[{i}]")
                for i, (mine, theirs) in enumerate(zip(got, expected, strict=True))
            )
        case _:
            same = got == expected and isinstance(got, bool) == isinstance(expected, bool)
            return None if same else f"{where}: {got!r}, recorded {expected!r}"
    return next(filter(None, (difference(*pair) for pair in pairs)), None)


def compare(case: Json, steps: Iterator[tuple[int, object, object]]) -> int:
    """Hold a scenario's steps against the record, up to a difference that a statement explains.

    Steps are event number, what happened, what was recorded. Gives the number of steps that agreed;
    raises `AssertionError` for a difference that nothing explains.
    """
    agreed = 0
    at = -1
    while True:
        try:
            step = next(steps, None)
        except Exception:
            if excused(case, at):
                return agreed
            raise
        if step is None:
            return agreed
        at, got, expected = step
        found = difference(got, expected)
        if found is not None:
            assert excused(case, at), f"{case['id']}, event {at}: {found}"
            return agreed
        agreed += 1


Classifier = Callable[[str, Any], bool]


def classifier(spec: Json | None, seen: list[list[Any]]) -> Classifier | None:
    """The recordings' classifier of tool results; notes what it is asked in `seen`."""
    if spec is None:
        return None

    def is_error(tool: str, value: Any) -> bool:
        seen.append([tool, value])
        match spec["kind"]:
            case "never":
                return False
            case "always":
                return True
            case "tool_is":
                return tool == spec["tool"]
            case "contains":
                return isinstance(value, str) and spec["text"] in value
            case "field_eq":
                return isinstance(value, dict) and value.get(spec["field"], _ABSENT) is spec["value"]
            case "throw_unless_object" if isinstance(value, dict | list) and value != UNDEFINED:
                return isinstance(value, dict) and value.get("success") is False
        raise ValueError("classifier failed")

    return is_error


_ABSENT = object()
