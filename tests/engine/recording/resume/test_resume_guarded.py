"""G-67: an operator alone cannot remove a guarded rule by resuming or branching its session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agents import T
from interlock.engine.history.fold.fold import fold
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.events import NetToggled, SessionOpened, event_body
from interlock.engine.hub.hub import Hub, ResumeError
from interlock.engine.net.net import SkillNet
from interlock.engine.recording.resume_checks import check_no_looser, guarded, standing
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules

from ...sessions.test_switching import NO_GRANTS, REGISTRY, RISK, RULES, TWO, Watch, off
from ...support.shop import Shop, bodies, bot, check

MAP, STRICT = "map deploy.env prod as prod_deploy", "require 2 human-approvals before prod_deploy"


def rules(text: str) -> Mapping[str, SkillNet]:
    return compile_rules(text).registry


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def hub(tmp_path: Path, watch: Watch) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=watch))
    yield hub
    await hub.close()


def _without_name_maps(opened: SessionOpened) -> SessionOpened:
    nets = tuple(net.model_copy(update={"name_maps": None}) for net in opened.nets)
    return opened.model_copy(update={"nets": nets})


async def ended(hub: Hub, shop: Shop, **terms: Any) -> str:
    """A session that carl started under `RULES` and ended."""
    agent = bot(shop, T("ok"))
    session = await hub.open_session(agent, SessionConfig(REGISTRY, by="carl", **terms), session_id="s1")
    await hub.close_session(session, by="carl")
    return session


WITHOUT = [net for net in REGISTRY if net != TWO]
LOOSER = {
    "shadow": {"mode": "shadow"},
    "not active": {"active": WITHOUT},
    "nothing active": {"active": []},
    "no rules": {"registry": {}, "nets": "changed"},
    "left out": {"registry": {k: REGISTRY[k] for k in WITHOUT}, "nets": "changed"},
    "one person": {
        "registry": rules(RULES.replace("2 human-approvals", "human-approval")),
        "nets": "changed",
    },
    "grants": {"registry": rules(RULES.replace("risk high no grants", "risk high"))},
    "low risk": {"registry": rules(RULES.replace("before publish risk high", "before publish"))},
    "a condition": {
        "registry": rules(RULES.replace("no grants\n", 'no grants when input.env = "x"\n', 1)),
        "nets": "changed",
    },
    "no map": {"registry": rules(RULES.replace(MAP, ""))},
    "another map": {"registry": rules(RULES.replace("env prod", "env production"))},
    "its tool taken for another": {"registry": rules(f"map Deploy.env x as y\n{RULES}")},
}


@pytest.mark.parametrize("how", LOOSER)
@pytest.mark.parametrize("by", ["carl", "ada"])
class TestRefused:
    """Loosening the record's rules needs other operators first, for any operator who resumes."""

    async def test_resume_without_the_rule(self, hub: Hub, shop: Shop, how: str, by: str) -> None:
        """The refusal names what would be missing and how many must confirm; nothing is recorded."""
        session = await ended(hub, shop)
        before = len(await hub.recorded(session))
        with pytest.raises(
            ResumeError, match=r"one person alone.*other (person has|people have) confirm"
        ):
            await hub.resume_session(
                session, bot(shop, T("ok")), SessionConfig(by=by, **{"registry": REGISTRY} | LOOSER[how])
            )
        assert len(await hub.recorded(session)) == before
        await hub.resume_session(session, bot(shop, T("ok")), SessionConfig(REGISTRY, by=by))
        state = await hub.session(session)
        assert (TWO in state.active, state.mode) == (True, "enforce")
        await check(hub, session)

    async def test_branch_without_the_rule(self, hub: Hub, shop: Shop, how: str, by: str) -> None:
        """The same applies to a branch of such a session."""
        session = await ended(hub, shop)
        with pytest.raises(ResumeError, match="one person alone"):
            await hub.branch_session(
                session,
                1,
                bot(shop, T("ok")),
                SessionConfig(by=by, **{"registry": REGISTRY} | LOOSER[how]),
            )


