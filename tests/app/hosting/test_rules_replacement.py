"""Rules of a running server that operators replace: required approvers and refusals (G-67)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from interlock.app.hosting.live_rules import LiveRules
from interlock.app.hosting.rules_replacement import OperatorTerms, ReplaceableRules
from interlock.app.hosting.server import HubStarter
from interlock.app.sessions.server_rules import ServerRules
from interlock.engine.approvals.policy import Credential
from interlock.engine.core.approvers import Operator
from interlock.engine.gateway.server.rule_sets import RuleSets
from interlock.engine.history.database.location import PostgresLocation
from interlock.engine.hub.api import Outcome, RunningRules

from ...engine.gateway.cluster.support.hubs import hub_on

PLAIN = "block rm\nlimit push to 3 per session\n"
GUARDED = "require human-approval before deploy risk high\nblock rm\n"
PAIR = "require human-approval before deploy by 2\nblock rm\n"
LAX = "block mkfs\n"


class Desk:
    """Operators of one server's rules, with tokens that can be revoked and an adjustable clock."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file = folder / "server.rules"
        self.file.write_text(text)
        self.revoked: set[str] = set()
        self.groups: dict[str, tuple[str, ...]] = {}
        self.now = datetime(2026, 11, 23, 12, tzinfo=UTC)
        self.judging: list[tuple[str, ...]] = []
        live = cast("LiveRules", None)
        self.rules = ReplaceableRules(
            ServerRules([str(self.file)]), "enforce", self, live, lambda: self.now
        )

    # The rules for external agents.

    def compiled(self, rules: ServerRules) -> RuleSets:
        return RuleSets.of(rules.nets)

    def commit(self, sets: RuleSets) -> None:
        self.judging.append(sets.keys)

    def rules_of(self, session_id: str) -> Sequence[str] | None:
        raise AssertionError("no session is live")

    @property
    def running(self) -> RunningRules:
        return self.rules.running()

    @property
    def keys(self) -> list[str]:
        return list(self.rules.rules.nets)

    async def apply(
        self, by: str, text: str, reason: str = "", *, name: str = "server.rules", against: str = ""
    ) -> Outcome:
        """Send these rules as an operator, compared with the current ones."""
        operator = Operator(by, groups=self.groups.get(by, ()))
        credential = Credential(f"token-{by}", lambda token, _: token not in self.revoked, operator)
        return await self.rules.apply(
            {name: text}, against or self.running.digest, OperatorTerms(by, reason, credential)
        )


class TestOneOperator:
    async def test_stricter_rules_need_no_reason(self, tmp_path: Path) -> None:
        """Stricter rules need no reason and apply to all agents that start later."""
        desk = Desk(tmp_path, PLAIN)
        reply = await desk.apply("ada", PLAIN + "block mkfs\n")
        assert reply.ok, reply.message
        assert "+ block-mkfs: block mkfs" in reply.message
        assert desk.judging == [("block-rm", "limit-push-3", "block-mkfs")] == [tuple(desk.keys)]
        assert desk.running.applied is not None
        assert (desk.running.applied.by, desk.running.applied.others) == ("ada", ())

    @pytest.mark.parametrize(
        "text",
        [
            "block rm\n",
            "block rm\nlimit push to 4 per session\n",
            PLAIN + "map bash.command git as push\n",
        ],
        ids=["gone", "changed", "maps"],
    )
    async def test_loosened_rules_need_a_reason(self, tmp_path: Path, text: str) -> None:
        """A removed or changed rule, and other maps, need a reason, which is kept."""
        desk = Desk(tmp_path, PLAIN)
        refused = await desk.apply("ada", text)
        assert (refused.ok, refused.needs_reason) == (False, True)
        assert "limit-push-3" in refused.message
        assert desk.judging == []
        assert (await desk.apply("ada", text, "too strict")).ok
        assert desk.running.applied is not None
        assert desk.running.applied.reason == "too strict"

    async def test_taking_calls_from_a_rule_needs_a_reason(self, tmp_path: Path) -> None:
        """A new rule for a tool takes its calls out of `anything-else`, which needs a reason (G-66)."""
        desk = Desk(tmp_path, "block anything-else\n")
        refused = await desk.apply("ada", "block anything-else\nlimit push to 3 per session\n")
        assert (refused.ok, refused.needs_reason) == (False, True)


