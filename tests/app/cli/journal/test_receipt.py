"""`interlock history receipt`, `verify-receipt`, and the export for security tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import (
    ApprovalDecided,
    CallDecided,
    CallResult,
    MessageAdded,
)
from interlock.engine.history.model.records import CallRecord
from tests.engine.history.support.keeping import tamper
from tests.engine.history.support.recording import opening
from tests.support.postgres import remove_journal

from .journal_shell import ID, Shell

SESSION = "shop"
SECRET = {"env": "prod", "password": "hunter2"}


@pytest.fixture
def decided(shell: Shell) -> Shell:
    """A session with an approved deploy, and another call whose input must stay private."""

    def call(call_id: str, tool: str, **given: str) -> MessageAdded:
        made = CallRecord(call_id=call_id, tool=tool, input={**given})
        return MessageAdded(role="assistant", calls=(made,))

    def decision(call_id: str, tool: str, by: tuple[str, ...], **given: str) -> CallDecided:
        return CallDecided(
            call_id=call_id,
            tool=tool,
            input={**given},
            names=(tool,),
            outcome="allow",
            mode="enforce",
            approved_by=by,
        )

    with Journal.open(Path("journal.db")) as journal:
        journal.write(
            SESSION,
            opening(),
            call("d1", "deploy", **SECRET),
            call("t1", "test", path="/srv/private"),
            decision("t1", "test", (), path="/srv/private"),
            ApprovalDecided(approval_id="a1", call_id="d1", approved=True, by="maria", reason="fine"),
            decision("d1", "deploy", ("maria",), **SECRET),
            CallResult(call_id="d1", tool="deploy", output="done", is_error=False),
            MessageAdded(role="user", text="thanks"),
        )
    return shell


def receipt(shell: Shell, *words: str) -> dict[str, object]:
    """Return a receipt, and save it as `r.json`."""
    text = shell.run("receipt", SESSION, "d1", *words)
    Path("r.json").write_text(text)
    found: dict[str, object] = json.loads(text)
    return found


class TestReceipt:
    def test_is_verified_without_the_journal(self, decided: Shell) -> None:
        """A receipt says who decided what, and can be verified without the journal."""
        receipt(decided)
        remove_journal(decided.database)
        said = decided.run("verify-receipt", "r.json")
        assert "deploy: allowed, approved by maria" in said
        assert "which is known here" in said

    @pytest.mark.slow
    def test_has_no_more_than_the_call(self, decided: Shell) -> None:
        """A receipt masks secrets, and has no inputs or texts of other events."""
        text = json.dumps(receipt(decided))
        assert "hunter2" not in text
        assert "/srv/private" not in text
        assert "thanks" not in text
        assert "hunter2" in json.dumps(receipt(decided, "--unmasked"))
        assert "which is known here" in decided.run("verify-receipt", "r.json")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"maria"', '"ben"'),
            ('"allow"', '"block"'),
            ('"d1"', '"d2"'),
            ('"shop"', '"bank"'),
            ('"prod"', '"test"'),
            ('"imported": false', '"imported": true'),
        ],
    )
    def test_changed_receipt_is_refused(self, decided: Shell, old: str, new: str) -> None:
        """A receipt with another approver, outcome, call, session or input is refused."""
        receipt(decided)
        text = Path("r.json").read_text()
        assert old in text
        Path("r.json").write_text(text.replace(old, new))
        decided.run("verify-receipt", "r.json", code=1)

    @pytest.mark.parametrize("left", [slice(1, None), slice(None, -1)])
    def test_cut_receipt_is_refused(self, decided: Shell, left: slice) -> None:
        """A receipt without its first or last event is refused."""
        found = receipt(decided)
        events = found["events"]
        assert isinstance(events, list)
        Path("r.json").write_text(json.dumps({**found, "events": events[left]}))
        decided.run("verify-receipt", "r.json", code=1)

    @pytest.mark.slow
    def test_unknown_key_requires_trust_option(
        self, decided: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On another machine the receipt is accepted only if its key is named with `--trust`."""
        receipt(decided)
        monkeypatch.setenv("INTERLOCK_CONFIG_DIR", "other")
        assert "not known here" in decided.run("verify-receipt", "r.json", code=1)
        decided.run("verify-receipt", "r.json", "--trust", "config/journal-key.pem")

    @pytest.mark.slow
    def test_matches_only_export_of_its_session(self, decided: Shell) -> None:
        """A receipt matches an export of its session, and no export of another session."""
        receipt(decided)
        decided.run("export", SESSION, "-o", "s.jsonl")
        decided.run("export", ID, "-o", "other.jsonl")
        decided.run("verify-receipt", "r.json", "--against", "s.jsonl")
        decided.run("verify-receipt", "r.json", "--against", "other.jsonl", code=1)

    def test_call_without_decision_has_no_receipt(self, decided: Shell) -> None:
        """A call without a decision has no receipt."""
        decided.run("receipt", SESSION, "d9", code=2)

    def test_changed_session_gets_no_receipt(self, decided: Shell) -> None:
        """A session that was changed gets no receipt."""
        tamper(Path("journal.db"), "UPDATE event SET body = replace(body, 'thanks', 'no')")
        decided.run("receipt", SESSION, "d1", code=2)


class TestOcsf:
    def test_one_activity_for_each_event(self, decided: Shell) -> None:
        """Each event is exported as an API activity with its chain, and secrets are masked."""
        lines = decided.run("export", SESSION, "--format", "ocsf").splitlines()
        found = [json.loads(each) for each in lines]
        assert [each["metadata"]["sequence"] for each in found] == list(range(1, 9))
        required = {"activity_id", "actor", "api", "category_uid", "class_uid", "metadata"}
        required |= {"severity_id", "src_endpoint", "time", "type_uid"}
        for each in found:
            assert required <= each.keys()
            assert each["type_uid"] == each["class_uid"] * 100 + each["activity_id"]
            assert each["metadata"]["version"] == "1.3.0"
        chain = [each["unmapped"]["interlock"] for each in found]
        assert [each["prev"] for each in chain[1:]] == [each["hash"] for each in chain[:-1]]
        [deploy] = [each for each in found if each["api"]["operation"] == "deploy" and "action" in each]
        assert deploy["actor"]["user"]["name"] == "maria"
        assert deploy["action"] == "Allowed"
        assert "hunter2" not in "".join(lines)
