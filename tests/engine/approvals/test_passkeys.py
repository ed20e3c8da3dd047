"""Approvals with a passkey: accepted proofs, enrolment of keys, and the content of the record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from interlock.engine.agents import C, T
from interlock.engine.approvals.passkeys import MOST_CODES, MOST_OPEN
from interlock.engine.approvals.policy import ApprovalPolicy
from interlock.engine.core.approvers import Operator, Operators
from interlock.engine.gate.types import GrantTerms
from interlock.engine.history.audit.passkeys import encoded
from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.logs.key_log import KeyLog
from interlock.engine.history.logs.line_log import FileLines, append_line
from interlock.engine.history.model.events import (
    ApprovalDecided,
    ApprovalFused,
    ApprovalGiven,
    ApprovalRequested,
    ApprovalWithdrawn,
    CallResult,
)
from interlock.engine.history.model.state import ApprovalState
from interlock.engine.hub.api import KeyRequest, Outcome
from interlock.engine.hub.hub import Hub
from interlock.engine.sessions.config import SessionConfig
from interlock.rules import compile_rules
from tests.support.authenticator import PAGE, Authenticator, enroll
from tests.support.clock import Clock

from ..support.shop import Shop, bodies, bot, check, until

HEAD = "require human-approval before deploy with passkey"
PEOPLE = Operators(
    (
        Operator("maria", groups=("security",)),
        Operator("ada", groups=("security",)),
        Operator("ben", groups=("security",)),
        Operator("omar", "look"),
    )
)


@pytest.fixture
async def hub(tmp_path: Path, clock: Clock) -> AsyncIterator[Hub]:
    hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock), policy=ApprovalPolicy())
    hub.know_operators(PEOPLE)
    yield hub
    await hub.close()


async def session_with_request(hub: Hub, shop: Shop, rules: str = HEAD) -> tuple[str, ApprovalState]:
    """A session whose deploy waits for an approval, and its request."""
    events = hub.subscribe()
    agent = bot(shop, C(deploy={"env": "prod"}), T("done"))
    session = await hub.open_session(agent, SessionConfig(compile_rules(rules).registry))
    await hub.send(session, "go", by="ben")
    await until(events, ApprovalRequested)
    events.close()
    [request] = await hub.approvals()
    return session, request


async def request_challenge(hub: Hub, request: ApprovalState, by: str, origin: str = PAGE) -> KeyRequest:
    return await hub.challenge_key(request.id, digest=request.digest, origin=origin, by=by)


async def approve(
    hub: Hub, request: ApprovalState, by: str, device: Authenticator | None = None, **more: object
) -> Outcome:
    """Approve a request, signed by `device` if one is given."""
    answer = None
    if device is not None:
        found = await request_challenge(hub, request, by, device.origin)
        assert found.ok, found.message
        answer = device.sign(found)
    return await hub.decide(
        request.id, approved=True, by=by, digest=request.digest, passkey=answer, **more
    )  # type: ignore[arg-type]


class TestApproval:
    async def test_approval_with_key_records_the_proof(self, hub: Hub) -> None:
        """G-106: the decision records the proof, which is bound to the digest of the request."""
        shop, device = Shop(), Authenticator()
        credential = await enroll(hub, "maria", device)
        session, request = await session_with_request(hub, shop)
        events = hub.subscribe()
        outcome = await approve(hub, request, "maria", device)
        assert outcome.ok, outcome.message
        await until(events, CallResult)
        assert shop.ran == ["deploy prod"]
        [decided] = bodies(hub, session, ApprovalDecided)
        assert decided.proof is not None
        assert decided.proof.credential == credential
        assert decided.digest == request.digest
        await check(hub, session)

    async def test_approval_without_proof_is_refused(self, hub: Hub) -> None:
        """G-105: an approval without a proof is refused with the address of the page to use."""
        hub.serve_keys(PAGE, None)
        session, request = await session_with_request(hub, Shop())
        outcome = await approve(hub, request, "maria")
        assert not outcome.ok
        assert "Not approved: its rule asks for a passkey" in outcome.message
        assert f"open {PAGE}/m/a/{request.id} on the device that has your key" in outcome.message
        assert not bodies(hub, session, ApprovalDecided)
        [still] = await hub.approvals()
        assert still.id == request.id

    async def test_refusal_without_address_names_the_setting(self, hub: Hub) -> None:
        """The refusal names the command and the setting."""
        _, request = await session_with_request(hub, Shop())
        outcome = await approve(hub, request, "maria")
        assert "`interlock web`" in outcome.message
        assert "[gateway] page" in outcome.message

    async def test_operator_without_key_gets_no_challenge(self, hub: Hub) -> None:
        """The refusal says that the operator has enrolled no passkey."""
        await enroll(hub, "maria", Authenticator())
        _, request = await session_with_request(hub, Shop())
        found = await request_challenge(hub, request, "ada")
        assert not found.ok
        assert "ada has enrolled no passkey" in found.message

    async def test_denial_requires_no_passkey(self, hub: Hub) -> None:
        """A denial requires no passkey."""
        session, request = await session_with_request(hub, Shop())
        outcome = await hub.decide(request.id, approved=False, by="ada", digest=request.digest)
        assert outcome.ok
        [decided] = bodies(hub, session, ApprovalDecided)
        assert not decided.approved
        assert decided.proof is None

    async def test_a_challenge_counts_once(self, hub: Hub) -> None:
        """A used challenge is refused, for its owner and for another operator."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop(), f"{HEAD} by 2")
        answer = device.sign(await request_challenge(hub, request, "maria"))
        for by, said in (("ada", "used before"), ("maria", "used before")):
            outcome = await hub.decide(
                request.id, approved=True, by=by, digest=request.digest, passkey=answer
            )
            assert not outcome.ok
            assert said in outcome.message

    async def test_a_challenge_expires(self, hub: Hub, clock: Clock) -> None:
        """A challenge is refused after five minutes."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop())
        answer = device.sign(await request_challenge(hub, request, "maria"))
        clock.advance(301)
        outcome = await hub.decide(
            request.id, approved=True, by="maria", digest=request.digest, passkey=answer
        )
        assert "too old" in outcome.message

    async def test_proof_for_another_request_is_refused(self, hub: Hub) -> None:
        """A proof is valid only for the request that was signed."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, one = await session_with_request(hub, Shop())
        answer = device.sign(await request_challenge(hub, one, "maria"))
        _, _ = await self._second(hub)
        other = next(each for each in await hub.approvals() if each.id != one.id)
        outcome = await hub.decide(
            other.id, approved=True, by="maria", digest=other.digest, passkey=answer
        )
        assert "another request" in outcome.message

    async def _second(self, hub: Hub) -> tuple[str, ApprovalState | None]:
        events = hub.subscribe()
        agent = bot(Shop(), C(deploy={"env": "dev"}), T("done"), name="other")
        session = await hub.open_session(agent, SessionConfig(compile_rules(HEAD).registry))
        await hub.send(session, "go", by="ben")
        await until(events, ApprovalRequested)
        events.close()
        return session, None

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"verified": False}, "user was not verified"),
            ({"origin": "https://evil.example"}, "it was signed on https://evil.example"),
        ],
    )
    async def test_client_data_of_the_proof_is_checked(
        self, hub: Hub, change: dict[str, object], said: str
    ) -> None:
        """A proof without user verification, or from another page, is refused."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop())
        found = await request_challenge(hub, request, "maria")
        answer = replace(device, **change).sign(found)  # type: ignore[arg-type]
        outcome = await hub.decide(
            request.id, approved=True, by="maria", digest=request.digest, passkey=answer
        )
        assert not outcome.ok
        assert said in outcome.message.lower() or said in outcome.message

    async def test_a_key_that_counts_backwards_is_refused(self, hub: Hub) -> None:
        """A key whose sign count decreases may be a copy and is refused."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        device.uses = 0
        _, request = await session_with_request(hub, Shop())
        outcome = await approve(hub, request, "maria", device)
        assert "sign count" in outcome.message.lower()

    @pytest.mark.parametrize("said", [b"[" * 3000, "{}".encode("utf-16"), b"[]", b""])
    async def test_malformed_client_data_is_refused(self, hub: Hub, said: bytes) -> None:
        """Malformed client data is refused with a message."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop())
        answer = device.sign(await request_challenge(hub, request, "maria"))
        outcome = await hub.decide(
            request.id,
            approved=True,
            by="maria",
            digest=request.digest,
            passkey=answer.model_copy(update={"client": encoded(said)}),
        )
        assert not outcome.ok
        assert "the client data is not" in outcome.message

    @pytest.mark.slow
    async def test_challenges_are_limited_per_operator(self, hub: Hub) -> None:
        """An operator with too many open challenges loses only their own oldest ones."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop())
        answer = device.sign(await request_challenge(hub, request, "maria"))
        for _ in range(MOST_OPEN + 1):
            assert (await hub.begin_key(origin=PAGE, by="ada")).ok
        outcome = await hub.decide(
            request.id, approved=True, by="maria", digest=request.digest, passkey=answer
        )
        assert outcome.ok, outcome.message

    async def test_key_of_another_operator_is_refused(self, hub: Hub) -> None:
        """A challenge that another operator's key signed is refused."""
        maria, ada = Authenticator(), Authenticator()
        await enroll(hub, "maria", maria)
        stolen = await enroll(hub, "ada", ada)
        _, request = await session_with_request(hub, Shop())
        answer = ada.sign(await request_challenge(hub, request, "maria"), stolen)
        outcome = await hub.decide(
            request.id, approved=True, by="maria", digest=request.digest, passkey=answer
        )
        assert "this is no key of maria" in outcome.message

    async def test_rule_with_passkey_allows_no_grants(self, hub: Hub) -> None:
        """A rule with a passkey allows no grants, because later calls would need no key."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        _, request = await session_with_request(hub, Shop())
        assert not request.may_grant
        outcome = await approve(
            hub, request, "maria", device, reason="a night", grant=GrantTerms("names")
        )
        assert not outcome.ok
        assert "its rule asks for a passkey" in outcome.message

    async def test_edit_needs_its_own_signature(self, hub: Hub) -> None:
        """An edit opens a new request, which needs a signature of its own."""
        device = Authenticator()
        await enroll(hub, "maria", device)
        session, request = await session_with_request(hub, Shop())
        outcome = await hub.decide(
            request.id, approved=True, by="maria", digest=request.digest, input={"env": "dev"}
        )
        assert outcome.ok
        [withdrawn] = bodies(hub, session, ApprovalWithdrawn)
        assert withdrawn.input == {"env": "dev"}
        events = hub.subscribe()
        while not (waiting := await hub.approvals()):
            await until(events, ApprovalRequested)
        events.close()
        [again] = waiting
        assert again.input == {"env": "dev"}
        assert (await approve(hub, again, "maria", device)).ok


class TestSeveral:
    async def test_both_proofs_are_recorded(self, hub: Hub) -> None:
        """Both proofs are recorded, each over the same digest."""
        shop, maria, ada = Shop(), Authenticator(), Authenticator(counts=False)
        await enroll(hub, "maria", maria)
        await enroll(hub, "ada", ada)
        session, request = await session_with_request(hub, shop, f"{HEAD} by 2 of security not by author")
        assert (await approve(hub, request, "maria", maria)).ok
        assert not (await approve(hub, request, "ada")).ok
        events = hub.subscribe()
        assert (await approve(hub, request, "ada", ada)).ok
        await until(events, CallResult)
        [given], [decided] = (
            bodies(hub, session, ApprovalGiven),
            bodies(hub, session, ApprovalDecided),
        )
        assert {each.proof.rp for each in (given, decided)} == {"laptop.example"}
        await check(hub, session)

    async def test_removed_key_voids_its_approval(self, hub: Hub) -> None:
        """If a key is removed, its approval no longer counts and the other approver is refused."""
        maria, ada = Authenticator(), Authenticator()
        credential = await enroll(hub, "maria", maria)
        await enroll(hub, "ada", ada)
        _, request = await session_with_request(hub, Shop(), f"{HEAD} by 2")
        assert (await approve(hub, request, "maria", maria)).ok
        assert (await hub.remove_key(credential, by="maria")).ok
        outcome = await approve(hub, request, "ada", ada)
        assert not outcome.ok
        assert "The approval of maria no longer counts, their passkey was removed" in outcome.message


class TestGivenUpName:
    """The keys of a name that its holder gave up do not belong to the next holder."""

    async def test_keys_of_the_name_are_removed(self, hub: Hub, tmp_path: Path, clock: Clock) -> None:
        """The keys count for no approval, earlier ones included, and the log records their removal."""
        maria, ada = Authenticator(), Authenticator()
        await enroll(hub, "maria", maria)
        await enroll(hub, "ada", ada)
        given_up: dict[str, datetime] = {}
        hub.know_tokens(lambda _token, _needed: True, None, given_up.get)
        _, request = await session_with_request(hub, Shop(), f"{HEAD} by 2")
        assert (await approve(hub, request, "maria", maria)).ok
        clock.advance(60)
        given_up["maria"] = clock()
        events = hub.subscribe()
        outcome = await approve(hub, request, "ada", ada)
        assert not outcome.ok
        assert "The approval of maria no longer counts, their passkey was removed" in outcome.message
        await until(events, ApprovalRequested)
        [request] = await hub.approvals()
        found = await request_challenge(hub, request, "maria")
        assert "maria has enrolled no passkey" in found.message
        left = KeyLog(tmp_path / "hub.db").read()
        assert [each.key.operator for each in left.in_force()] == ["ada"]
        assert left.faults == ()

    async def test_next_holder_enrolls_a_first_key(self, hub: Hub, clock: Clock) -> None:
        """The next holder enrolls a first key with the terminal code, and it counts."""
        await enroll(hub, "maria", Authenticator())
        clock.advance(60)
        at = clock()
        hub.know_tokens(lambda _token, _needed: True, None, {"maria": at}.get)
        clock.advance(60)
        new = Authenticator()
        await enroll(hub, "maria", new)
        _, request = await session_with_request(hub, Shop())
        assert (await approve(hub, request, "maria", new)).ok

    async def test_unreadable_token_file_suspends_keys(self, hub: Hub) -> None:
        """If the token file cannot be read, no key is in force, but none is removed."""
        maria = Authenticator()
        await enroll(hub, "maria", maria)

        def unreadable(_name: str) -> datetime | None:
            raise ValueError("the file cannot be trusted")

        _, request = await session_with_request(hub, Shop())
        hub.know_tokens(lambda _token, _needed: True, None, unreadable)
        assert not (await request_challenge(hub, request, "maria")).ok
        hub.know_tokens(lambda _token, _needed: True, None, lambda _name: None)
        assert (await approve(hub, request, "maria", maria)).ok


class TestFuse:
    async def test_proof_is_in_both_events(self, tmp_path: Path, clock: Clock) -> None:
        """For high risk, the proof is in the event of the approval and in that of the decision."""
        hub = Hub(Journal.open(tmp_path / "f.db", clock=clock), policy=ApprovalPolicy(fuse=0.05))
        try:
            device, shop = Authenticator(), Shop()
            await enroll(hub, "maria", device)
            session, request = await session_with_request(hub, shop, f"{HEAD} risk high")
            events = hub.subscribe()
            assert (await approve(hub, request, "maria", device)).ok
            await until(events, CallResult)
            [fused] = bodies(hub, session, ApprovalFused)
            [decided] = bodies(hub, session, ApprovalDecided)
            assert fused.proof == decided.proof is not None
        finally:
            await hub.close()

    async def test_key_removed_by_another_server_voids_approval(
        self, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """G-105: a key that another server removed before the release makes its approval void."""
        path, policy = tmp_path / "f.db", ApprovalPolicy(fuse=3600.0)
        hub = Hub(Journal.open(path, clock=clock), policy=policy)
        try:
            device, shop = Authenticator(), Shop()
            credential = await enroll(hub, "maria", device)
            session, request = await session_with_request(hub, shop, f"{HEAD} risk high")
            assert (await approve(hub, request, "maria", device)).ok
            other = KeyLog(path)
            other.remove(credential, "maria", clock(), other.read())
            # Let the log grow from outside, like a log in a database that other servers append to.
            monkeypatch.setattr(FileLines, "has_grown", lambda log, lines: log.read(10**6) is not None)
            questions = hub._live.hosted(session).questions
            [waits] = questions.table.open.values()
            assert waits.fuse is not None
            await questions.fuses.release(waits, waits.fuse)
            [withdrawn] = bodies(hub, session, ApprovalWithdrawn)
            assert "their passkey was removed" in withdrawn.reason
            assert not shop.ran
        finally:
            await hub.close()


class TestLoosening:
    async def test_operator_without_passkey_cannot_switch_off(self, hub: Hub) -> None:
        """G-105: a single operator without a passkey cannot switch off the net or the mode."""
        session, _ = await session_with_request(hub, Shop())
        for outcome in (
            await hub.toggle_net(session, "approve-before-deploy", False, by="ada", reason="now"),
            await hub.set_mode(session, "shadow", by="ada", reason="now"),
        ):
            assert not outcome.ok
            assert "a rule that asks for a passkey" in outcome.message


class TestEnrolment:
    async def test_first_key_needs_the_terminal_code(self, hub: Hub) -> None:
        """A first key needs a terminal and its code; too many wrong codes void the enrolment."""
        device = Authenticator()
        begun = await hub.begin_key(origin=PAGE, by="maria")
        refused = await hub.register_key(device.make(begun), by="maria")
        assert not refused.ok
        assert "a code in the terminal" in refused.message
        said: list[str] = []
        hub.serve_keys(None, said.append)
        made = await hub.register_key(
            device.make(await hub.begin_key(origin=PAGE, by="maria")), by="maria"
        )
        assert made.ok
        assert "maria" in said[-1]
        for _ in range(4):
            assert not (await hub.confirm_key(made.id, code="0000 000x", by="maria")).ok
        last = await hub.confirm_key(made.id, code="0000 000x", by="maria")
        assert "wrong too often" in last.message
        code = said[-1].partition("code ")[2][:9]
        assert not (await hub.confirm_key(made.id, code=code, by="maria")).ok
        assert not (await hub.passkeys()).passkeys

    async def test_code_is_valid_for_its_operator_only(self, hub: Hub) -> None:
        """The code enrolls a key only for the operator it was made for."""
        said: list[str] = []
        hub.serve_keys(None, said.append)
        made = await hub.register_key(
            Authenticator().make(await hub.begin_key(origin=PAGE, by="maria")), by="maria"
        )
        code = said[-1].partition("code ")[2][:9]
        assert not (await hub.confirm_key(made.id, code=code, by="ada")).ok
        assert (await hub.confirm_key(made.id, code=code, by="maria")).ok

    async def test_a_further_key_is_confirmed_by_an_earlier_one(self, hub: Hub) -> None:
        """An earlier key confirms a further one; no code is involved."""
        phone, laptop = Authenticator(), Authenticator()
        await enroll(hub, "maria", phone)
        second = await enroll(hub, "maria", laptop, "laptop", by=phone)
        found = await hub.passkeys()
        assert [(each.name, each.confirmed) for each in found.passkeys] == [
            ("phone", "code"),
            ("laptop", "key"),
        ]
        _, request = await session_with_request(hub, Shop())
        assert (await approve(hub, request, "maria", laptop)).ok
        assert laptop.keys.keys() == {second}

    async def test_number_of_codes_is_limited(self, hub: Hub, clock: Clock) -> None:
        """The number of codes is limited to prevent guessing; after an hour more are available."""
        said: list[str] = []
        hub.serve_keys(None, said.append)
        device = Authenticator()

        async def another() -> KeyRequest:
            begun = await hub.begin_key(origin=PAGE, by="maria")
            return await hub.register_key(device.make(begun), by="maria")

        for _ in range(MOST_CODES):
            assert (await another()).ok
        refused = await another()
        assert not refused.ok
        assert "10 codes for a first key of maria" in refused.message
        assert len(said) == MOST_CODES
        clock.advance(3601)
        assert (await another()).ok

    async def test_role_look_cannot_enroll(self, hub: Hub) -> None:
        """An operator with the role `look` cannot enroll a key."""
        found = await hub.begin_key(origin=PAGE, by="omar")
        assert not found.ok
        assert "'look'" in found.message

    @pytest.mark.parametrize(
        ("origin", "said"),
        [
            ("https://192.0.2.7:8738", "an address"),
            ("http://127.0.0.1:8738", "interlock web --listen localhost:8738"),
            ("http://laptop.example:8738", "--certificate"),
            ("https://laptop.example/x", "no page's origin"),
        ],
    )
    async def test_origin_without_passkeys_is_explained(self, hub: Hub, origin: str, said: str) -> None:
        """If browsers make no passkeys for an origin, the message says why."""
        found = await hub.begin_key(origin=origin, by="maria")
        assert not found.ok
        assert said in found.message

    async def test_other_origin_than_configured_is_refused(self, hub: Hub) -> None:
        """If a page address is configured, another origin is refused with that address."""
        hub.serve_keys(PAGE, None)
        found = await hub.begin_key(origin="https://other.example", by="maria")
        assert f"made and used on {PAGE}" in found.message

    async def test_only_the_owner_removes_a_key(self, hub: Hub) -> None:
        """Only the owner can remove a key, and the list no longer shows it."""
        credential = await enroll(hub, "maria", Authenticator())
        assert not (await hub.remove_key(credential, by="ada")).ok
        assert (await hub.remove_key(credential, by="maria")).ok
        assert not (await hub.passkeys()).passkeys


class TestLog:
    async def test_keys_and_counts_survive_a_restart(self, tmp_path: Path, clock: Clock) -> None:
        """A new hub on the same journal has the keys and their use counts."""
        device = Authenticator()
        first = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        await enroll(first, "maria", device)
        _, request = await session_with_request(first, Shop())
        assert (await approve(first, request, "maria", device)).ok
        await first.close()
        again = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        try:
            assert [each.operator for each in (await again.passkeys()).passkeys] == ["maria"]
            [entry] = again.keys.in_force()
            assert entry.uses == device.uses
        finally:
            await again.close()
        path = KeyLog(tmp_path / "hub.db").lines.path
        assert path.stat().st_mode & 0o777 == 0o600

    async def test_forged_key_line_does_not_count(self, tmp_path: Path, clock: Clock) -> None:
        """A key line forged into the file does not count: no earlier key confirmed it."""
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        other = Hub(Journal.open(tmp_path / "other.db", clock=clock))
        await enroll(hub, "maria", Authenticator())
        await enroll(other, "maria", Authenticator())
        log, forged = KeyLog(tmp_path / "hub.db"), KeyLog(tmp_path / "other.db").read()
        [entry] = forged.entries.values()
        forgery = {
            "step": "enrolled",
            "before": log.read().head,
            "key": entry.key.model_dump(mode="json"),
        }
        append_line(log.lines.path, json.dumps(forgery))
        assert len((await hub.passkeys()).passkeys) == 1
        await hub.close()
        await other.close()
        found = log.read()
        assert len(found.entries) == 1
        assert "has a key already, which did not confirm it" in found.faults[0]

    async def test_invalid_line_does_not_restore_a_removed_key(
        self, tmp_path: Path, clock: Clock
    ) -> None:
        """After an invalid line, removals and use counts still take effect."""
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        phone, stick = Authenticator(), Authenticator()
        await enroll(hub, "maria", phone)
        stolen = await enroll(hub, "maria", stick, "stick", by=phone)
        log = KeyLog(tmp_path / "hub.db")
        head = log.read().head
        append_line(
            log.lines.path, json.dumps({"step": "used", "before": head, "credential": "x", "uses": 1})
        )
        assert (await hub.remove_key(stolen, by="maria")).ok
        _, request = await session_with_request(hub, Shop())
        assert (await approve(hub, request, "maria", phone)).ok
        await hub.close()
        found = log.read()
        [entry] = found.in_force()
        assert (entry.key.name, entry.uses) == ("phone", phone.uses)
        [fault] = found.faults
        assert "a line before this one was changed or removed" in fault

    async def test_lines_after_a_changed_line_do_not_count(self, tmp_path: Path, clock: Clock) -> None:
        """Lines after a changed line break the chain and do not count."""
        hub = Hub(Journal.open(tmp_path / "hub.db", clock=clock))
        for operator in ("maria", "ada"):
            await enroll(hub, operator, Authenticator())
        await hub.close()
        log = KeyLog(tmp_path / "hub.db")
        text = log.lines.path.read_text()
        log.lines.path.write_text(text.replace('"name":"phone"', '"name":"other"', 1))
        found = log.read()
        assert [each.key.operator for each in found.entries.values()] == ["maria"]
        assert "a line before this one was changed or removed" in found.faults[0]
