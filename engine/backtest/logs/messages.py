"""Calls of a conversation that another program recorded in the formats of OpenAI and the Vercel AI SDK.

These are OpenAI's `tool_calls` and `role: "tool"`, the items of its Responses API, the AI SDK's parts
`tool-call` and `tool-result`, also with the older names `args`, `result` and `isError`, and its UI
messages.

No gate decided in such logs. A call with a result counts as allowed, unless the log says that a person
was asked about it. A call without a result moves no net, as in a replay (G-62). A failed result drops the
call's pending steps. Results without a call, or of another tool, are ignored; of calls that share an id
before its result the first counts (G-62). User texts come from messages with that role; a tool's output
counts for the tool whose call it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...core.sources import USER
from ...gate.wrapping.messages import as_list, as_mapping, unwrapped_output, user_texts
from ...net.net import Input
from ..recording import Recorded, RecordedCall, RecordedOutcome, RecordedResult, RecordedText
from .items import (
    Fields,
    Location,
    Logged,
    LoggedCall,
    LoggedQuestion,
    LoggedResult,
    LoggedText,
    input_of,
    is_list,
    output_text,
    text_of,
)
from .ui_messages import is_ui_message, ui_items

# Items of OpenAI's Responses API besides its messages: separate calls and outputs.


_CALL, _OUTPUT = "_call", "_call_output"
_OTHER = frozenset(
    {
        "compaction",
        "function_call",
        "function_call_output",
        "item_reference",
        "mcp_list_tools",
        "reasoning",
    }
)
_MCP = ("mcp_approval_request", "mcp_approval_response")
_FAILED = ("failed", "incomplete")


def is_response_item(fields: Fields) -> bool:
    """True if an object without a role is such an item, even one without a call."""
    kind = fields.get("type")
    return isinstance(kind, str) and (kind in _OTHER or kind in _MCP or kind.endswith((_CALL, _OUTPUT)))


def response_item(item: Fields, place: Location) -> Iterator[Logged]:
    """Calls, results and questions of an item. Raises `LogError`.

    A call without a `call_id` was run by the provider itself, such as a web search: no gate could have
    judged it. The exception is a call of a named tool on an MCP server. Outputs do not show whether a
    function failed.
    """
    kind = str(item.get("type"))
    if kind == "mcp_call":
        yield from _mcp(item, place)
    elif kind == "mcp_approval_request":
        call_id = text_of(item, "id", place)
        tool = text_of(item, "name", place)
        yield LoggedCall(place.number, call_id, tool, input_of(item.get("arguments")))
        yield LoggedQuestion(call_id, approved=None)
    elif kind == "mcp_approval_response":
        call_id = text_of(item, "approval_request_id", place)
        yield LoggedQuestion(call_id, approved=item.get("approve") is True)
    elif kind.endswith(_OUTPUT):
        call_id, has_failed = text_of(item, "call_id", place), item.get("status") in _FAILED
        yield LoggedResult(call_id, None, has_failed, output=item.get("output"))
    elif kind in ("function_call", "custom_tool_call"):
        call_id, tool = text_of(item, "call_id", place), text_of(item, "name", place)
        yield LoggedCall(place.number, call_id, tool, _input(item))
    elif kind.endswith(_CALL) and "call_id" in item:
        call_id = text_of(item, "call_id", place)
        yield LoggedCall(place.number, call_id, kind.removesuffix(_CALL), _input(item))


def _mcp(item: Fields, place: Location) -> Iterator[Logged]:
    """A call that a provider made for the model, with its result; its id differs after an approval."""
    request_id = item.get("approval_request_id")
    call_id = request_id if isinstance(request_id, str) else text_of(item, "id", place)
    tool = text_of(item, "name", place)
    yield LoggedCall(place.number, call_id, tool, input_of(item.get("arguments")))
    has_failed = item.get("error") is not None or item.get("status") in _FAILED
    yield LoggedResult(call_id, tool, has_failed, output=item.get("output"))


def _input(item: Fields) -> Input:
    """A call's input object, or its free text as an object."""
    if item.get("type") == "custom_tool_call":
        return {"input": item.get("input")}
    return input_of(next((item[k] for k in ("arguments", "action", "operation") if k in item), None))


SOMEBODY = "an operator"
"""Name of the person who answered, if a log says that somebody did."""

_ALLOWED = RecordedOutcome()


def is_message(value: object) -> bool:
    """True if a value is a message, or an item in place of one."""
    fields = as_mapping(value)
    if fields is None or "messages" in fields:
        return False
    return "role" in fields or is_response_item(fields)


