"""Messages of the Agent Approval Protocol, version 1, as clients send and receive them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from ...core.json_values import same_json
from ...history.model.events import RequestMade
from ...recording.protocol_requests import ProtocolRequest
from ..protocol.framing import Payload, WireError, problems, read_json

LONGEST_NAME: Final = 200
LONGEST_TEXT: Final = 20_000

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]


class InvalidMessageError(ValueError):
    """A message that does not follow this protocol; the text is for its sender."""


class CreateRequest(Payload):
    """One tool call that the client wants to make. Fields that were not sent are not sent back."""

    tool: Name
    arguments: dict[str, JsonValue]
    timeout: str = Field(pattern=r"^[1-9][0-9]*(s|m|h)$", max_length=20)
    server: Name = ""
    agent_reasoning: Text = ""
    context: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])

    @property
    def called(self) -> str:
        """Tool name for the rules: a tool of an MCP server is `mcp__SERVER__TOOL`, as for hooks."""
        return f"mcp__{self.server}__{self.tool}" if self.server else self.tool

    @property
    def conversation(self) -> str:
        """The client's own session, thread or run; empty if it names none."""
        resume = self.context.get("resume")
        for context in (self.context, resume):
            if isinstance(context, dict):
                for key in ("session_id", "thread_id", "conversation_id", "run_id"):
                    if isinstance(name := context.get(key), str) and name:
                        return name
        return ""

    def made(self, request_id: str, deadline: datetime, valid: float) -> RequestMade:
        """Event with which the request is recorded."""
        sent_fields = self.model_fields_set
        return RequestMade(
            call_id=request_id,
            tool=self.tool,
            timeout=self.timeout,
            deadline=deadline,
            valid=valid,
            server=self.server or None,
            text=self.agent_reasoning if "agent_reasoning" in sent_fields else None,
            input=self.context if "context" in sent_fields else None,
        )

    def is_same(self, known: ProtocolRequest) -> bool:
        """Return whether a recorded request was made by this message."""
        event = known.made
        again = self.made(known.id, event.deadline, event.valid)
        return same_json(again.model_dump(mode="json"), event.model_dump(mode="json")) and same_json(
            self.arguments, known.arguments
        )


class Outcome(Payload):
    """Outcome of a call that ran."""

    status: Literal["succeeded", "failed"]
    note: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)] = ""


MessageT = TypeVar("MessageT", bound=BaseModel)


def read(model: type[MessageT], body: bytes) -> MessageT:
    """Parse a message. Raises `InvalidMessageError` if it is invalid, for example with a repeated key."""
    try:
        return model.model_validate(read_json(body.decode()))
    except ValidationError as error:
        raise InvalidMessageError(problems(error)) from error
    except (ValueError, WireError) as error:
        raise InvalidMessageError(f"expected a JSON object: {error}") from error


def shown(request: ProtocolRequest) -> dict[str, JsonValue]:
    """Return a request as its client receives it."""
    event, decision = request.made, request.decision
    fields: dict[str, JsonValue] = {
        "id": request.id,
        "tool": event.tool,
        "arguments": dict(request.arguments or {}),
        "timeout": event.timeout,
        "status": "pending" if decision is None else decision.status,
        "created_at": stamp(request.at),
        "deadline_at": stamp(event.deadline),
    }
    optional: dict[str, JsonValue] = {
        "server": event.server,
        "agent_reasoning": event.text,
        "context": event.input,
        "decision": _decision(request),
        "consumption": _consumption(request),
    }
    return fields | {name: value for name, value in optional.items() if value is not None}


def stamp(at: datetime) -> str:
    """Format a time in UTC, as `2026-11-26T12:00:00.000Z`."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _decision(request: ProtocolRequest) -> JsonValue:
    decision = request.decision
    if decision is None:
        return None
    fields: dict[str, JsonValue] = {"status": decision.status, "decided_at": stamp(decision.at)}
    if decision.note:
        fields["note"] = decision.note
    if decision.expires is not None:
        fields["expires_at"] = stamp(decision.expires)
    return fields


def _consumption(request: ProtocolRequest) -> JsonValue:
    if request.used is None:
        return None
    fields: dict[str, JsonValue] = {"consumed_at": stamp(request.used)}
    if (outcome := request.outcome) is not None:
        outcome_fields: dict[str, JsonValue] = {
            "status": "failed" if outcome.is_error else "succeeded",
            "reported_at": stamp(outcome.at),
        }
        fields["outcome"] = outcome_fields | ({"note": outcome.note} if outcome.note else {})
    return fields
