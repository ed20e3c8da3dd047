"""Tools that a model may call, made from a function or written by hand."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import typing
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, overload

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError, create_model
from pydantic_core import to_json

from ..core.rule import check_tool_name
from ..gate.wrapping.failures import ResultClassifier, is_error_value, returned_failure
from .errors import DuplicateToolError, ToolInputError, describe
from .messages import Message
from .runtime.base import Runtime
from .turn.abort import AbortSignal

if TYPE_CHECKING:
    from .session.subagents import SubagentSessions


class ToolInput(BaseModel):
    """Base of tools' inputs; unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid")


# Tools that are async generators: each yielded value is reported at once, the last one is the result.


Progress: TypeAlias = Callable[[str], None]


async def outcome(running: object, progress: Progress, final: type | tuple[type, ...] = ()) -> object:
    """Return the result of a running tool: an awaitable's value, or the last value of an async generator.

    Each yielded text goes to `progress` at once. A value of a `final` type is the result even if text
    follows it. The generator is always closed at the end, so that nothing of it keeps running after a
    cancellation.
    """
    if not inspect.isasyncgen(running):
        return await cast("Awaitable[object]", running)
    result: object = None
    async with aclosing(cast("AsyncGenerator[object, None]", running)) as values:
        async for value in values:
            if isinstance(value, str):
                progress(value)
            if isinstance(value, final) or not isinstance(result, final):
                result = value
    return result


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's text for the model, and `metadata` for listeners.

    `is_error` marks a failure that the tool reports instead of raising; `is_json` marks text that was
    converted from another value.
    """

    text: str
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    is_error: bool = False
    is_json: bool = field(default=False, compare=False)

    @property
    def failed(self) -> bool:
        """True if the nets count the call as failed: an error, or a command's non-zero exit code.

        The model reads a non-zero exit code as a plain result (A-122), but a failed test must not unlock
        a deploy.
        """
        return self.is_error or bool(self.metadata.get("exit_code"))


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Runtime, signals and conversation for a running tool.

    Files and commands go through `runtime`. `progress` shows text while the tool runs. `abort` is the
    run's signal; it also cancels the tool's task, so most tools need not check it. `conversation` returns
    the messages so far, `subagents` creates the sessions of subagents.
    """

    runtime: Runtime
    abort: AbortSignal
    session_id: str = ""
    call_id: str = ""
    progress: Callable[[str], None] = lambda text: None
    conversation: Callable[[], Sequence[Message]] = tuple
    subagents: SubagentSessions | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Conversation so far, ending with the calls of this step; copied at each access."""
        return tuple(message.model_copy(deep=True) for message in self.conversation())


class Tool(Protocol):
    """A tool; any object with these attributes is one (A-129).

    Further attributes are used if they exist: `validate(args)`, which raises `ToolInputError`;
    `needs_approval`, a bool or a function of the arguments, which listeners get as a hint;
    `preview_of(args, runtime)`, which shows operators the change that the call would make; and `label`, a
    display name. `execute` may be an async generator: see `tool`.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> dict[str, JsonValue]: ...

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> str | ToolOutput: ...


_metadata: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])

NeedsApproval = bool | Callable[[Mapping[str, JsonValue]], bool]
Execute = Callable[[BaseModel, ToolContext], Awaitable[object] | AsyncGenerator[object, None]]
Preview = Callable[[BaseModel, Runtime], Awaitable[str]]
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ModelTool:
    """A tool whose input is a pydantic model; made by `tool` and `define_tool`.

    `preview` shows the deciding operator the change that a call would make, without making it. `label` is
    the tool's display name, if it differs from its name. `is_error` takes the tool's name and a returned
    value and returns whether the call failed, in place of `returned_failure`; a `ToolOutput` has its own
    flag.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    run: Execute
    needs_approval: NeedsApproval = False
    preview: Preview | None = None
    label: str | None = None
    is_error: ResultClassifier | None = None

    @property
    def parameters(self) -> dict[str, JsonValue]:
        """The input's JSON Schema; `required` lists fields without a default."""
        schema = self.input_model.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        for property_schema in schema.get("properties", {}).values():
            property_schema.pop("title", None)
        schema.setdefault("properties", {})
        return schema

    def validate(self, args: Mapping[str, JsonValue]) -> None:
        """Raise `ToolInputError` that names every argument that does not fit."""
        self._parse(args)

    async def execute(self, args: dict[str, JsonValue], ctx: ToolContext) -> ToolOutput:
        """Run on checked arguments. Raises `ToolInputError`, or the tool's own errors."""
        value = await outcome(self.run(self._parse(args), ctx), ctx.progress, ToolOutput)
        output = as_output(value)
        if isinstance(value, ToolOutput):
            return output
        return replace(
            output, is_error=is_error_value(self.is_error or returned_failure, self.name, value)
        )

    async def preview_of(self, args: Mapping[str, JsonValue], runtime: Runtime) -> str | None:
        """Return the change that a call would make; `None` if unknown. Raises the errors of `preview`."""
        return None if self.preview is None else await self.preview(self._parse(args), runtime)

    def _parse(self, args: Mapping[str, JsonValue]) -> BaseModel:
        try:
            return self.input_model.model_validate(dict(args))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
                for problem in error.errors(include_url=False)
            )
            raise ToolInputError(f"Invalid arguments for {self.name}: {problems}") from error


