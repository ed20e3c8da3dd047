"""Operators' texts for a flow: its input, and answers for waiting steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from pydantic import BaseModel, JsonValue, ValidationError

from ...engine.flows import Graph
from ...engine.flows.build.nodes import AgentWork, Human, Suspend
from .spec import FlowSpecError

INPUT, FILE, FILL = "--input", "--input-file", "--fill"


def input_text(text: str | None, file: Path | None) -> tuple[str, str]:
    """Return the input as JSON text, and its origin. Raises `FlowSpecError`.

    The default is `{}`: a flow may need no input. The file `-` is standard input.
    """
    if text is not None and file is not None:
        raise FlowSpecError([f"{INPUT} and {FILE} both say what the flow begins with; leave one out"])
    if file is None:
        return text or "{}", INPUT
    try:
        content = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FlowSpecError([f"{FILE}: cannot read '{file}': {reason}"]) from error
    return content, f"{FILE} {file}"


def as_input(text: str, model: type[BaseModel], where: str) -> BaseModel:
    """Parse `text` as a value of `model`. Raises `FlowSpecError` with a problem for each field."""
    try:
        return model.model_validate_json(text, by_name=True, by_alias=False)
    except ValidationError as error:
        raise FlowSpecError([*_faults(error, where), f"{where}: {_expected(model)}"]) from error


def fills(pairs: Sequence[str] | None, graph: Graph) -> Mapping[str, dict[str, JsonValue]]:
    """Parse answers of the form `KEY={…}`, and return them by key.

    Raises `FlowSpecError` with every problem. A key is that of a step that waits for an operator, or
    `Agent::tool` for such a tool.
    """
    found: dict[str, dict[str, JsonValue]] = {}
    problems: list[str] = []
    for each in pairs or ():
        key, equals, text = each.partition("=")
        try:
            value = cast("object", json.loads(text)) if equals else None
        except ValueError as error:
            problems.append(f"{FILL} {key}: not JSON: {error}")
            continue
        if not isinstance(value, dict):
            problems.append(f"{FILL}: expected KEY='{{…}}', found {each!r:.80}")
            continue
        answer = cast("dict[str, JsonValue]", value)
        problems.extend(_unfit(key, answer, graph))
        found[key] = answer
    if problems:
        raise FlowSpecError(problems)
    return found


def waiting(graph: Graph) -> list[str]:
    """Return the keys of the steps that wait for an operator."""
    return [node.takes.key for node in graph.distinct if isinstance(node, Suspend | Human)]


def _unfit(key: str, answer: dict[str, JsonValue], graph: Graph) -> Iterable[str]:
    node = graph.nodes.get(key)
    place = f"{FILL} {key}"
    if isinstance(node, Suspend):
        try:
            node.gives.type.model_validate(answer)
        except ValidationError as error:
            return [*_faults(error, place), f"{place}: {_expected(node.gives.type)}"]
        return ()
    if isinstance(node, Human):
        return () if "answer" in answer else [f'{place}: expected {{"answer": …}}']
    agent, _, tool = key.rpartition("::")
    if tool and isinstance(graph.nodes.get(agent), AgentWork):
        return ()
    keys = waiting(graph)
    close = get_close_matches(key, keys, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there wait: {', '.join(keys) or 'none'}"
    return [f"{place}: no step waits for a person under this name; {hint}"]


def _faults(error: ValidationError, place: str) -> Iterator[str]:
    for each in error.errors(include_url=False):
        field = ".".join(map(str, each["loc"]))
        yield f"{place}: {field}: {each['msg']}" if field else f"{place}: {each['msg']}"


def _expected(model: type[BaseModel]) -> str:
    """Describe the expected fields: `Commit is {sha, branch (optional)}`."""
    fields = (
        name if field.is_required() else f"{name} (optional)"
        for name, field in model.model_fields.items()
    )
    return f"{model.__name__} is {{{', '.join(fields)}}}"
