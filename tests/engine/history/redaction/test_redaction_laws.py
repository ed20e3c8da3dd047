"""Masking in complete events, with its laws: no known secret remains, all else stays unchanged."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.engine.history.audit.hash_chain import CONTENT
from interlock.engine.history.model.events import (
    ApprovalClaimed,
    ApprovalCommented,
    ApprovalDecided,
    ApprovalEscalated,
    ApprovalExpired,
    ApprovalExtended,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRevealed,
    ApprovalTakenBack,
    ApprovalUnclaimed,
    ApprovalWithdrawn,
    CallLate,
    CallRepeated,
    CallResult,
    CallWaits,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    EventBody,
    FreezeBegan,
    FreezeLifted,
    GrantGiven,
    GrantRevoked,
    LimitRaised,
    LossAccepted,
    MessageAdded,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    NetToggled,
    NewerEvent,
    RequestMade,
    RequestStep,
    RulesReplaced,
    SessionOpened,
    SessionResumed,
    SessionStatus,
    StepEnded,
    ToolHints,
)
from interlock.engine.history.model.records import AppliedRules, CallRecord, FlowStepped, GrantRecord
from interlock.engine.history.redaction.redaction import MASK
from interlock.engine.recording.records import net_record
from tests.support.laws import examples

from ..support.made_secrets import SECRET, R, run
from ..support.recording import approval, asks, decided, recorded, request, result

SECRETS = st.text("abcdefXYZ0189+/._~-", min_size=12, max_size=40).filter(lambda s: s[0].isalnum())
ANY_SECRETS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=12, max_size=40
).filter(lambda s: s.strip() == s and len(set(s)) > 6 and s[0] != "-" and MASK not in s)
TELLING = st.sampled_from(
    ["password", "api_key", "X-Api-Key", "accessToken", "DB_PASSWORD", "client-secret", "auth"]
)

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def as_quoted_word(secret: str) -> str:
    """Return the secret as a shell word that is composed of differently quoted parts."""
    third = len(secret) // 3
    double = secret[third : 2 * third]
    for character in '\\"$`':
        double = double.replace(character, f"\\{character}")
    bare = "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in secret[:third])
    single = secret[2 * third :].replace("'", "'\\''")
    return f"{bare}\"{double}\"'{single}'"


def escaped(secret: str) -> str:
    return secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


FORMS: tuple[Callable[[str, str], str], ...] = (
    lambda name, secret: json.dumps({name: secret}),
    lambda name, secret: json.dumps({name: [secret, {"x": secret}]}, indent=1),
    lambda name, secret: json.dumps({"out": json.dumps({"a": 1, name: secret})}),
    lambda name, secret: json.dumps({name: secret}, ensure_ascii=False),
    lambda name, secret: f"{name}={shlex.quote(secret)} run",
    lambda name, secret: f"run --{name} {shlex.quote(secret)} now",
    lambda name, secret: f"run --{name}={shlex.quote(secret)}",
    lambda name, secret: f"<{name}>{escaped(secret)}</{name}>",
    lambda name, secret: f"<a>\n <x:{name} type='t'>\n{escaped(secret)}\n </x:{name}>\n</a>",
    lambda name, secret: f"<{name}><deep>{escaped(secret)}</deep></{name}>",
    lambda name, secret: f"{name}:\n  deep:\n  - {json.dumps(secret, ensure_ascii=False)}\nnext: 1",
    lambda name, secret: f"a:\n- {name}:\n    x: {secret}\n\n    y: {secret}\n  next: 1",
    lambda name, secret: f"{name}: |\n  first\n\n  {secret}\nnext: 1",
    lambda name, secret: f"export {name}={as_quoted_word(secret)} ; run",
    lambda name, secret: f"run --{name} {as_quoted_word(secret)} now",
    lambda name, secret: f"cat > .env <<'EOF'\n{name}={secret}\nEOF\nrun",
    lambda name, secret: f"curl -u {shlex.quote(f'user:{secret}')} --next",
)


def nested(name: str, secret: str, path: list[str | int]) -> JsonValue:
    """Return the secret under its name, nested in objects and lists."""
    value: JsonValue = {name: secret}
    for step in path:
        value = {step: value} if isinstance(step, str) else [None] * (step % 3) + [value]
    return value


def exact_grant() -> GrantRecord:
    """Return a grant for one input."""
    net = net_record("grant-1", approval("t"))
    return GrantRecord(
        key="grant-1", net=net, asks="n", asked="t", tool="t", names=("t",), exact=True, since=0.0
    )


def events(text: str, value: dict[str, JsonValue]) -> list[EventBody]:
    """Return one event of each kind, with `text` and `value` in every content field."""
    call = CallRecord(call_id="c", tool="t", input=value, malformed=text)
    asked = request("a", "c", "t").model_copy(
        update={
            "input": value,
            "title": text,
            "message": text,
            "uninspectable": text,
            "preview": text,
            "digest_salt": "5a17",
        }
    )
    return [
        SessionOpened(agent="a", model="m", mode="enforce", source=value, reason=text),
        SessionResumed(agent="a", model="m", mode="enforce", source=value, reason=text),
        SessionStatus(status="failed", error=text, by="ben"),
        asks(("c", "t"), text=text).model_copy(update={"calls": (call, call)}),
        MessageAdded(role="tool", text=text, call_id="c", tool="t", input=value),
        MessageQueued(message_id="m", mode="queue", text=text),
        MessageWithdrawn(message_id="m", reason=text),
        StepEnded(finish_reason="stop"),
        decided("c", "t", input=value, reason=text).model_copy(update={"uninspectable": text}),
        result("c", "t", output=text, anomaly=text),
        asked,
        ApprovalDecided(approval_id="a", call_id="c", approved=False, by="ben", reason=text, input=value),
        ApprovalWithdrawn(approval_id="a", call_id="c", reason=text, input=value, by="ben"),
        ApprovalExpired(approval_id="a", call_id="c", reason=text),
        ApprovalGiven(approval_id="a", call_id="c", by="ben"),
        ApprovalExtended(approval_id="a", call_id="c", until=None, by="ben"),
        ApprovalRevealed(approval_id="a", call_id="c", by="ben"),
        ApprovalFused(approval_id="a", call_id="c", by="ben", until=NOW, reason=text, input=value),
        ApprovalTakenBack(approval_id="a", call_id="c", by="ben"),
        ApprovalEscalated(approval_id="a", call_id="c", group="oncall"),
        ApprovalClaimed(approval_id="a", call_id="c", by="ben", until=NOW),
        ApprovalUnclaimed(approval_id="a", call_id="c", by="ben", reason=text),
        ApprovalCommented(approval_id="a", call_id="c", by="ben", text=text, to="ada"),
        FreezeBegan(by="ben", since=NOW, reason=text),
        FreezeLifted(by="ben", reason=text),
        GrantGiven(grant=exact_grant(), by="ben", input=value, reason=text),
        GrantRevoked(key="grant-1", by="ben"),
        NetToggled(net="n", active=True, by="ben", message=text, reason=text),
        ModeChanged(mode="shadow", by="ben", reason=text),
        RulesReplaced(applied=AppliedRules(by="ben", at=NOW), source=value),
        LimitRaised(max_cost=5, by="ben", reason=text),
        LossAccepted(by="ben", reason=text, acknowledged=5, kept=3, noticed=NOW, noticed_by="host"),
        ChangeProposed(change_id="x", net="n", by="ben", reason=text, people=2, expires=NOW, counts=True),
        CallWaits(call_id="c", waits_for=("d",)),
        CallLate(call_id="c", until=NOW),
        CallRepeated(call_id="c", made_as="d"),
        RequestMade(
            call_id="c", tool="bash", timeout="5m", deadline=NOW, valid=300, text=text, input=value
        ),
        RequestStep(call_id="c", step="consumed", key="00"),
        ChangeAgreed(change_id="x", by="ada"),
        ChangeDropped(change_id="x", reason=text),
        FlowStepped(step=1, node="A", live=("B",), output=value),
        ToolHints(tool="t", hints={"read_only": True}, differ=("destructive",)),
        NewerEvent(name="call.paused"),
    ]


class TestEvents:
    def test_examples_have_every_event_and_field(self) -> None:
        """The examples below have every kind of event and every content field."""
        kinds = set(get_args(get_args(EventBody)[0]))
        found = events("x", {"x": 1})
        assert {type(body) for body in found} == kinds
        for kind in kinds:
            examples = [body for body in found if type(body) is kind]
            for name in kind.model_fields.keys() & CONTENT:
                assert any(getattr(body, name) for body in examples), (kind, name)

    @settings(max_examples=examples(150), deadline=None)
    @given(
        SECRETS,
        TELLING,
        st.lists(st.text(max_size=3) | st.integers(0, 2), max_size=5),
        st.sampled_from(FORMS),
    )
    def test_secret_under_telling_name_never_stays(
        self,
        secret: str,
        name: str,
        path: list[str | int],
        form: Callable[[str, str], str],
    ) -> None:
        """LAW: a secret under a telling name is in no masked event, at any nesting."""
        value: dict[str, JsonValue] = {"outer": nested(name, secret, path)}
        for body in events(form(name, secret), value):
            shown = R.body(body)
            if secret in body.model_dump_json():
                assert shown is not body
            assert secret not in shown.model_dump_json()

    @settings(max_examples=examples(200), deadline=None)
    @given(ANY_SECRETS, TELLING, st.sampled_from(FORMS))
    @example("0000\xa000000012345", "password", FORMS[-4])
    @example("=00000;01234", "password", FORMS[-2])
    def test_no_part_of_a_secret_stays(
        self, secret: str, name: str, form: Callable[[str, str], str]
    ) -> None:
        """LAW: not even a part of a secret stays, for any characters and quoting of JSON or shells."""
        shown = R.text(form(name, secret))
        parts = [secret[at : at + 6] for at in range(len(secret) - 5)]
        harmless = form(name, "")
        assert not [part for part in parts if part in shown and part not in harmless]

    @settings(max_examples=examples(60), deadline=None)
    @given(SECRETS, TELLING, st.sampled_from(FORMS))
    def test_facts_are_unchanged(self, secret: str, name: str, form: Callable[[str, str], str]) -> None:
        """LAW: masking changes no fact of an event, so its hash stays valid."""
        for body in events(form(name, secret), {name: secret}):
            before, after = (
                {k: v for k, v in b.model_dump().items() if k not in CONTENT}
                for b in (body, R.body(body))
            )
            assert before == after
            for was, now in zip(
                getattr(body, "calls", ()), getattr(R.body(body), "calls", ()), strict=True
            ):
                assert (was.call_id, was.tool) == (now.call_id, now.tool)

    @pytest.mark.slow
    def test_event_without_secrets_is_same_object(self) -> None:
        """An event without masked content comes back as the same object."""
        for event in recorded(*events("nothing to hide", {"path": "a", "n": [1, None, {"x": "y"}]})):
            assert R.event(event) is event
            assert R.body(event.body) is event.body
        (event,) = recorded(events(f"PASSWORD={SECRET}", {})[9])
        assert isinstance(event.body, CallResult)
        assert R.event(event).body.model_dump()["output"] == f"PASSWORD={MASK}"
        assert R.event(event).model_dump(exclude={"body"}) == event.model_dump(exclude={"body"})


PIECES = st.sampled_from(
    [
        "password",
        "token",
        "auth",
        "x",
        "=",
        ": ",
        ":",
        "=>",
        " ",
        "--",
        "-u a:b",
        "curl",
        '"',
        "'",
        '\\"',
        '\\\\\\"',
        "\\",
        "\\n",
        "\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        "|\n  ",
        MASK,
        "Bearer abcdefgh",
        "basic dXNlcjpw",
        "://u:p@h",
        "sk-" + run(20),
        "-----BEGIN PRIVATE KEY-----",
        "null",
        "7",
        "&",
        ";",
        "<password>",
        "</password>",
        "<a token",
        "<",
        "/>",
        "> ",
        "value='v'",
        "\npassword:\n",
        "\n  x: y\n",
        "\n- ",
        "#",
        "<<EOF\n",
        "\nEOF\n",
        "AKIA" + "A" * 16,
        "é",
    ]
)


class TestNothingElse:
    @settings(max_examples=examples(300), deadline=None)
    @given(st.text(st.sampled_from("abz XYZ019=:-_.<>/\"'\\\n{}[],|&;#@$"), max_size=80))
    def test_harmless_text_is_same_object(self, text: str) -> None:
        """LAW: a text without telling names, keys, users and addresses comes back as the same object."""
        assert R.text(text) is text

    @settings(max_examples=examples(100), deadline=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def test_surrounding_lines_are_unchanged(self, text: str) -> None:
        """LAW: separate lines before and after a text are neither masked nor changed."""
        assert R.text(f"seen here\n{text}").startswith("seen here\n")


class TestAgain:
    @settings(max_examples=examples(400), deadline=None)
    @given(st.lists(PIECES, max_size=14).map("".join))
    def test_masking_text_again_changes_nothing(self, text: str) -> None:
        """LAW: masking a masked text again changes nothing, even for difficult texts."""
        once = R.text(text)
        assert R.text(once) == once

    @settings(max_examples=examples(100), deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.lists(PIECES, max_size=5).map("".join),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
            max_leaves=8,
        )
    )
    def test_masking_a_value_again_changes_nothing(self, value: JsonValue) -> None:
        """LAW: masking a masked value again changes nothing."""
        once = R.value(value)
        assert R.value(once) == once
