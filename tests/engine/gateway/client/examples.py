"""Examples of the parameters of every method."""

from __future__ import annotations

from pydantic import JsonValue

Example = dict[str, JsonValue]

_CRITERIA: Example = {}
_MARK: JsonValue = [1767225600000, 7]
EXAMPLES: dict[str, tuple[Example, ...]] = {
    "session.open": (
        {"agent": "bot"},
        {
            "agent": "bot",
            "session": "bot-1",
            "model": "gpt",
            "rules": ["deploy"],
            "mode": "enforce",
            "active": ["block-rm"],
            "tools": ["bash"],
            "labels": {"bash": "Shell"},
            "workdir": "/srv",
            "explain_blocks": True,
        },
    ),
    "session.resume": ({"session": "bot-1", "rules": ["deploy"]},),
    "session.end_turn": ({"session": "bot-1"},),
    "session.close": ({"session": "bot-1"},),
    "session.report_message": ({"session": "bot-1", "role": "assistant", "text": "I deploy now."},),
    "session.prompt": ({"session": "bot-1"},),
    "tool.note_hints": (
        {"session": "bot-1", "tool": "bash", "hints": {"read_only": False, "open_world": True}},
    ),
    "tool.call": ({"session": "bot-1", "call": "c1", "tool": "bash", "input": {"x": 1}, "wait": 5.0},),
    "tool.withdraw": ({"session": "bot-1", "call": "c1", "reason": "no longer"},),
    "tool.give_up": ({"session": "bot-1", "call": "c1", "reason": "nobody decided within 50 s"},),
    "tool.result": (
        {"session": "bot-1", "call": "c1", "output": "done", "is_error": False, "seconds": 0.5},
        {"session": "bot-1", "call": "c1", "output": "cut off", "unknown": True},
    ),
    "tool.explain": ({"session": "bot-1", "tool": "bash", "input": {}},),
    "rules.running": ({},),
    "rules.apply": ({"files": {"a.rules": "block rm"}, "against": "0", "reason": "shorter"},),
    "rules.drop": ({},),
    "sessions.list": ({},),
    "approvals.list": ({}, {"most": 3}),
    "session.state": ({"session": "bot-1"},),
    "events.subscribe": ({"after": 0}, {}),
    "approval.decide": (
        {"approval_id": "a1", "approved": False, "digest": "d", "reason": "no", "stop": True},
        {
            "approval_id": "a1",
            "approved": True,
            "digest": "d",
            "input": {"x": 2},
            "grant": {"scope": "names", "uses": 3, "seconds": 60.0},
            "reason": "a release night",
        },
        {
            "approval_id": "a1",
            "approved": True,
            "digest": "d",
            "passkey": {
                "id": "k1",
                "credential": "AQ",
                "authenticator": "AQ",
                "client": "AQ",
                "signature": "AQ",
            },
        },
    ),
    "passkey.list": ({},),
    "passkey.challenge": ({"approval_id": "a1", "digest": "d", "origin": "https://laptop.example:8738"},),
    "passkey.begin": ({"origin": "https://laptop.example:8738"},),
    "passkey.register": (
        {"key": {"id": "k1", "name": "phone", "credential": "AQ", "attestation": "AQ", "client": "AQ"}},
    ),
    "passkey.confirm": (
        {"key_id": "k1", "code": "1234 5678"},
        {
            "key_id": "k1",
            "passkey": {
                "id": "k1",
                "credential": "AQ",
                "authenticator": "AQ",
                "client": "AQ",
                "signature": "AQ",
            },
        },
    ),
    "passkey.remove": ({"passkey": "AQ"},),
    "approval.reveal": ({"approval_id": "a1"},),
    "approval.claim": ({"approval_id": "a1"},),
    "approval.unclaim": ({"approval_id": "a1"},),
    "approval.comment": (
        {"approval_id": "a1", "text": "who knows this host?"},
        {"approval_id": "a1", "text": "yours, I think", "to": "ben"},
    ),
    "approval.reading": ({"approval_id": "a1", "reading": True},),
    "approval.take_back": ({"approval_id": "a1"},),
    "approval.precedents": ({"approval_id": "a1"},),
    "approval.extend": ({"approval_id": "a1", "seconds": 60.0}, {"approval_id": "a1", "seconds": None}),
    "agents.freeze": ({}, {"reason": "the deploys look wrong"}),
    "agents.lift": ({"reason": "looked at"},),
    "grant.revoke": ({"session": "bot-1", "key": "g1"},),
    "net.toggle": ({"session": "bot-1", "net": "block-rm", "active": False},),
    "session.set_mode": ({"session": "bot-1", "mode": "shadow"},),
    "change.confirm": ({"session": "bot-1", "change": "ch1"},),
    "change.drop": ({"session": "bot-1", "change": "ch1"},),
    "session.accept_loss": ({"session": "bot-1", "reason": "the deploy was looked at"},),
    "session.raise_limit": ({"session": "bot-1", "max_cost": 5.0},),
    "session.send": ({"session": "bot-1", "text": "go on", "mode": "queue"},),
    "session.abort": ({"session": "bot-1", "reason": "enough"},),
    "session.compact": ({"session": "bot-1", "keep_last": 4, "instructions": "short"},),
    "session.end": ({"session": "bot-1"},),
    "session.start": ({"spec": {"model": "m", "task": "t"}},),
    "history.resume": ({"session": "bot-1", "at": 3, "nets": "changed", "task": "t", "max_cost": 1.0},),
    "call.explain": ({"session": "bot-1", "call": "c1"},),
    "history.sessions": ({"limit": 10},),
    "history.events": ({"session": "bot-1", "after": 10},),
    "history.origin": ({"session": "bot-1"},),
    "decisions.scan": ({"criteria": _CRITERIA},),
    "decisions.read": ({"criteria": _CRITERIA, "part": {"top": _MARK, "bottom": None, "count": 1}},),
    "decisions.event": ({"session": "bot-1", "seq": 3},),
    "decisions.count": ({"criteria": _CRITERIA, "by": None, "steps": 10},),
    "decisions.shadow": ({"criteria": _CRITERIA},),
    "backtest.run": ({"rules": {"a.rules": "block rm"}, "session": "bot-1"},),
    "backtest.what_if": (
        {"session": "bot-1", "at": 1, "until": 5, "active": ["a"], "rules": {"a.rules": "block rm"}},
    ),
    "backtest.suggest": ({"rules": {"a.rules": "block rm"}, "since": "2026-01-01T00:00:00Z"},),
    "backtest.narrow": (
        {"rules": {"a.rules": "block rm"}, "file": "a.rules", "line": 1, "when": 'input.env != "x"'},
    ),
    "approvals.statistics": ({"since": "2026-01-01T00:00:00Z"},),
    "job.next": ({"job": 1},),
    "job.end": ({"job": 1},),
}
