"""Digests of requests: an answer counts for what was shown, and for nothing else."""

from __future__ import annotations

from hashlib import sha256

from pydantic import JsonValue

from ..gate import GateManager
from ..gate.types import ApprovalRequest
from ..history.audit.canonical_json import canonical
from ..history.audit.passkeys import request_digest
from ..recording.records import json_input, net_record


def digest_of(session_id: str, manager: GateManager, request: ApprovalRequest, salt: str) -> str:
    """Hash of the call, of what asks about it and of all rules in force: if one changes, so does this."""
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
    """Hash of all rules in force when a request is shown, and of the one that asks."""
    bound: dict[str, JsonValue] = {
        "net": net_record(request.net, request.skill_net).model_dump(mode="json"),
        "active": list(manager.active),
        "replaced": manager.replacements,
        "mode": manager.mode,
    }
    return sha256(canonical(bound).encode()).hexdigest()