class TestFree:
    """Changes that loosen no guarded rule need no other operator."""

    async def test_rules_may_be_added(self, hub: Hub, shop: Shop) -> None:
        """Rules may be added, and plain rules may be dropped."""
        session = await ended(hub, shop)
        more = rules(RULES.replace("block rm", "block mkfs"))
        await hub.resume_session(
            session, bot(shop), SessionConfig(more, nets="changed", by="carl", reason="a new disk")
        )
        state = await hub.session(session)
        assert {TWO, RISK, NO_GRANTS, "block-mkfs"} <= {*state.active}
        assert "block-rm" not in state.nets

    async def test_harmless_maps_may_be_added(self, hub: Hub, shop: Shop) -> None:
        """Maps may be added if they take no calls from a guarded rule's name."""
        session = await ended(hub, shop)
        more = rules(f"{RULES}map deploy.env staging as staging\nmap bash.command rm as rm")
        await hub.resume_session(session, bot(shop), SessionConfig(more, nets="changed", by="carl"))
        assert TWO in (await hub.session(session)).active

    async def test_changed_maps_of_older_record_are_a_loosening(self, hub: Hub, shop: Shop) -> None:
        """For an old record with only a digest of the maps, any change of maps counts as a loosening."""
        session = await ended(hub, shop)
        events = await hub.recorded(session)
        state = fold(
            [
                event.model_copy(update={"body": _without_name_maps(event.body)})
                if isinstance(event.body, SessionOpened)
                else event
                for event in events
            ]
        )
        more = rules(f"{RULES}map deploy.env staging as staging")
        fit = standing(state, more, active=None, nets="changed")
        with pytest.raises(ResumeError, match="the maps by which"):
            check_no_looser(state, fit, more, "enforce")
        check_no_looser(
            state, standing(state, REGISTRY, active=None, nets="changed"), REGISTRY, "enforce"
        )

    async def test_rule_switched_off_by_others_may_be_dropped(self, hub: Hub, shop: Shop) -> None:
        """A rule that two other operators switched off permanently may be dropped."""
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(REGISTRY, by="carl"), session_id="s1"
        )
        for name in ("ada", "ben"):
            assert (await off(hub, TWO, name))[0]
        await hub.close_session(session, by="carl")
        fewer = {key: REGISTRY[key] for key in WITHOUT}
        await hub.resume_session(session, bot(shop), SessionConfig(fewer, nets="changed", by="carl"))
        assert TWO not in (await hub.session(session)).nets

    async def test_session_started_in_shadow_may_stay_so(self, hub: Hub, shop: Shop) -> None:
        """A session started in shadow mode may stay so when it is resumed or branched."""
        session = await ended(hub, shop, mode="shadow")
        branch = await hub.branch_session(session, 1, bot(shop), SessionConfig(REGISTRY, by="carl"))
        await hub.resume_session(session, bot(shop), SessionConfig(REGISTRY, by="carl"))
        assert {(await hub.session(s)).mode for s in (session, branch)} == {"shadow"}


