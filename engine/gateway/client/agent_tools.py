"""Python functions as tools: their arguments as a call's input, a model's calls, results as text.

Used by both clients for agents, with and without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import orjson
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from ...gate.wrapping.failures import ResultClassifier, is_error_value
from ...sessions.call_answer import CallAnswer

R = TypeVar("R")


async def call_function(function: Callable[..., R | Awaitable[R]], arguments: Mapping[str, object]) -> R:
    """Call a function; one that is not async runs in a thread, so that it does not block the loop."""
    result: object
    if inspect.iscoroutinefunction(function):
        result = function(**arguments)
    else:
        result = await asyncio.to_thread(function, **arguments)
    if inspect.isawaitable(result):
        result = await result
    return cast("R", result)


@dataclass(frozen=True, slots=True)
class BoundCall:
    """Arguments of one call by name: the input as JSON, and `ignored` ones, which are not part of it."""

    tool: str
    input: dict[str, JsonValue]
    arguments: dict[str, object]
    ignored: dict[str, object]

    def approved(self, answer: CallAnswer) -> dict[str, object]:
        """Return the arguments to run with: the caller's own, or the input as edited by an operator.

        Raises `TypeError` for an edit that names an ignored argument, which belongs to the program.
        """
        if not answer.edited:
            return self.arguments
        if both := sorted(self.ignored.keys() & answer.input.keys()):
            raise TypeError(f"{self.tool}: an edited input cannot set '{both[0]}', which is ignored")
        return {**answer.input, **self.ignored}


class CallableArguments:
    """Reads the arguments of one gated function. `ignore` names those that are not part of the input.

    Raises `TypeError` for parameters that have no name in a call, and `ValueError` for an ignored name
    that is not a parameter of the function.
    """

    def __init__(self, tool: str, function: Callable[..., object], ignore: Collection[str]) -> None:
        if isinstance(ignore, str):
            raise TypeError(f"{tool}: ignore is a collection of names, such as ('{ignore}',)")
        self.tool = tool
        self._signature = inspect.signature(function)
        self._ignore = frozenset(ignore)
        parameters = self._signature.parameters
        for parameter in parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(
                    f"{tool}: '{parameter.name}' has no name in a call; only named ones are gated"
                )
        single = {n for n, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
        if unknown := sorted(self._ignore - single):
            raise ValueError(
                f"{tool} takes no argument '{unknown[0]}' to ignore; it takes: {', '.join(parameters)}"
            )

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> BoundCall:
        """Bind a call's arguments and defaults. Raises `TypeError` if they do not fit or are not JSON."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named_arguments: dict[str, object] = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named_arguments |= cast("Mapping[str, object]", value)
            else:
                named_arguments[name] = value
        ignored_arguments = {
            name: value for name, value in named_arguments.items() if name in self._ignore
        }
        judged_arguments = {
            name: value for name, value in named_arguments.items() if name not in self._ignore
        }
        return BoundCall(self.tool, _as_json(judged_arguments), named_arguments, ignored_arguments)


def _as_json(arguments: Mapping[str, object]) -> dict[str, JsonValue]:
    """Return the arguments as JSON. Raises `TypeError` for others, which operators could not see."""
    json_arguments: dict[str, JsonValue] = {}
    for name, value in arguments.items():
        try:
            json_arguments[name] = to_jsonable_python(value, inf_nan_mode="strings")
        except ValueError as error:
            raise TypeError(
                f"'{name}' cannot be shown as JSON to its approver: {error}; ignore=('{name}',) "
                f"leaves it out of the call's input"
            ) from error
    return json_arguments


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """One tool call of an OpenAI or litellm answer, and the messages that answer it.

    `problem` is the reason why the call cannot be made, or `None`.
    """

    call_id: str
    name: str
    input: dict[str, JsonValue]
    problem: str | None

    @classmethod
    def read(cls, call: object, tools: Collection[str]) -> ModelToolCall:
        """Parse an entry of `message.tool_calls`. Raises `TypeError` for anything else."""
        call_id, name, arguments = tool_call(call)
        if name not in tools:
            known_names = ", ".join(sorted(tools))
            return cls(call_id, name, {}, f"There is no tool '{name}'; there are: {known_names}")
        try:
            parsed_arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            return cls(call_id, name, {}, f"The arguments are not JSON: {error}")
        if not isinstance(parsed_arguments, dict):
            return cls(call_id, name, {}, "The arguments are not a JSON object")
        return cls(call_id, name, cast("dict[str, JsonValue]", parsed_arguments), None)

    def not_run(self, reason: str | None) -> dict[str, JsonValue]:
        """Answer to a call that did not run."""
        return self._reply(f"Error: {self._one_word_name} was not run: {reason or 'it is not allowed'}")

    def ran(self, outcome: FunctionOutcome, answer: CallAnswer) -> dict[str, JsonValue]:
        """Answer to a call that ran, with a note if an operator edited its input."""
        text = f"Error: {self._one_word_name} failed: {outcome.text}" if outcome.failed else outcome.text
        return self._reply(f"{text}\n\n{edit_note(answer.input)}" if answer.edited else text)

    @property
    def _one_word_name(self) -> str:
        """The tool's name as one word, in the form that replay reads (G-62)."""
        return "-".join(self.name.split()) or "call"

    def _reply(self, text: str) -> dict[str, JsonValue]:
        return {"role": "tool", "tool_call_id": self.call_id, "content": text}


@dataclass(frozen=True, slots=True)
class FunctionOutcome:
    """Text that a tool's run resulted in, and whether it failed."""

    text: str
    failed: bool

    @classmethod
    def raised(cls, error: BaseException) -> FunctionOutcome:
        """Outcome of a tool that raised."""
        return cls(f"{type(error).__name__}: {error}", failed=True)

    @classmethod
    def returned(cls, is_error: ResultClassifier, tool: str, value: object) -> FunctionOutcome:
        """Outcome of a tool that returned; its value may indicate a failure (G-71)."""
        return cls(text(value), is_error_value(is_error, tool, value))


def edit_note(approved: Mapping[str, JsonValue]) -> str:
    """Note to a model that its call ran with an input that an operator edited and approved."""
    return f"Interlock: a person changed this call's input. It ran with: {json.dumps(approved)}"


def tool_call(call: object) -> tuple[str, str, str]:
    """Return the id, name and arguments of a tool call, given as object or as dict."""

    def part(of: object, name: str) -> object:
        if isinstance(of, Mapping):
            return cast("Mapping[str, object]", of).get(name)
        return getattr(of, name, None)

    function = part(call, "function")
    parts = part(call, "id"), part(function, "name"), part(function, "arguments")
    if not isinstance(parts[0], str) or not isinstance(parts[1], str):
        raise TypeError("expected an entry of message.tool_calls, with `id` and `function`")
    return parts[0], parts[1], parts[2] if isinstance(parts[2], str) else ""


def text(result: object) -> str:
    """Return a tool's result as the model reads it."""
    if isinstance(result, str):
        return result
    return json.dumps(to_jsonable_python(result, fallback=str), ensure_ascii=False)


def shortened(text: str, most: int) -> str:
    """Return the longest prefix of a text that takes at most `most` bytes as JSON."""
    # Lone surrogates, which some tools print, cannot be sent as text.
    text = text.encode("utf-8", "replace").decode()
    size = len(orjson.dumps(text))
    if size <= most:
        return text
    prefix = text[: len(text) * most // size]
    while len(orjson.dumps(prefix)) > most:
        prefix = prefix[: len(prefix) * 3 // 4]
    return f"{prefix}\n… ({len(text) - len(prefix)} more characters were not sent)"
