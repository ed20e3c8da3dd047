"""Changes by operators are listed with the decisions: operator, kind and text."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.engine.history.audit.export import as_csv, as_jsonl, linked_events
from interlock.engine.history.audit.importing import import_session, read_export
from interlock.engine.history.database.compiled import DecisionLine
from interlock.engine.history.decisions.counts import count_decisions, shadow_summary
from interlock.engine.history.decisions.filter import EVERYTHING, FilterError, parse_filter
from interlock.engine.history.decisions.index import decisions_of
from interlock.engine.history.decisions.reader import Decision, DecisionReader
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.journal.maintenance import index_mismatches, rebuild
from interlock.engine.history.model.events import (
    ApprovalExtended,
    CallDecided,
    ChangeAgreed,
    ChangeDropped,
    ChangeProposed,
    EventBody,
    GrantGiven,
    GrantRevoked,
    LimitRaised,
    ModeChanged,
    NetToggled,
    SessionResumed,
)
from interlock.engine.history.model.records import ExtensionRecord, GrantRecord
from interlock.engine.recording.records import net_record
from tests.support.raw_database import plan_of, raw_database

from ..support.recording import NOON, approval, decided, opening, recorded, request, sequence

NET = sequence("test", "deploy")
ASKS = approval("deploy")
KEY = ASKS.name
GRANT = GrantRecord(
    key="grant-1",
    net=net_record("grant-1", approval("deploy")),
    asks=KEY,
    asked="deploy",
    tool="bash",
    names=("deploy",),
    uses=20,
    since=0.0,
)


def off(by: str = "ada", **more: object) -> NetToggled:
    """Return the event of a net that is switched off."""
    given = {"net": KEY, "active": False, "by": by, "message": "off", "reason": "noise", **more}
    return NetToggled.model_validate(given)


def proposal(net: str | None = KEY) -> ChangeProposed:
    return ChangeProposed(
        change_id="x1", net=net, by="ada", reason="noise", people=2, expires=NOON, counts=True
    )


def listed(*bodies: EventBody, **fields: object) -> list[DecisionLine]:
    """Return the lines of a session with two nets and these events."""
    return decisions_of(recorded(opening(NET, ASKS, **fields), *bodies))


def words(*bodies: EventBody, **fields: object) -> tuple[object, ...]:
    """Return kind, verdict, operators, net and text of the last line."""
    line = listed(*bodies, **fields)[-1]
    return line.kind, line.verdict, line.by, line.net, line.input


class TestWords:
    def test_net_switched_off_has_operators_deadline_and_reason(self) -> None:
        """The line has all operators who agreed, the deadline, the waiting calls and the reason."""
        until = NOON + timedelta(minutes=10)
        change = off("ben", others=("ada",), until=until, waiting=("c1", "c2"))
        said = f"{KEY} off until 2026-03-14 12:10:00 UTC, 2 waited for approval then: noise"
        assert words(change) == ("toggle", "changed", "ada, ben", KEY, said)

    def test_timed_switch_back_names_its_operator(self) -> None:
        """A switch back by time is shown as such, with the operator who set the time."""
        back = NetToggled(net=KEY, active=True, by="ada", message="on", timed=True)
        assert words(off(), back)[-1] == f"{KEY} on again, its time is over"

    def test_mode_change_has_the_new_mode(self) -> None:
        """The line has the new mode."""
        change = ModeChanged(mode="shadow", by="ada", reason="noise")
        assert words(change) == ("mode", "changed", "ada", None, "shadow mode: noise")
        assert listed(change)[0].mode == "shadow"

    def test_proposal_agreement_and_rejection_are_lines(self) -> None:
        """Proposal, agreement and rejection are lines of the net that they concern."""
        found = listed(
            proposal(),
            ChangeAgreed(change_id="x1", by="ben"),
            ChangeDropped(change_id="x1", reason="too late", by="cy"),
        )
        assert [(line.verdict, line.by, line.net) for line in found] == [
            ("proposed", "ada", KEY),
            ("agreed", "ben", KEY),
            ("dropped", "cy", KEY),
        ]
        assert found[0].input == f"{KEY} off, takes 2: noise"
        assert words(proposal(None))[:2] == ("mode", "proposed")

    def test_raised_limit_shows_earlier_value(self) -> None:
        """A raised limit shows its earlier value."""
        change = LimitRaised(max_cost=5, by="ada", reason="more to do")
        assert words(change, max_cost=1.0)[-1] == "cost limit $5.00 (was $1.00): more to do"

    def test_grant_names_calls_and_net(self) -> None:
        """A grant's line has the calls that it allows, and the net whose approval it replaces."""
        given = GrantGiven(grant=GRANT, by="ada", call_id="c1")
        assert words(given)[:4] == ("grant", "changed", "ada", KEY)
        assert words(given)[-1] == "grant-1 given: bash as deploy, 20 times"
        why = GrantGiven(grant=GRANT, by="ada", call_id="c1", reason="release night")
        assert words(why)[-1] == "grant-1 given: bash as deploy, 20 times: release night"
        assert words(given, GrantRevoked(key="grant-1", by="ben"))[2:] == ("ben", None, "grant-1 revoked")

    def test_extension_is_a_line_of_the_requesting_net(self) -> None:
        """An extension of a request is a line of the net that asked."""
        asked = request("ap", "c1", "deploy")
        longer = ApprovalExtended(approval_id="ap", call_id="c1", until=NOON, by="ada")
        kind, state, by, net, said = words(asked, longer)
        assert (kind, state, by, net) == ("extension", "changed", "ada", asked.net)
        assert said == "request of call c1 may wait until 2026-03-14 12:00:00 UTC"
        wanted = longer.model_copy(update={"proposed": ExtensionRecord(until=None, by="ada")})
        assert words(asked, wanted)[1] == "proposed"

    def test_resumption_under_other_rules_lists_differences(self) -> None:
        """The line lists the differences; a resumption without differences has no line."""
        same = SessionResumed(agent="bot", model="m", mode="enforce", active=(NET.name, KEY), by="ada")
        assert listed(same) == []
        other = same.model_copy(
            update={"mode": "shadow", "active": (NET.name,), "dropped": (KEY,), "max_cost": 2.0}
        )
        kind, _, by, _, said = words(other)
        assert (kind, by) == ("rules", "ada")
        assert said == (
            f"resumed with shadow mode (was enforce); dropped: {KEY}; cost limit $2.00 (was none)"
        )

    def test_subagent_session_has_its_own_line(self) -> None:
        """A change in a subagent's session has a line there, although its calls have none."""
        found = listed(decided("c1", "deploy"), off(), kind="child", parent="s0")
        assert [line.kind for line in found] == ["toggle"]