class TestSeveralOperators:
    @pytest.mark.parametrize(("text", "people"), [(GUARDED, 2), (PAIR, 3)])
    async def test_one_more_operator_than_the_rule_requires(
        self, tmp_path: Path, text: str, people: int
    ) -> None:
        """One operator more is needed, because the replacing one may start the next session."""
        desk = Desk(tmp_path, text)
        for number, name in enumerate(("ada", "ben", "cleo")[:people]):
            assert desk.keys[0] == "approve-before-deploy"
            assert (desk.running.proposed is None) == (number == 0)
            assert (await desk.apply(name, LAX, "emergency")).ok
        assert desk.keys == ["block-mkfs"]
        assert desk.running.applied is not None
        assert desk.running.applied.others == ("ada", "ben", "cleo")[: people - 1]
        assert desk.running.proposed is None

    @pytest.mark.parametrize("again", ["ada", "ADA", "\uff21da", "a\u200bda"])
    async def test_name_variants_count_as_one_operator(self, tmp_path: Path, again: str) -> None:
        """Variants of an operator's name count as one operator."""
        desk = Desk(tmp_path, GUARDED)
        await desk.apply("ada", LAX, "emergency")
        assert not (await desk.apply(again, LAX, "emergency")).ok
        assert "approve-before-deploy" in desk.keys

    async def test_only_group_members_can_agree(self, tmp_path: Path) -> None:
        """Only members of a rule's group can propose to loosen it, or agree."""
        desk = Desk(tmp_path, "require human-approval before deploy of security\nblock rm\n")
        desk.groups = {"ada": ("security",), "maria": ("dba", "security")}
        other = "require human-approval before deploy of dba\nblock rm\n"
        refused = await desk.apply("ben", other, "emergency")
        assert "rules of security, and ben is not in it" in refused.message
        assert desk.running.proposed is None
        assert (await desk.apply("ada", other, "emergency")).ok
        assert not (await desk.apply("ben", other, "emergency")).ok
        assert desk.running.applied is None
        assert (await desk.apply("maria", other, "emergency")).ok
        assert desk.running.applied is not None

    async def test_revoked_token_cannot_agree(self, tmp_path: Path) -> None:
        """A revoked token cannot agree, and its earlier agreement no longer counts."""
        desk = Desk(tmp_path, GUARDED)
        await desk.apply("ada", LAX, "emergency")
        desk.revoked.add("token-ben")
        assert "revoked" in (await desk.apply("ben", LAX, "emergency")).message
        desk.revoked.add("token-ada")
        assert "ada no longer counts" in (await desk.apply("cleo", LAX, "emergency")).message
        assert desk.running.proposed is None
        assert desk.judging == []

    async def test_agreement_to_other_rules_is_refused(self, tmp_path: Path) -> None:
        """An operator cannot agree to other rules than those proposed. A proposal can be withdrawn."""
        desk = Desk(tmp_path, GUARDED)
        await desk.apply("ada", LAX, "emergency")
        assert "has proposed other rules" in (await desk.apply("ben", "block dd\n", "x")).message
        assert not (await desk.rules.drop("")).ok
        assert (await desk.rules.drop("ben")).ok
        assert "Proposed" in (await desk.apply("ben", "block dd\n", "x")).message

    async def test_proposal_expires(self, tmp_path: Path) -> None:
        """A proposal expires after a quarter of an hour."""
        desk = Desk(tmp_path, GUARDED)
        await desk.apply("ada", LAX, "emergency")
        desk.now += timedelta(minutes=15)
        assert "Proposed" in (await desk.apply("ben", LAX, "emergency")).message
        assert "approve-before-deploy" in desk.keys

    async def test_outdated_replacement_is_refused(self, tmp_path: Path) -> None:
        """A replacement that was compared with outdated rules is refused."""
        desk = Desk(tmp_path, PLAIN)
        before = desk.running.digest
        assert (await desk.apply("ada", PLAIN + "block mkfs\n")).ok
        assert "compare again" in (await desk.apply("ben", PLAIN, "x", against=before)).message


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "said"),
        [("blok rm\n", "server.rules:1:1"), ("limit push to x per session\n", "server.rules:1:15")],
    )
    async def test_rules_that_do_not_compile(self, tmp_path: Path, text: str, said: str) -> None:
        """Rules with an error are refused completely, with the error's place."""
        desk = Desk(tmp_path, PLAIN)
        reply = await desk.apply("ada", text, "x")
        assert not reply.ok
        assert said in reply.message
        assert (desk.keys, desk.judging) == (["block-rm", "limit-push-3"], [])

    async def test_rules_unusable_for_external_agents(self, tmp_path: Path) -> None:
        """If the rules for external agents cannot be replaced, no rules are replaced."""
        desk = Desk(tmp_path, PLAIN)

        def fails(*_: object) -> object:
            raise ValueError("a set of the working directory takes its calls")

        desk.compiled = fails  # type: ignore[method-assign,assignment]
        reply = await desk.apply("ada", PLAIN + "block mkfs\n")
        assert "a set of the working directory" in reply.message
        assert desk.keys == ["block-rm", "limit-push-3"]
        assert desk.running.applied is None

    async def test_two_files_of_one_name(self, tmp_path: Path) -> None:
        """Two files with the same name are refused as ambiguous."""
        desk = Desk(tmp_path, PLAIN)
        files: Mapping[str, str] = {"a/server.rules": PLAIN, "b/server.rules": PLAIN}
        reply = await desk.rules.apply(files, desk.running.digest, OperatorTerms("ada", "x"))
        assert "two files are named server.rules" in reply.message

    async def test_without_a_name(self, tmp_path: Path) -> None:
        """A replacement without an operator's name is refused."""
        desk = Desk(tmp_path, PLAIN)
        reply = await desk.rules.apply({"server.rules": LAX}, desk.running.digest, OperatorTerms("", "x"))
        assert not reply.ok


