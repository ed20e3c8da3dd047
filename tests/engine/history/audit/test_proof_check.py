"""Passkeys in a journal: an approval that needed one is proved even years later, or reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agents import C, T
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.history.audit.export import as_jsonl, linked_events
from interlock.engine.history.audit.hash_chain import CONTENT, ChainPosition, event_hash_of_body
from interlock.engine.history.audit.importing import read_export
from interlock.engine.history.audit.passkeys import request_digest
from interlock.engine.history.audit.verify import ChainCheck, verify_journal
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.key_log import KeyLog
from interlock.engine.history.model.events import ApprovalRequested, CallResult
from interlock.engine.history.redaction.redaction import Redaction
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.authenticator import PAGE, Authenticator, enroll
from tests.support.raw_database import raw_database

from ...support.shop import Shop, bot, until

RULES = "require human-approval before deploy by 2 of security not by author with passkey"
PEOPLE = Operators(
    (*(Operator(name, groups=("security",)) for name in ("maria", "ada")), Operator("ben"))
)


@pytest.fixture
async def recorded(tmp_path: Path) -> Path:
    """A journal with one session, whose deploy two of security approved with their passkeys."""
    path = tmp_path / "journal.db"
    hub = Hub(Journal.open(path))
    hub.know_operators(PEOPLE)
    devices = {"maria": Authenticator(), "ada": Authenticator()}
    for name, device in devices.items():
        await enroll(hub, name, device)
    events = hub.subscribe()
    agent = bot(Shop(), C(deploy={"env": "prod"}), T("done"))
    session = await hub.open_session(agent, SessionConfig(compile_rules(RULES).registry))
    await hub.send(session, "go", by="ben")
    await until(events, ApprovalRequested)
    [request] = await hub.approvals()
    for name, device in devices.items():
        asked = await hub.challenge_key(request.id, digest=request.digest, origin=PAGE, by=name)
        answer = device.sign(asked)
        outcome = await hub.decide(
            request.id, approved=True, by=name, digest=request.digest, passkey=answer
        )
        assert outcome.ok, outcome.message
    await until(events, CallResult)
    await hub.close()
    return path


def rewrite(path: Path, change: Callable[[str, dict[str, Any]], None]) -> None:
    """Change events like an attacker who has the file and can recompute its chain."""
    with closing(raw_database(path)) as connection:
        prev = None
        rows = connection.execute(
            "SELECT cursor, session, seq, at, type, body, salt FROM event ORDER BY seq"
        ).fetchall()
        for cursor, session, seq, at, kind, body, salt in rows:
            members = json.loads(body)
            change(kind, members)
            text = json.dumps(members)
            prev = event_hash_of_body(ChainPosition(session, seq, at), text, salt, prev)
            connection.execute(
                "UPDATE event SET body = ?, hash = ? WHERE cursor = ?", (text, prev, cursor)
            )
        connection.commit()


def check(path: Path) -> ChainCheck:
    [found] = verify_journal(path)
    return found


def flipped(text: str) -> str:
    """Return a base64url text with one changed character in its middle."""
    at = len(text) // 2
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


class TestProofs:
    def test_valid_in_an_unchanged_journal(self, recorded: Path) -> None:
        """Both proofs are checked against the log of keys (G-107)."""
        found = check(recorded)
        assert (found.proofs, found.unproved, found.fault) == (2, (), None)

    @pytest.mark.parametrize("kind", ["approval.given", "approval.decided"])
    @pytest.mark.parametrize(
        ("member", "value", "message"),
        [
            ("signature", flipped, "does not prove this approval"),
            ("authenticator", flipped, "does not prove this approval"),
            ("client", flipped, "does not prove this approval"),
            ("nonce", lambda _: "another", "what was signed is another approval"),
            ("enrolment", lambda _: "0" * 64, "the log of keys has no such enrolment"),
        ],
    )
    def test_changed_proof_is_named_even_with_a_forged_chain(
        self,
        recorded: Path,
        kind: str,
        member: str,
        value: Callable[[str], str],
        message: str,
    ) -> None:
        """The report names session, event and mismatch: a chain can be forged, a signature cannot."""

        def change(found: str, body: dict[str, Any]) -> None:
            if found == kind:
                body["proof"][member] = value(body["proof"][member])

        rewrite(recorded, change)
        found = check(recorded)
        assert found.fault is None
        first = found.unproved[0]
        assert message in first.message
        assert f"event {first.seq} ({kind})" in first.message
        assert ("maria" if kind == "approval.given" else "ada") in first.message

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"by": "ben"}, "what was signed is another approval, or that of another person"),
            ({"digest": "0" * 64}, "approved something else than was shown"),
            ({"proof": None}, "ada approved without the passkey that its rule asks for"),
        ],
    )
    def test_changed_decision_or_removed_proof_is_reported(
        self, recorded: Path, change: dict[str, Any], message: str
    ) -> None:
        """A changed operator or digest, or a removed proof, is reported."""
        rewrite(recorded, lambda k, b: b.update(change) if k == "approval.decided" else None)
        found = check(recorded)
        assert found.fault is None
        assert message in found.unproved[0].message
        assert "2 must approve with a passkey, and 1 proved one" in found.unproved[-1].message

    @pytest.mark.parametrize(
        ("kind", "change", "message"),
        [
            ("approval.requested", {"input": {"env": "dev"}}, "another call, or of other rules"),
            ("approval.requested", {"called": "rm", "tool": "rm"}, "another call, or of other rules"),
            ("approval.requested", {"names": ["rm"]}, "another call, or of other rules"),
            ("approval.requested", {"people": 1}, "another call, or of other rules"),
            ("approval.requested", {"rules_digest": "0" * 64}, "another call, or of other rules"),
            ("approval.requested", {"rules_digest": None}, "the hash of its rules is missing"),
            ("approval.requested", {"approvers": None}, "nobody approved it with the passkey"),
            ("approval.decided", {"input": {"env": "dev"}}, "approved another input than was shown"),
            ("approval.decided", {"approved": False}, "nobody approved it with the passkey"),
            ("approval.decided", {"approval_id": "another"}, "nobody approved it with the passkey"),
            ("approval.decided", {"groups": 7}, "nobody approved it with the passkey"),
            ("call.decided", {"input": {"env": "dev"}}, "ran with another input than was approved"),
        ],
    )
    def test_proof_must_match_requested_and_executed_call(
        self, recorded: Path, kind: str, change: dict[str, Any], message: str
    ) -> None:
        """A valid proof must match the call of its request and the call that ran (G-107)."""
        rewrite(recorded, lambda k, b: b.update(change) if k == kind else None)
        found = check(recorded)
        assert found.fault is None
        assert any(message in each.message for each in found.unproved)

    def test_call_with_blanked_approval_is_reported(self, recorded: Path) -> None:
        """A call whose approval events were blanked, with their numbers kept, is reported."""

        def change(kind: str, body: dict[str, Any]) -> None:
            if kind.startswith("approval."):
                body.clear()
                body.update(type=kind)

        rewrite(recorded, change)
        [fault] = check(recorded).unproved
        assert "(call.decided): deploy was allowed, and nobody approved it" in fault.message

    def test_proof_copied_to_another_operator_is_invalid(self, recorded: Path) -> None:
        """A proof that is copied into another operator's approval is invalid there."""
        proofs: list[Any] = []

        def change(kind: str, body: dict[str, Any]) -> None:
            if kind == "approval.given":
                proofs.append(body["proof"])
            if kind == "approval.decided":
                body["proof"] = proofs[0]

        rewrite(recorded, change)
        assert "does not prove this approval" in check(recorded).unproved[0].message

    @pytest.mark.sqlite("the file of a log")
    def test_removed_key_log_invalidates_proofs(self, recorded: Path) -> None:
        """A removed key log is detected: its proofs no longer verify."""
        KeyLog(recorded).lines.path.unlink()
        found = check(recorded)
        assert len(found.unproved) == 3
        assert "the log of keys has no such enrolment" in found.unproved[0].message

    def test_an_export_is_checked_without_the_log(self, recorded: Path, tmp_path: Path) -> None:
        """Signature, challenge and operator are checked, even if the inputs are masked."""
        session = check(recorded).session
        lines = as_jsonl(session, linked_events(recorded, session), Redaction().body)
        file = tmp_path / "s.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        found = read_export(file).check
        assert (found.proofs, found.unproved, found.fault) == (2, (), None)


