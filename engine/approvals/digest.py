"""Digest of a request, to which a person's answer is bound."""

from __future__ import annotations

from hashlib import sha256

from pydantic import JsonValue

from ..gate import GateManager
from ..gate.types import ApprovalRequest
from ..history.audit.canonical_json import canonical
from ..recording.records import json_input, net_record


def digest_of(session_id: str, manager: GateManager, request: ApprovalRequest) -> str:
    """Hash of the call, of what asks about it and of all rules in force: if one changes, so does this."""
    active = manager.active
    bound: dict[str, JsonValue] = {
        "session": session_id,
        "call": request.call.tool_call_id,
        "called": request.call.tool_name,
        "input": json_input(request.call.input),
        "names": list(request.names),
        "transition": request.transition.name,
        "net": net_record(request.net, request.skill_net).model_dump(mode="json"),
        "active": list(active),
        "mode": manager.mode,
    }
    return sha256(canonical(bound).encode()).hexdigest()