class TestOneOfSeveralServers:
    @pytest.mark.slow
    async def test_names_the_others(self, tmp_path: Path, postgresql: PostgresLocation) -> None:
        """Each server has rules of its own: the answer says where else they have to be applied."""
        file = tmp_path / "server.rules"
        file.write_text(PLAIN)
        hubs = [await hub_on(postgresql) for _ in range(2)]
        try:
            hubs[1].name_server("ws://10.0.0.2:8737")
            starter = HubStarter(hubs[0], [str(file)])
            against = (await starter.running_rules()).digest
            credential = Credential("token", lambda *_: True, Operator("ada"))
            applied = await starter.apply_rules(
                {file.name: PLAIN + "block mkfs\n"}, by="ada", against=against, credential=credential
            )
            assert applied.ok, applied.message
            assert "Apply them at ws://10.0.0.2:8737 as well" in applied.message
        finally:
            for each in reversed(hubs):
                await each.close()
        alone = await hub_on(postgresql)
        try:
            starter = HubStarter(alone, [str(file)])
            against = (await starter.running_rules()).digest
            applied = await starter.apply_rules(
                {file.name: PLAIN + "block mkfs\n"}, by="ada", against=against, credential=credential
            )
            assert applied.ok, applied.message
            assert "Apply them at" not in applied.message
        finally:
            await alone.close()