def items_of(messages: Iterable[tuple[Location, object]], *, texts: bool = False) -> Iterator[Recorded]:
    """Calls and results of one conversation, in order. Raises `LogError`, before the first item.

    With `texts` results have their outputs, and user texts are items.
    """
    items = list(_with_call_ids(item for place, message in messages for item in _read(message, place)))
    waiting: dict[str, int] = {}
    results: dict[int, LoggedResult] = {}
    approvals: dict[int, bool | None] = {}
    positions: list[int] = []
    for at, item in enumerate(items):
        if isinstance(item, LoggedCall):
            if item.call_id not in waiting:
                waiting[item.call_id] = at
                positions.append(at)
            continue
        if isinstance(item, LoggedText):
            positions.append(at)
            continue
        call_at = waiting.get(item.call_id)
        earlier_call = None if call_at is None else items[call_at]
        if call_at is None or not isinstance(earlier_call, LoggedCall):
            continue
        if isinstance(item, LoggedQuestion):
            approvals[call_at] = item.approved
        elif item.tool in (None, earlier_call.tool):
            del waiting[item.call_id]
            results[call_at] = item
            items[at] = replace(item, tool=earlier_call.tool)
            positions.append(at)
    for at in positions:
        item = items[at]
        if isinstance(item, LoggedCall):
            then = _recorded_outcome(results.get(at), at in approvals, approvals.get(at))
            yield RecordedCall(item.number, item.call_id, item.tool, item.input, then)
        elif isinstance(item, LoggedResult) and not item.denied:
            output = output_text(item.output) if texts else None
            yield RecordedResult(item.call_id, item.tool or "", item.is_error, output=output)
        elif isinstance(item, LoggedText) and texts:
            yield RecordedText(USER, item.text)


def _with_call_ids(items: Iterable[Logged]) -> Iterator[Logged]:
    """The same items, with answers that refer to a question's id assigned to the call."""
    call_ids: dict[str, str] = {}
    for item in items:
        if not isinstance(item, LoggedQuestion) or item.approval_id is None:
            yield item
        elif item.approved is None:
            call_ids[item.approval_id] = item.call_id
            yield item
        else:
            yield replace(item, call_id=call_ids.get(item.approval_id, ""))


def _recorded_outcome(
    result: LoggedResult | None, questioned: bool, approved: bool | None
) -> RecordedOutcome:
    """Outcome of a call from its result, and from the person's answer if one was asked."""
    ran = result is not None and not result.denied
    if (result is not None and result.denied) or (approved is False and not ran):
        return RecordedOutcome("ask", ran=False, denied=True)
    if questioned:
        return RecordedOutcome("ask", ran=ran, by=(SOMEBODY,) if approved or ran else ())
    return _ALLOWED if ran else RecordedOutcome(ran=False)


def _read(message: object, place: Location) -> Iterator[Logged]:
    """Texts, calls and results in one message, or in an item in place of one."""
    fields = as_mapping(message)
    role = None if fields is None else fields.get("role")
    if fields is not None and role is None and is_response_item(fields):
        yield from response_item(fields, place)
        return
    if fields is None or not isinstance(role, str):
        raise place.error("is not a message", "expected an object with a 'role'")
    if role == USER:
        yield from map(LoggedText, user_texts(fields))
    if is_ui_message(fields):
        yield from ui_items(fields, place)
        return
    if fields.get("function_call") is not None:
        raise place.error("has 'function_call', a call without an id", "expected 'tool_calls'")
    content = fields.get("content")
    for part in map(as_mapping, as_list(content)):
        if part is not None:
            yield from _part(part, place)
    if role == "assistant":
        calls = fields.get("tool_calls")
        if calls is not None and not is_list(calls):
            raise place.error("its 'tool_calls' are not a list", "expected a list of calls")
        yield from (_openai_call(as_mapping(call) or {}, place) for call in as_list(calls))
    elif role == "tool" and "tool_call_id" in fields:
        call_id, tool = text_of(fields, "tool_call_id", place), fields.get("name")
        has_failed = fields.get("is_error") is True or fields.get("isError") is True
        tool_name = tool if isinstance(tool, str) else None
        yield LoggedResult(call_id, tool_name, has_failed, output=content)
    elif role == "tool" and not is_list(content):
        remedy = "expected a 'tool_call_id', or parts of type 'tool-result'"
        raise place.error("does not say which call it answers", remedy)


def _part(part: Fields, place: Location) -> Iterator[Logged]:
    match part.get("type"):
        case "tool-call":
            arguments = part["input"] if "input" in part else part.get("args")
            tool = text_of(part, "toolName", place)
            yield LoggedCall(place.number, text_of(part, "toolCallId", place), tool, input_of(arguments))
        case "tool-result":
            output = part["output"] if "output" in part else part.get("result")
            kind = (as_mapping(output) or {}).get("type")
            value, has_failed = unwrapped_output(output)
            yield LoggedResult(
                text_of(part, "toolCallId", place),
                text_of(part, "toolName", place),
                has_failed or part.get("isError") is True,
                kind == "execution-denied",
                value,
            )
        case "tool-approval-request":
            call_id, question = text_of(part, "toolCallId", place), text_of(part, "approvalId", place)
            yield LoggedQuestion(call_id, None, question)
        case "tool-approval-response":
            is_approved = part.get("approved") is True
            yield LoggedQuestion("", is_approved, text_of(part, "approvalId", place))
        case "tool_use" | "tool_result" as other:
            remedy = "expected OpenAI's 'tool_calls', or 'tool-call' and 'tool-result' parts"
            raise place.error(f"has a part of type '{other}'", remedy)
        case _:
            pass


def _openai_call(call: Fields, place: Location) -> LoggedCall:
    custom = as_mapping(call.get("custom"))
    if custom is not None:  # a tool with free text as its input
        arguments = {"input": custom.get("input")}
        return LoggedCall(
            place.number, text_of(call, "id", place), text_of(custom, "name", place), arguments
        )
    function = as_mapping(call.get("function"))
    if function is None:
        raise place.error("has a tool call without a 'function'", "expected its 'name' and 'arguments'")
    tool = text_of(function, "name", place)
    return LoggedCall(place.number, text_of(call, "id", place), tool, input_of(function.get("arguments")))