class TestDefaults:
    """G-66: nets that take calls from a guarded rule on `anything-else` loosen it."""

    DEFAULT = "require 2 human-approvals before anything-else"
    LIMIT = "limit deploy to 100 per session"

    @pytest.mark.parametrize("registered", [True, False])
    async def test_calls_guarded_by_a_default_stay_guarded(
        self, hub: Hub, shop: Shop, registered: bool
    ) -> None:
        """One operator cannot add a rule that names calls which the default guards with two people."""
        every = rules(f"{self.DEFAULT}\n{self.LIMIT}\nblock push")
        default, limit, block = every
        known = every if registered else {default: every[default], block: every[block]}
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(known, active=[default], by="carl"), session_id="s1"
        )
        await hub.close_session(session, by="carl")
        with pytest.raises(ResumeError, match=f"'{limit}' takes calls from '{default}'"):
            await hub.resume_session(
                session,
                bot(shop),
                SessionConfig(every, active=[default, limit], nets="changed", by="ada"),
            )
        # A block of what it names takes nothing away.
        await hub.resume_session(
            session, bot(shop), SessionConfig(every, active=[default, block], nets="changed", by="ada")
        )
        assert (await hub.session(session)).active == [default, block]

    async def test_plain_default_needs_a_reason_only(self, hub: Hub, shop: Shop) -> None:
        """For a default without several people, a reason is enough, as for any plain rule."""
        every = rules(f"block anything-else\n{self.LIMIT}")
        default, limit = every
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(every, active=[default], by="carl"), session_id="s1"
        )
        await hub.close_session(session, by="carl")
        on = {"registry": every, "active": [default, limit], "by": "ada"}
        with pytest.raises(ResumeError, match=f"'{limit}' takes calls from '{default}'") as refused:
            await hub.resume_session(session, bot(shop), SessionConfig(**on))
        assert refused.value.unexplained
        await hub.resume_session(session, bot(shop), SessionConfig(**on, reason="a new tool"))
        assert (await hub.session(session)).active == [default, limit]


class TestReason:
    """A change that one operator may make alone needs a reason, which is recorded."""

    PLAIN = "map bash.command rm as delete\nrequire human-approval before delete\nblock mkfs\n"

    @pytest.mark.parametrize(
        ("less", "said"),
        [
            (PLAIN.replace("map bash.command rm as delete\n", ""), "counts calls by other maps"),
            (PLAIN.replace("rm as", "rmdir as"), "counts calls by other maps"),
        ],
    )
    async def test_maps_matching_fewer_calls_are_a_loosening(
        self, hub: Hub, shop: Shop, less: str, said: str
    ) -> None:
        """The same rules under maps that match fewer calls count as a loosening."""
        session = await hub.open_session(bot(shop), SessionConfig(rules(self.PLAIN)), session_id="s1")
        await hub.close_session(session, by="carl")
        terms = {"registry": rules(less), "nets": "changed", "by": "carl"}
        with pytest.raises(ResumeError, match=f"'approve-before-delete' {said}") as refused:
            await hub.resume_session(session, bot(shop), SessionConfig(**terms))
        assert refused.value.unexplained
        more = rules(f"{self.PLAIN}map bash.command shred as delete\n")
        await hub.resume_session(session, bot(shop), SessionConfig(more, by="carl"))
        await hub.close_session(session, by="carl")
        await hub.resume_session(session, bot(shop), SessionConfig(**terms, reason="a new mover"))

    async def test_fewer_activating_calls_are_a_loosening(self, hub: Hub, shop: Shop) -> None:
        """A rule that fewer calls bring into effect is looser, too."""
        asks = "after read_web require human-approval before send_email\n"
        was = f"map bash.command curl as read_web\nallow unclear bash\n{asks}"
        session = await hub.open_session(bot(shop), SessionConfig(rules(was)), session_id="s1")
        await hub.close_session(session, by="carl")
        terms = {"registry": rules(was.replace("curl", "wget")), "nets": "changed", "by": "carl"}
        with pytest.raises(
            ResumeError, match="'approve-before-send_email-after-read_web' counts calls by"
        ):
            await hub.resume_session(session, bot(shop), SessionConfig(**terms))
        more = rules(f"{was}map bash.command wget as read_web\n")
        await hub.resume_session(session, bot(shop), SessionConfig(more, nets="changed", by="carl"))

    async def test_net_off_for_a_time_counts_as_recorded(self, hub: Hub, shop: Shop) -> None:
        """A net, or enforce mode, that will be restored after a limited time is part of the record."""
        every = rules(self.PLAIN)
        session = await hub.open_session(bot(shop), SessionConfig(every, by="carl"), session_id="s1")
        await hub.toggle_net(session, "block-mkfs", False, by="carl", reason="x", seconds=600)
        await hub.set_mode(session, "shadow", by="carl", reason="x", seconds=600)
        await hub.close_session(session, by="carl")
        fewer = {key: net for key, net in every.items() if key != "block-mkfs"}
        with pytest.raises(ResumeError, match="'block-mkfs' is missing; shadow mode instead"):
            await hub.resume_session(
                session, bot(shop), SessionConfig(fewer, nets="changed", mode="shadow", by="carl")
            )


