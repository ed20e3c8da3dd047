"""G-67: no single person gets rid of a rule by resuming or branching its session."""

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
    """A session that carl started under `RULES`, and ended."""
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
    """Anything looser than the record needs the others first, whoever resumes."""

    async def test_resumed(self, hub: Hub, shop: Shop, how: str, by: str) -> None:
        """It is refused with what would be missing, how many must confirm; nothing is recorded."""
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

    async def test_branched(self, hub: Hub, shop: Shop, how: str, by: str) -> None:
        """A branch of a session with such a rule counts as resumed."""
        session = await ended(hub, shop)
        with pytest.raises(ResumeError, match="one person alone"):
            await hub.branch_session(
                session,
                1,
                bot(shop, T("ok")),
                SessionConfig(by=by, **{"registry": REGISTRY} | LOOSER[how]),
            )


class TestFree:
    """What is no looser takes nobody else."""

    async def test_more_rules(self, hub: Hub, shop: Shop) -> None:
        """Rules may be added, and plain ones go, as before."""
        session = await ended(hub, shop)
        more = rules(RULES.replace("block rm", "block mkfs"))
        await hub.resume_session(
            session, bot(shop), SessionConfig(more, nets="changed", by="carl", reason="a new disk")
        )
        state = await hub.session(session)
        assert {TWO, RISK, NO_GRANTS, "block-mkfs"} <= {*state.active}
        assert "block-rm" not in state.nets

    async def test_more_maps(self, hub: Hub, shop: Shop) -> None:
        """Maps may be added where they take no call from a guarded rule's name."""
        session = await ended(hub, shop)
        more = rules(f"{RULES}map deploy.env staging as staging\nmap bash.command rm as rm")
        await hub.resume_session(session, bot(shop), SessionConfig(more, nets="changed", by="carl"))
        assert TWO in (await hub.session(session)).active

    async def test_maps_of_an_older_record(self, hub: Hub, shop: Shop) -> None:
        """Of a record that has only the digest of all maps, every change of them may be looser."""
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

    async def test_once_others_agreed(self, hub: Hub, shop: Shop) -> None:
        """A rule that two others turned off for good does not hold up its session."""
        session = await hub.open_session(
            bot(shop, T("ok")), SessionConfig(REGISTRY, by="carl"), session_id="s1"
        )
        for name in ("ada", "ben"):
            assert (await off(hub, TWO, name))[0]
        await hub.close_session(session, by="carl")
        fewer = {key: REGISTRY[key] for key in WITHOUT}
        await hub.resume_session(session, bot(shop), SessionConfig(fewer, nets="changed", by="carl"))
        assert TWO not in (await hub.session(session)).nets

    async def test_started_in_shadow_mode(self, hub: Hub, shop: Shop) -> None:
        """A new session is its starter's: in shadow mode it stays so, resumed and branched."""
        session = await ended(hub, shop, mode="shadow")
        branch = await hub.branch_session(session, 1, bot(shop), SessionConfig(REGISTRY, by="carl"))
        await hub.resume_session(session, bot(shop), SessionConfig(REGISTRY, by="carl"))
        assert {(await hub.session(s)).mode for s in (session, branch)} == {"shadow"}


class TestDefaults:
    """G-66: nets that take calls from a guarded rule on `anything-else` are less than the record says."""

    DEFAULT = "require 2 human-approvals before anything-else"
    LIMIT = "limit deploy to 100 per session"

    @pytest.mark.parametrize("registered", [True, False])
    async def test_are_kept(self, hub: Hub, shop: Shop, registered: bool) -> None:
        """Nobody resumes it under more rules that name what the default asks two people about."""
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
        # One that blocks what it names takes nothing away.
        await hub.resume_session(
            session, bot(shop), SessionConfig(every, active=[default, block], nets="changed", by="ada")
        )
        assert (await hub.session(session)).active == [default, block]

    async def test_of_one_person_are_his(self, hub: Hub, shop: Shop) -> None:
        """A default that no several people stand behind takes a reason, as any plain rule."""
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
    """What one person may do alone takes a reason, which the record has."""

    PLAIN = "map bash.command rm as delete\nrequire human-approval before delete\nblock mkfs\n"

    @pytest.mark.parametrize(
        ("less", "said"),
        [
            (PLAIN.replace("map bash.command rm as delete\n", ""), "counts calls by other maps"),
            (PLAIN.replace("rm as", "rmdir as"), "counts calls by other maps"),
        ],
    )
    async def test_other_maps(self, hub: Hub, shop: Shop, less: str, said: str) -> None:
        """Rules that read the same, under maps by which they meet fewer calls, are less."""
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

    async def test_other_maps_of_what_brings_it_into_effect(self, hub: Hub, shop: Shop) -> None:
        """A rule that fewer calls bring into effect is less, too."""
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

    async def test_what_is_off_for_a_time(self, hub: Hub, shop: Shop) -> None:
        """A net that will be on again, and enforce mode that will, are part of what a record says."""
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
    """What is off for a time comes back, whatever was done meanwhile."""

    async def test_dropped_meanwhile(self, hub: Hub, shop: Shop, watch: Watch) -> None:
        """A net that two people turned off for ten minutes cannot be dropped by one within them."""
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

    async def test_shadow_mode_meanwhile(self, hub: Hub, shop: Shop) -> None:
        """While it is off for a time, shadow mode takes as many people as with it."""
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
    async def test_switches_stay_behind(self, hub: Hub, shop: Shop) -> None:
        """What people switched off in a session is on in a branch of it, from whichever moment."""
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
    async def test_older_records(self, hub: Hub, shop: Shop) -> None:
        """A record from before nets said whom they take has it in the words of its rules."""
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