class TestMasked:
    """A masked export has no digest that would let an attacker guess a short secret."""

    @pytest.fixture
    async def pin(self, tmp_path: Path) -> tuple[Path, str]:
        """A journal with a request whose input has a short secret, and its session."""
        path = tmp_path / "journal.db"
        hub = Hub(Journal.open(path))
        events = hub.subscribe()
        agent = bot(Shop(), C(deploy={"env": "password=4711"}), T("done"))
        rules = compile_rules("require human-approval before deploy").registry
        session = await hub.open_session(agent, SessionConfig(rules))
        await hub.send(session, "go", by="ben")
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        assert (await hub.decide(request.id, approved=True, by="maria", digest=request.digest)).ok
        await until(events, CallResult)
        await hub.close()
        return path, session

    @staticmethod
    def requested(path: Path, session: str, mask: Redaction | None) -> dict[str, Any]:
        """Return the request's body as an export has it."""
        lines = as_jsonl(session, linked_events(path, session), mask and mask.body)
        bodies = (json.loads(line).get("body") for line in lines)
        return next(each for each in bodies if each and each["type"] == "approval.requested")

    @staticmethod
    def made_again(session: str, body: dict[str, Any], password: str) -> str:
        """Return the digest that a reader of the export computes from a guess."""
        return request_digest(
            session=session,
            call_id=body["call_id"],
            called=body["called"],
            arguments={"env": f"password={password}"},
            names=body["names"],
            tool=body["tool"],
            net=body["net"],
            transition=body["transition"],
            people=body["people"],
            rules=body["rules_digest"],
            salt=body["digest_salt"],
        )

    def test_correct_guess_without_salt_cannot_be_confirmed(self, pin: tuple[Path, str]) -> None:
        """Without the salt, even the right secret does not reproduce the digest."""
        path, session = pin
        masked = self.requested(path, session, Redaction())
        assert masked["digest_salt"] is None
        assert "4711" not in str(masked["input"])
        assert self.made_again(session, masked, "4711") != masked["digest"]

    def test_unmasked_export_suffices_to_compute_the_digest(self, pin: tuple[Path, str]) -> None:
        """An unmasked export has the salt, so the digest can be computed from the input."""
        path, session = pin
        whole = self.requested(path, session, None)
        assert self.made_again(session, whole, "4711") == whole["digest"]
        assert self.made_again(session, whole, "4712") != whole["digest"]

    def test_masked_file_and_journal_verify(self, pin: tuple[Path, str], tmp_path: Path) -> None:
        """The masked file and the journal both verify."""
        path, session = pin
        file = tmp_path / "s.jsonl"
        lines = as_jsonl(session, linked_events(path, session), Redaction().body)
        file.write_text("".join(f"{line}\n" for line in lines))
        found = read_export(file).check
        assert found.fault is None
        assert found.masked > 0
        assert check(path).fault is None
        assert "digest_salt" in CONTENT
