"""Journals in which every untrusted text is an attack."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    CallDecided,
    CallResult,
    EventBody,
    LimitRaised,
    LossAccepted,
    MessageAdded,
    ModeChanged,
    NetToggled,
    SessionStatus,
    StepEnded,
)
from interlock.engine.history.model.records import CallRecord, RuleRecord

from ...support.decisions import Ticking, asked, opened
from ..screens.replay.recording import NETS


def session_of(number: int, text: str) -> str:
    """The id of the session that attacks with `text`."""
    return f"s{number} {text[:150]}"


def bodies(text: str, mode: str = "enforce") -> list[EventBody]:
    """The events of a session: messages, blocked, denied and failed calls, changes."""
    rule = RuleRecord(file=text, line=5, text=text)
    net = NETS[0].model_copy(update={"key": text, "name": text, "rule": rule})
    call = {"input": {text: text, "list": [text]}, "tool": text, "names": (text, "bash")}

    def said(call_id: str) -> MessageAdded:
        wanted = CallRecord(call_id=call_id, tool=text, input={text: text})
        return MessageAdded(role="assistant", text=text, calls=(wanted,))

    def decided(call_id: str, outcome: str, **more: object) -> CallDecided:
        return CallDecided.model_validate(
            {"call_id": call_id, "outcome": outcome, "mode": mode, **call, **more}
        )

    blocked = {"net": text, "rule": rule, "reason": text, "via": text[:150]}
    opening = opened(text, mode, model=text, workdir=text, nets=(*NETS, net), active=(text,))
    return [
        opening.model_copy(update={"opened_by": text}),
        SessionStatus(status="running"),
        MessageAdded(role="user", text=text, by=text),
        said("c1"),
        decided("c1", "block", **blocked),
        StepEnded(finish_reason=text, input_tokens=1, output_tokens=1),
        said(f"c2{text}"),
        decided(f"c2{text}", "allow", approved_by=(text,)),
        CallResult(call_id=f"c2{text}", tool=text, output=text, is_error=True, seconds=1.0),
        said("c3"),
        *asked("c3", text, approved=False, by=text),
        decided("c3", "block", **blocked),
        NetToggled(net=NETS[0].key, active=True, by=text, message=text),
        ModeChanged(mode="shadow", by=text),
        LimitRaised(max_cost=5, by=text),
        LossAccepted(
            by=text,
            reason=text,
            acknowledged=5,
            kept=3,
            noticed=datetime(2026, 1, 1, tzinfo=UTC),
            noticed_by=text,
        ),
        SessionStatus(status="failed", error=text, by=text),
    ]


def write(path: Path, texts: Iterable[str]) -> Path:
    """Write a journal with a session for each text, every other one in shadow mode."""
    with Journal.open(path, clock=Ticking()) as journal:
        for number, text in enumerate(texts):
            mode = "shadow" if number % 2 else "enforce"
            journal.write(session_of(number, text), *bodies(text, mode))
    return path