class TestForATime:
    """A rule that is off for a limited time is restored, despite any change in between."""

    async def test_one_operator_cannot_drop_it(self, hub: Hub, shop: Shop, watch: Watch) -> None:
        """One operator cannot drop a net that two operators switched off for ten minutes."""
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(REGISTRY, by="carl"), session_id="s1"
        )
        for name in ("ada", "ben"):
            await hub.toggle_net(session, TWO, False, by=name, reason="x", seconds=600)
        assert TWO not in (await hub.session(session)).active
        await hub.close_session(session, by="carl")
        fewer = {key: REGISTRY[key] for key in WITHOUT}
        with pytest.raises(ResumeError, match="is missing"):
            await hub.resume_session(session, bot(shop), SessionConfig(fewer, nets="changed", by="carl"))
        watch.now += timedelta(minutes=11)
        await hub.resume_session(
            session, bot(shop), SessionConfig(REGISTRY, active=[RISK, NO_GRANTS], by="ada", reason="x")
        )
        assert TWO in (await hub.session(session)).active

    async def test_shadow_mode_still_needs_as_many_operators(self, hub: Hub, shop: Shop) -> None:
        """While a rule is off for a limited time, shadow mode still needs as many people as the rule."""
        only = rules(f"{MAP}\n{STRICT} risk high no grants\nblock rm")
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(only, by="carl"), session_id="s1"
        )
        for name in ("ada", "ben"):
            await hub.toggle_net(session, TWO, False, by=name, reason="x", seconds=600)
        assert TWO not in (await hub.session(session)).active
        assert "Proposed" in (await hub.set_mode(session, "shadow", by="ada", reason="x")).message
        assert (await hub.session(session)).mode == "enforce"


class TestBranch:
    async def test_switched_off_nets_are_on_in_a_branch(self, hub: Hub, shop: Shop) -> None:
        """Nets that were switched off in a session are on in any branch of it."""
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(REGISTRY, by="carl"), session_id="s1"
        )
        for name in ("ada", "ben"):
            await off(hub, TWO, name)
            await hub.set_mode(session, "shadow", by=name, reason="a drill")
        await hub.toggle_net(session, "block-rm", False, by="ada", reason="x", seconds=600)
        loose = (await hub.session(session)).seq
        assert (await hub.session(session)).mode == "shadow"
        assert bodies(hub, session, NetToggled)
        while_off = await hub.branch_session(
            session, loose, bot(shop), SessionConfig(REGISTRY, by="carl")
        )
        await hub.set_mode(session, "enforce", by="ben")
        await hub.toggle_net(session, TWO, True, by="ben")
        later = await hub.branch_session(session, loose, bot(shop), SessionConfig(REGISTRY, by="carl"))
        for branch in (while_off, later):
            state = await hub.session(branch)
            assert {TWO, "block-rm"} <= {*state.active}
            assert state.mode == "enforce"
            assert fold(await hub.recorded(branch)) == state
        with pytest.raises(ResumeError, match="shadow mode"):
            await hub.branch_session(
                session, loose, bot(shop), SessionConfig(REGISTRY, mode="shadow", by="carl")
            )


class TestRecord:
    async def test_older_record_takes_approvers_from_rule_text(self, hub: Hub, shop: Shop) -> None:
        """For an old record without `people`, the number of approvers comes from the rule's text."""
        session = await ended(hub, shop)
        [opened] = bodies(hub, session, SessionOpened)
        older = opened.model_dump(mode="json")
        for net in older["nets"]:
            del net["people"], net["maps"]
        read = event_body.validate_python(older)
        assert isinstance(read, SessionOpened)
        found = {net.key: guarded(net) for net in read.nets if guarded(net)}
        assert found == {TWO: 2, RISK: 1, NO_GRANTS: 1}
        assert {net.key: guarded(net) for net in opened.nets if guarded(net)} == found