class TestOff:
    def test_shadow_mode_names_the_operator_who_set_it(self) -> None:
        """A call that enforce mode would have stopped names the operator who set shadow mode."""
        stopped = decided("c1", "deploy", outcome="block", mode="shadow", net=NET.name)
        found = listed(ModeChanged(mode="shadow", by="ben", others=("ada",)), stopped)
        assert found[-1].off == "shadow mode: ada, ben"
        assert listed(stopped, mode="shadow", opened_by="cy")[-1].off == "shadow mode, from the start: cy"

    def test_call_allowed_by_enforce_has_no_note(self) -> None:
        """In shadow mode, a call that enforce mode would also allow has no such note."""
        assert listed(decided("c1", "test", mode="shadow"), mode="shadow")[-1].off is None


BODIES: tuple[EventBody, ...] = (
    decided("c1", "deploy", approved_by=("Ada",)),
    off("ada"),
    CallDecided.model_validate({**decided("c2", "deploy").model_dump(), "off": {KEY: ("ada",)}}),
    decided("c3", "test", outcome="block", net=NET.name),
    LimitRaised(max_cost=5, by="adam"),
    ModeChanged(mode="shadow", by="ben"),
    decided("c4", "deploy", outcome="ask", mode="shadow", net=KEY),
    GrantGiven(grant=GRANT, by="ben"),
    SessionResumed(agent="bot", model="m", mode="enforce", active=(NET.name,), by="cy"),
)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with decisions and changes by operators."""
    path = tmp_path / "j.db"
    with Journal.open(path) as opened:
        opened.write("s1", opening(NET, ASKS))
        for body in BODIES:
            opened.write("s1", body)
    return path


def found_lines(path: Path, text: str) -> list[Decision]:
    """Return the lines that a filter finds, oldest first."""
    reader, wanted = DecisionReader(path), parse_filter(text, now=NOON)
    parts = reader.scan(wanted).parts
    return [line for part in reversed(parts) for line in reversed(reader.read(wanted, part))]


def ids_and_kinds(lines: Iterable[Decision]) -> str:
    """Return the ids of calls and the kinds of changes."""
    return " ".join(line.call_id if line.kind == "call" else line.kind for line in lines)


class TestFilter:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "c1 toggle c2 c3 limit mode c4 grant rules"),
            ("kind:call", "c1 c2 c3 c4"),
            ("kind:change", "toggle limit mode grant rules"),
            ("kind:toggle kind:mode", "toggle mode"),
            ("by:ada", "c1 toggle c2"),
            ("by:ADA kind:change", "toggle"),
            ("by:\N{FULLWIDTH LATIN SMALL LETTER A}da kind:toggle", "toggle"),
            ("by:ad", "c1 toggle c2 limit"),
            ("by:nobody", ""),
            ("by:ben by:cy", "mode c4 grant rules"),
            (f"rule:{KEY} kind:change", "toggle grant"),
            ("verdict:changed kind:limit", "limit"),
            ("verdict:allow", "c2"),
            ("tool:bash kind:grant", "grant"),
            ("noise", "toggle"),
        ],
    )
    def test_kinds_and_operators_match_by_name(self, journal: Path, text: str, expected: str) -> None:
        """Kinds match by name; operators match by full name first, ignoring case."""
        assert ids_and_kinds(found_lines(journal, text)) == expected

    def test_unknown_kind_is_an_error(self) -> None:
        """An unknown kind is an error that lists the known ones."""
        with pytest.raises(FilterError, match="'net' is not a kind; use change, call, toggle, mode"):
            parse_filter("kind:net", now=NOON)

    def test_changes_are_found_by_index(self, journal: Path) -> None:
        """Changes among many calls are found by index."""
        select = "SELECT cursor FROM decision WHERE kind IN ('toggle') AND kind <> 'call' AND at >= 0"
        assert "ix_decision_kind" in plan_of(journal, select)


class TestCounts:
    def test_leave_out_changes(self, journal: Path) -> None:
        """Counts and the shadow summary leave out changes."""
        counts = count_decisions(journal, EVERYTHING, by="rule")
        assert counts.total.count == 4
        assert sum(group.count for group in counts.groups) == 4
        summary = shadow_summary(journal)
        assert (summary.calls, [s.calls for s in summary.sessions]) == (1, [1])


class TestJournal:
    @pytest.mark.parametrize(
        "change", ["DELETE FROM decision WHERE kind <> 'call'", "UPDATE decision SET \"by\" = 'eve'"]
    )
    def test_missing_change_is_detected_and_restored(self, journal: Path, change: str) -> None:
        """A change that is missing from the list is detected and restored from the events."""
        lines = found_lines(journal, "")
        with closing(raw_database(journal)) as connection:
            connection.execute(change)
            connection.commit()
        assert list(index_mismatches(journal)) == ["s1"]
        assert rebuild(journal).decisions
        assert found_lines(journal, "") == lines

    def test_exported_session_includes_its_changes(self, journal: Path, tmp_path: Path) -> None:
        """An exported session includes its changes."""
        file, other = tmp_path / "s1.jsonl", tmp_path / "other.db"
        file.write_text("\n".join(as_jsonl("s1", linked_events(journal, "s1"), None)))
        import_session(read_export(file), other, other.with_suffix(".pem"))
        assert [line.input for line in found_lines(other, "")] == [
            line.input for line in found_lines(journal, "")
        ]
        assert list(index_mismatches(other)) == []

    def test_csv_has_kind_operator_and_note(self, journal: Path) -> None:
        """The CSV has kind, operator and the `off` note of each decision and change."""
        rows = list(csv.DictReader(as_csv(linked_events(journal, "s1"), None)))
        said = [(row["kind"], row["by"], row["off"]) for row in rows if row["kind"]]
        assert said == [(line.kind, line.by or "", line.off or "") for line in found_lines(journal, "")]
