"""Items of OpenAI's Responses API, which stand beside its messages: calls and outputs by themselves."""

from __future__ import annotations

from collections.abc import Iterator

from ..net import Input
from .log_items import Fields, Logged, LoggedCall, LoggedQuestion, LoggedResult, Place, input_of, text_of

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
    """Whether an object without a role is such an item, or one that holds no call."""
    kind = fields.get("type")
    return isinstance(kind, str) and (kind in _OTHER or kind in _MCP or kind.endswith((_CALL, _OUTPUT)))


def response_item(item: Fields, place: Place) -> Iterator[Logged]:
    """What an item says. Raises `LogError`.

    A call without a `call_id` was run by the provider itself, as a search of the web: no gate could have
    judged it, except that of a tool on an MCP server, which is named. Nothing in an output says that a
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
        yield LoggedResult(text_of(item, "call_id", place), None, item.get("status") in _FAILED)
    elif kind in ("function_call", "custom_tool_call"):
        call_id, tool = text_of(item, "call_id", place), text_of(item, "name", place)
        yield LoggedCall(place.number, call_id, tool, _input(item))
    elif kind.endswith(_CALL) and "call_id" in item:
        call_id = text_of(item, "call_id", place)
        yield LoggedCall(place.number, call_id, kind.removesuffix(_CALL), _input(item))


def _mcp(item: Fields, place: Place) -> Iterator[Logged]:
    """A call that a provider made for the model, with its result: another id when a person was asked."""
    asked = item.get("approval_request_id")
    call_id = asked if isinstance(asked, str) else text_of(item, "id", place)
    tool = text_of(item, "name", place)
    yield LoggedCall(place.number, call_id, tool, input_of(item.get("arguments")))
    yield LoggedResult(call_id, tool, item.get("error") is not None or item.get("status") in _FAILED)


def _input(item: Fields) -> Input:
    """The object that a call has for its input, or a free text as one."""
    if item.get("type") == "custom_tool_call":
        return {"input": item.get("input")}
    return input_of(next((item[k] for k in ("arguments", "action", "operation") if k in item), None))