def define_tool(
    name: str,
    description: str,
    schema: type[M],
    execute: Callable[
        [M, ToolContext], Awaitable[str | ToolOutput] | AsyncGenerator[str | ToolOutput, None]
    ],
    *,
    needs_approval: NeedsApproval = False,
    preview: Callable[[M, Runtime], Awaitable[str]] | None = None,
    label: str | None = None,
    is_error: ResultClassifier | None = None,
) -> ModelTool:
    """Make a tool from a pydantic model of its input and a function that accepts it (A-128).

    A returned value counts as a failure in the shapes of G-71, or if `is_error` of name and value is
    true.
    """
    run, preview_hook = cast("Execute", execute), cast("Preview | None", preview)
    return ModelTool(name, description, schema, run, needs_approval, preview_hook, label, is_error)


@overload
def tool(fn: Callable[..., object], /) -> ModelTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    label: str | None = None,
    is_error: ResultClassifier | None = None,
) -> Callable[[Callable[..., object]], ModelTool]: ...
def tool(
    fn: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    label: str | None = None,
    is_error: ResultClassifier | None = None,
) -> ModelTool | Callable[[Callable[..., object]], ModelTool]:
    """Make a tool of a function: its name and description are the tool's, its annotations the parameters.

    A parameter named `ctx` or annotated `ToolContext` gets the context. Unknown arguments are refused. A
    plain `def` runs in a thread. A returned value counts as a failure in the shapes of G-71, or if
    `is_error` of the tool's name and the value is true. An async generator reports each text that it
    yields while it runs; its result is the last value, or the last `ToolOutput` if it yields one. Raises
    `TypeError` for a parameter that a JSON object cannot name, for an unresolvable annotation, and for a
    generator that is not async.
    """

    def make(fn: Callable[..., object]) -> ModelTool:
        tool_name = name or fn.__name__
        if inspect.isgeneratorfunction(fn):
            raise TypeError(f"tool {tool_name}: a generator must be async; write 'async def'")
        model, context_name = _input_model(tool_name, fn)

        async def run(args: BaseModel, ctx: ToolContext) -> object:
            arguments: dict[str, object] = {key: getattr(args, key) for key in type(args).model_fields}
            if context_name is not None:
                arguments[context_name] = ctx
            if inspect.iscoroutinefunction(fn):
                return await fn(**arguments)
            if inspect.isasyncgenfunction(fn):
                return await outcome(fn(**arguments), ctx.progress, ToolOutput)
            result = await asyncio.to_thread(functools.partial(fn, **arguments))
            return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result

        full_description = description or inspect.getdoc(fn) or ""
        return ModelTool(
            tool_name, full_description, model, run, needs_approval, label=label, is_error=is_error
        )

    return make if fn is None else make(fn)


def _input_model(tool_name: str, fn: Callable[..., object]) -> tuple[type[BaseModel], str | None]:
    try:
        hints = typing.get_type_hints(fn, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {tool_name}: {error}; move the type to the top of its module") from error
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.name == "ctx" or hints.get(parameter.name) is ToolContext:
            context_name = parameter.name
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {tool_name}: parameter '{parameter}' cannot be given by name")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, JsonValue), default)
    model = create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)
    return model, context_name


def as_output(value: object) -> ToolOutput:
    """Convert a tool's return value to its output; anything but text becomes JSON.

    Raises pydantic's `ValidationError` for metadata that JSON cannot represent.
    """
    match value:
        case ToolOutput():
            return replace(value, metadata=_metadata.validate_python(value.metadata))
        case str():
            return ToolOutput(value)
        case None:
            return ToolOutput("")
        case _:
            return ToolOutput(to_json(value, fallback=str).decode(), is_json=True)


def input_problem(tool: Tool, args: Mapping[str, JsonValue]) -> str | None:
    """Return the reason why `args` do not fit `tool`, or `None`. A check that raises also gives a reason.

    For a tool without `validate`, only the presence of the arguments that its schema requires is checked.
    `validate` gets a copy, so that it cannot change the arguments.
    """
    validate: object = getattr(tool, "validate", None)
    try:
        if callable(validate):
            validate(copy.deepcopy(dict(args)))
            return None
        required_fields = tool.parameters.get("required", [])
        missing = (
            [str(key) for key in required_fields if key not in args]
            if isinstance(required_fields, list)
            else []
        )
    except ToolInputError as error:
        return str(error)
    except Exception as error:
        return f"Invalid arguments for {tool.name}: {describe(error)}"
    return f"Invalid arguments for {tool.name}: {', '.join(missing)}: Field required" if missing else None


def wants_approval(tool: Tool, args: Mapping[str, JsonValue]) -> bool:
    """Return the tool's own hint, which gets a copy of `args`; if it raises, the answer is yes."""
    hint: object = getattr(tool, "needs_approval", False)
    if not callable(hint):
        return bool(hint)
    try:
        return bool(hint(copy.deepcopy(dict(args))))
    except Exception:
        return True


def labels_of(tools: Iterable[Tool]) -> dict[str, str]:
    """Display names of the tools that have one other than their name."""
    labels: dict[str, str] = {}
    for tool in tools:
        label: object = getattr(tool, "label", None)
        if isinstance(label, str) and label.strip() and label != tool.name:
            labels[tool.name] = label.strip().encode(errors="replace").decode()
    return labels


def tool_table(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return the tools by name.

    Raises `DuplicateToolError` for a repeated name (A-61), `ValueError` for a reserved one (G-64, G-66),
    and `TypeError` for an object that is not a tool.
    """
    table: dict[str, Tool] = {}
    for tool in tools:
        for attribute in ("name", "description", "parameters", "execute"):
            if not hasattr(tool, attribute):
                raise TypeError(f"{tool!r} is not a tool: it has no '{attribute}'")
        check_tool_name(tool.name)
        if tool.name in table:
            raise DuplicateToolError(f'Duplicate tool name: "{tool.name}"')
        table[tool.name] = tool
    return table
