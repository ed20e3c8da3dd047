"""Digests of requests: an answer counts only for what was shown."""

from __future__ import annotations

from hashlib import sha256

from pydantic import JsonValue

from ..gate import GateManager
from ..gate.types import ApprovalRequest
from ..history.audit.canonical_json import canonical
from ..history.audit.passkeys import request_digest
from ..recording.records import json_input, net_record


def digest_of(session_id: str, manager: GateManager, request: ApprovalRequest, salt: str) -> str:
    """Return the hash of the call, of what requires its approval and of all rules in force."""
    return request_digest(
        session=session_id,
        call_id=request.call.tool_call_id,
        called=request.call.tool_name,
        arguments=json_input(request.call.input),
        names=request.names,
        tool=request.tool,
        net=request.net,
        transition=request.transition.name,
        people=request.people,
        rules=rules_digest(manager, request),
        salt=salt,
    )


def rules_digest(manager: GateManager, request: ApprovalRequest) -> str:
    """Return the hash of all rules in force when a request is shown, and of the one that requires it."""
    bound: dict[str, JsonValue] = {
        "net": net_record(request.net, request.skill_net).model_dump(mode="json"),
        "active": list(manager.active),
        "replaced": manager.replacements,
        "mode": manager.mode,
    }
    return sha256(canonical(bound).encode()).hexdigest()
