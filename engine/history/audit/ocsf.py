"""Events in the Open Cybersecurity Schema Framework: API Activity, class 6003, version 1.3.0.

Each event of a session is one activity. Data without an OCSF field is in `unmapped`: the event with its
chain, as in `jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version

from pydantic import JsonValue

from .canonical_json import canonical
from .export import UNREADABLE, Mask, event_line, unreadable
from .verify import LinkedEvent

OCSF = "1.3.0"
CLASS = 6003
CATEGORY = 6
OTHER = 99
SUCCESS, FAILURE, UNKNOWN = 1, 2, 0
INFORMATIONAL, LOW, MEDIUM = 1, 2, 3
ALLOWED, DENIED = 1, 2


def as_ocsf(events: Iterable[LinkedEvent], mask: Mask | None) -> Iterator[str]:
    """Yield a JSON object for each event, without line ends; without `mask` nothing is masked.

    Raises `ValueError` for an event that cannot be read.
    """
    agent: str | None = None
    prev: bytes | None = None
    for event in events:
        try:
            line = event_line(event, prev, mask)
            agent = agent_in(event.kind, line) or agent
            yield canonical(activity(event, line, agent))
        except UNREADABLE as error:
            raise unreadable(event) from error
        prev = event.hash


def agent_in(kind: str, line: Mapping[str, JsonValue]) -> str | None:
    """Return the agent that an event names as beginning or resuming its session, from its `line`."""
    body = line.get("body")
    if kind not in ("session.opened", "session.resumed") or not isinstance(body, dict):
        return None
    agent = body.get("agent")
    return agent if isinstance(agent, str) else None


def activity(event: LinkedEvent, line: dict[str, JsonValue], agent: str | None) -> dict[str, JsonValue]:
    """Return an event as an activity of `agent`; `line` is the event as shown, or only its position."""
    recorded_body = line.get("body")
    body = recorded_body if isinstance(recorded_body, dict) else {}
    severity, status, action = weight(event.kind, body)
    name = agent or "unknown"
    api: dict[str, JsonValue] = {
        "operation": body.get("tool") or event.kind,
        "service": {"name": name},
    }
    if isinstance(call := body.get("call_id"), str):
        api["request"] = {"uid": call}
    if isinstance(reason := body.get("reason"), str):
        api["response"] = {"message": reason}
    by = body.get("by") or body.get("approved_by") or body.get("opened_by")
    people = [each for each in (by if isinstance(by, list) else [by]) if isinstance(each, str)]
    activity: dict[str, JsonValue] = {
        "activity_id": OTHER,
        "activity_name": event.kind,
        "actor": {"user": {"name": people[0]}} if people else {"app_name": name},
        "api": api,
        "category_name": "Application Activity",
        "category_uid": CATEGORY,
        "class_name": "API Activity",
        "class_uid": CLASS,
        "metadata": {
            "log_name": "journal",
            "product": {
                "name": "Interlock",
                "vendor_name": "Interlock",
                "version": version("interlock"),
            },
            "sequence": event.seq,
            "uid": event.hash.hex(),
            "correlation_uid": event.place.session,
            "version": OCSF,
        },
        "severity_id": severity,
        "src_endpoint": {"name": name},
        "status_id": status,
        "time": event.place.at,
        "type_name": "API Activity: Other",
        "type_uid": CLASS * 100 + OTHER,
        "unmapped": {"interlock": line},
    }
    if action is not None:
        activity["action_id"] = action
        activity["action"] = "Allowed" if action == ALLOWED else "Denied"
        metadata = activity["metadata"]
        assert isinstance(metadata, dict)
        metadata["profiles"] = ["security_control"]
        activity["disposition_id"] = 1 if action == ALLOWED else 2
    return activity


def weight(kind: str, body: Mapping[str, JsonValue]) -> tuple[int, int, int | None]:
    """Return severity, status and, for a decision, its disposition."""
    match kind:
        case "call.decided":
            is_enforced = body.get("mode") == "enforce"
            blocked = body.get("outcome") != "allow" and is_enforced
            return (LOW, FAILURE, DENIED) if blocked else (INFORMATIONAL, SUCCESS, ALLOWED)
        case "call.result" if body.get("unknown"):
            return MEDIUM, UNKNOWN, None
        case "call.result":
            return INFORMATIONAL, FAILURE if body.get("is_error") else SUCCESS, None
        case "approval.decided":
            return INFORMATIONAL, SUCCESS if body.get("approved") else FAILURE, None
        case "net.toggled" | "mode.changed" | "rules.replaced":
            return MEDIUM, SUCCESS, None
        case _:
            return INFORMATIONAL, SUCCESS, None
