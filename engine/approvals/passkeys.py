"""Passkeys of a hub's operators: owners, open challenges, and checks of proofs.

The hub reads the keys from the log beside the journal when it starts, and never again. So a line that
another program adds later enrolls no key. Challenges are created here, for one use and a short time.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ..core.people import person_key, same_person
from ..core.sanitize import visible
from ..history.audit.passkeys import (
    ApprovedRequest,
    KeyEntry,
    KeyProofError,
    check_proof,
    confirmation_challenge,
    decoded,
    encoded,
    enrolment_challenge,
    new_nonce,
    rp_of,
)
from ..history.logs.key_log import KeyLog
from ..history.model.records import EnrolledKey, KeyProof

CHALLENGE_LIFETIME = timedelta(minutes=5)
CODE_LIFETIME = timedelta(minutes=10)
MOST_OPEN = 256
"""Maximum number of open challenges; one more removes the oldest."""
MOST_OPEN_EACH = 32
"""Maximum number of one operator's open challenges; more of them remove only that operator's own."""
MOST_CODES = 10
"""Codes of one operator within `CODES_WITHIN`: each allows `MOST_TRIES` guesses, and is shown."""
CODES_WITHIN = timedelta(hours=1)
MOST_KEYS = 20
"""Maximum number of one operator's keys."""
MOST_TRIES = 5
"""Number of wrong codes after which a key must be created anew."""
LONGEST_NAME = 40
GIVEN_UP = "the name was given up"
"""Author of the removal of keys whose operator's name is no longer in use."""
LOST = "This challenge was used before, or is too old: try again"

log = logging.getLogger(__name__)


class KeyAnswer(BaseModel):
    """A browser's answer to the challenge with this `id`. Bytes are base64url."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(max_length=100)
    credential: str = Field(max_length=2000)
    authenticator: str = Field(max_length=6000)
    client: str = Field(max_length=6000)
    signature: str = Field(max_length=6000)


class NewKey(BaseModel):
    """A key that a browser created, by the `id` of the challenge. Bytes are base64url."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(max_length=100)
    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    credential: str = Field(max_length=2000)
    attestation: str = Field(max_length=20_000)
    client: str = Field(max_length=6000)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge as sent to a browser: with `credentials` to sign with, or to exclude."""

    id: str
    challenge: str
    rp: str
    credentials: tuple[str, ...]


@dataclass(slots=True)
class _Open:
    """An open challenge: its purpose, operator and page, and the key that waits for confirmation."""

    act: str
    operator: str
    nonce: str
    origin: str
    ends: datetime
    request: ApprovedRequest | None = None
    key: EnrolledKey | None = None
    code: str = ""
    tries: int = 0


class Passkeys:
    """The keys of a hub's operators; `clock` is the journal's.

    `announce` shows a code at the terminal of this process; without it no operator can enroll a first
    key. `page` is the address of the pages for phones, if it is known: keys are then created and used
    only there. `given_up` returns when a name's holder last gave it up, `None` if never: keys that were
    enrolled under the name until then do not count for its next holder.
    """

    def __init__(self, key_log: KeyLog, clock: Callable[[], datetime]) -> None:
        self._log = key_log
        self._clock = clock
        self._history = key_log.read()
        self._open: dict[str, _Open] = {}
        self._codes: dict[str, tuple[datetime, ...]] = {}
        self.announce: Callable[[str], None] | None = None
        self.page: str | None = None
        self.given_up: Callable[[str], datetime | None] | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Lines of the log that do not count, and why."""
        return self._history.faults

    @property
    def holders(self) -> tuple[str, ...]:
        """The operators who have a key."""
        return tuple(dict.fromkeys(each.key.operator for each in self.in_force()))

    def in_force(self) -> list[KeyEntry]:
        """Return the keys in force, oldest first, and remove those of names that were given up."""
        return [each for each in self._history.in_force() if not self._was_given_up(each)]

    def _was_given_up(self, entry: KeyEntry) -> bool:
        """Return whether the key's holder gave their name up since; true if that cannot be determined."""
        if self.given_up is None:
            return False
        operator = entry.key.operator
        try:
            at = self.given_up(operator)
        except ValueError:
            log.exception("Names that were given up cannot be read: no passkey counts")
            return True
        if at is None or entry.key.at > at:
            return False
        try:
            self._history = self._log.remove(entry.key.credential, GIVEN_UP, self._clock(), self._history)
        except OSError:
            log.exception("The log of keys cannot be written; a key of '%s' counts no more", operator)
        else:
            text = f"passkey '{visible(entry.key.name)}' of {visible(operator)} is removed: {GIVEN_UP}"
            log.warning("%s", text)
            if self.announce is not None:
                self.announce(text)
        return True

    def keys_of(self, operator: str) -> list[KeyEntry]:
        """Return the keys of an operator."""
        return [each for each in self.in_force() if same_person(each.key.operator, operator)]

    def holds(self, operator: str, credential: str | None) -> bool:
        """Return whether a key still belongs to this operator; false if the log cannot be read."""
        try:
            self.read_on()
        except KeyProofError as error:
            said = "It is not known whether a key of '%s' was removed, so it does not count: %s"
            log.warning(said, operator, error)
            return False
        return any(each.key.credential == credential for each in self.keys_of(operator))

    def link(self, approval_id: str) -> str | None:
        """Return the page of a request, where a key can be used; `None` if no address is known."""
        return page_link(self.page, approval_id)

    def remedy(self, approval_id: str) -> str:
        """Return a sentence on where a request is approved with a key."""
        link = self.link(approval_id)
        if link is None:
            return (
                "that is done on the page for phones: run `interlock web` for these agents, and open the "
                "request there on the device that has your key ([gateway] page says where that is)"
            )
        return f"open {link} on the device that has your key"

    def read_on(self) -> None:
        """Read what other servers have added to the log. Thread-safe. Raises `KeyProofError`."""
        try:
            self._history = self._log.newer(self._history)
        except OSError as error:
            raise KeyProofError(f"the log of keys cannot be read: {error}") from error

    # Approvals

    def challenge(self, request: ApprovedRequest, origin: str) -> Challenge:
        """Return a challenge for the approval of a request. Raises `KeyProofError`."""
        self.read_on()
        rp = self._check_page(origin)
        own = [each for each in self.keys_of(request.operator) if each.key.origin == origin]
        if not own:
            elsewhere = ", ".join(dict.fromkeys(e.key.origin for e in self.keys_of(request.operator)))
            if elsewhere:
                raise KeyProofError(
                    f"the keys of {request.operator} are for {elsewhere}, and this page is {origin}: "
                    "open that, or enroll one here (Keys)"
                )
            raise KeyProofError(f"{request.operator} has enrolled no passkey: do that first (Keys)")
        opened = self._begin("approve", request.operator, origin, request=request)
        return self._shown(opened, request.challenge(opened[1].nonce), rp, own)

    def prove(self, request: ApprovedRequest, answer: KeyAnswer | None) -> KeyProof:
        """Return the proof of an operator's key from the answer to a challenge for this request.

        A challenge is valid once. Raises `KeyProofError`.
        """
        if answer is None:
            raise KeyProofError("its rule asks for a passkey")
        self.read_on()
        opened = self._taken(answer.id, "approve", request.operator)
        if opened.request != request:
            raise KeyProofError("the challenge was for another request, or for what was shown before")
        entry = self._entry(request.operator, answer.credential, opened.origin)
        proof = _proof(entry, answer, opened.nonce)
        uses = check_proof(
            proof, request.challenge(opened.nonce), origin=entry.key.origin, uses=entry.uses
        )
        self._count_use(entry, uses)
        return proof

    def _count_use(self, entry: KeyEntry, uses: int) -> None:
        """Record a key's use count, if the key counts its uses. Raises `KeyProofError`."""
        if uses > entry.uses:
            try:
                self._history = self._log.note_uses(entry.key.credential, uses, self._history)
            except OSError as error:
                raise KeyProofError(f"the log of keys cannot be written: {error}") from error

    # Enrolment

    def begin(self, operator: str, origin: str) -> Challenge:
        """Return a challenge with which a browser creates a key. Raises `KeyProofError`."""
        self.read_on()
        rp = self._check_page(origin)
        own = self.keys_of(operator)
        if len(own) >= MOST_KEYS:
            raise KeyProofError(f"{operator} has {len(own)} keys, the most there may be: remove one")
        opened = self._begin("enroll", operator, origin)
        return self._shown(opened, enrolment_challenge(operator, opened[1].nonce), rp, own)

    def register(self, operator: str, new: NewKey) -> Challenge | None:
        """Accept a created key; return the challenge with which an earlier key must confirm it.

        Return `None` for an operator's first key: a code is shown in the terminal of this process. Raises
        `KeyProofError`.
        """
        from webauthn import verify_registration_response
        from webauthn.helpers.exceptions import WebAuthnException
        from webauthn.helpers.structs import AuthenticatorAttestationResponse, RegistrationCredential

        self.read_on()
        opened = self._taken(new.id, "enroll", operator)
        rp = self._check_page(opened.origin)
        try:
            made = verify_registration_response(
                credential=RegistrationCredential(
                    id=new.credential,
                    raw_id=decoded(new.credential),
                    response=AuthenticatorAttestationResponse(
                        client_data_json=decoded(new.client),
                        attestation_object=decoded(new.attestation),
                    ),
                ),
                expected_challenge=enrolment_challenge(operator, opened.nonce),
                expected_rp_id=rp,
                expected_origin=opened.origin,
                require_user_verification=True,
            )
        except (WebAuthnException, ValueError) as error:
            raise KeyProofError(f"the key is not taken: {visible(str(error))}") from error
        if any(e.key.credential == new.credential for e in self._history.entries.values()):
            raise KeyProofError("this key was enrolled before")
        own = [each for each in self.keys_of(operator) if each.key.origin == opened.origin]
        if not own and self.keys_of(operator):
            raise KeyProofError(
                "an earlier key confirms this one, and those of yours are for other pages: remove them "
                "there first"
            )
        key = EnrolledKey(
            credential=new.credential,
            key=encoded(made.credential_public_key),
            operator=operator,
            name=" ".join(new.name.split()) or "key",
            rp=rp,
            origin=opened.origin,
            at=self._clock(),
            uses=made.sign_count,
            confirmed="key" if own else "code",
        )
        if own:
            waiting = self._begin("confirm", operator, opened.origin, key=key, id_=new.id)
            return self._shown(waiting, confirmation_challenge(key, waiting[1].nonce), rp, own)
        if self.announce is None:
            raise KeyProofError(
                "a first key is confirmed by a code in the terminal of the process that has the journal, "
                "and this one has none: start `interlock web` or `interlock serve` in one"
            )
        self._count_code(operator)
        waiting = self._begin("code", operator, opened.origin, key=key, id_=new.id)
        waiting[1].ends = self._clock() + CODE_LIFETIME
        waiting[1].code = f"{secrets.randbelow(10**8):08}"
        code = f"{waiting[1].code[:4]} {waiting[1].code[4:]}"
        self.announce(
            f"passkey '{visible(key.name)}' of {visible(operator)} on {visible(key.origin)}: "
            f"code {code}. Give it to {visible(operator)} and to nobody else: whoever types it there "
            f"approves as {visible(operator)} from then on"
        )
        return None

    def _count_code(self, operator: str) -> None:
        """Count a code for an operator. Raises `KeyProofError` if there are too many."""
        now, person = self._clock(), person_key(operator)
        recent = tuple(each for each in self._codes.get(person, ()) if each > now - CODES_WITHIN)
        if len(recent) >= MOST_CODES:
            raise KeyProofError(
                f"{len(recent)} codes for a first key of {operator} were shown within an hour, the most "
                "there may be, as somebody may be guessing: try again later"
            )
        self._codes[person] = (*recent, now)

    def confirm(
        self, operator: str, key_id: str, *, code: str = "", answer: KeyAnswer | None = None
    ) -> str:
        """Enroll a created key after its code or an earlier key confirmed it; return its name.

        Raises `KeyProofError`, and `OSError` if it cannot be stored.
        """
        self.read_on()
        if answer is not None:
            opened = self._taken(answer.id, "confirm", operator)
            assert opened.key is not None
            entry = self._entry(operator, answer.credential, opened.origin)
            proof = _proof(entry, answer, opened.nonce)
            wanted = confirmation_challenge(opened.key, opened.nonce)
            uses = check_proof(proof, wanted, origin=entry.key.origin, uses=entry.uses)
            self._count_use(entry, uses)
            return self._enroll(opened.key.model_copy(update={"proof": proof}))
        opened = self._open.get(key_id)
        if opened is None or opened.act != "code" or not same_person(opened.operator, operator):
            raise KeyProofError(LOST)
        if opened.ends <= self._clock():
            del self._open[key_id]
            raise KeyProofError(LOST)
        typed = "".join(each for each in code if each.isdigit())
        if not compare_digest(typed, opened.code):
            opened.tries += 1
            if opened.tries >= MOST_TRIES:
                del self._open[key_id]
                raise KeyProofError("The code was wrong too often: make the key anew")
            raise KeyProofError("This is not the code; it stands in the terminal of the server")
        del self._open[key_id]
        assert opened.key is not None
        if self.keys_of(operator):
            raise KeyProofError("Another key was enrolled meanwhile, which must confirm this one")
        return self._enroll(opened.key)

    def _enroll(self, key: EnrolledKey) -> str:
        # The key counts from now on, although it was created some minutes ago.
        self._history = self._log.enroll(key, self._history)
        log.warning("passkey '%s' of %s is enrolled", visible(key.name), visible(key.operator))
        if self.announce is not None:
            by = "by a code" if key.confirmed == "code" else "by an earlier key"
            self.announce(
                f"passkey '{visible(key.name)}' of {visible(key.operator)} is enrolled, confirmed {by}"
            )
        return key.name

    def remove(self, credential: str, by: str) -> str:
        """Remove an operator's own key; return its name. Raises `KeyProofError`, and `OSError`."""
        self.read_on()
        found = next((e for e in self.keys_of(by) if e.key.credential == credential), None)
        if found is None:
            raise KeyProofError(f"{by} has no such key")
        self._history = self._log.remove(credential, by, self._clock(), self._history)
        if self.announce is not None:
            self.announce(f"passkey '{visible(found.key.name)}' of {visible(by)} is removed")
        return found.key.name

    # Challenges

    def _check_page(self, origin: str) -> str:
        rp = rp_of(origin)
        if self.page is not None and origin != self.page:
            raise KeyProofError(
                f"passkeys are made and used on {visible(self.page)}, and this page is {visible(origin)}"
            )
        return rp

    def _begin(
        self,
        act: str,
        operator: str,
        origin: str,
        *,
        request: ApprovedRequest | None = None,
        key: EnrolledKey | None = None,
        id_: str | None = None,
    ) -> tuple[str, _Open]:
        now = self._clock()
        for each in [name for name, one in self._open.items() if one.ends <= now]:
            del self._open[each]
        own = [name for name, one in self._open.items() if same_person(one.operator, operator)]
        for each in own[: max(0, len(own) + 1 - MOST_OPEN_EACH)]:
            del self._open[each]
        while len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]
        opened = _Open(act, operator, new_nonce(), origin, now + CHALLENGE_LIFETIME, request, key)
        name = id_ or secrets.token_urlsafe(16)
        self._open[name] = opened
        return name, opened

    def _taken(self, name: str, act: str, operator: str) -> _Open:
        """Remove and return an open challenge. Raises `KeyProofError`."""
        opened = self._open.pop(name, None)
        if (
            opened is None
            or opened.act != act
            or opened.ends <= self._clock()
            or not same_person(opened.operator, operator)
        ):
            raise KeyProofError(LOST)
        return opened

    def _entry(self, operator: str, credential: str, origin: str) -> KeyEntry:
        own = self.keys_of(operator)
        found = next((e for e in own if e.key.credential == credential), None)
        if found is None:
            raise KeyProofError(f"this is no key of {operator}")
        if found.key.origin != origin:
            raise KeyProofError(f"this key is for {found.key.origin}, and the page is {origin}")
        return found

    @staticmethod
    def _shown(
        opened: tuple[str, _Open], challenge: bytes, rp: str, keys: Iterable[KeyEntry]
    ) -> Challenge:
        return Challenge(opened[0], encoded(challenge), rp, tuple(each.key.credential for each in keys))


def page_link(page: str | None, approval_id: str) -> str | None:
    """Return a request's page among the pages for phones at an address."""
    return None if page is None else f"{page}/m/a/{approval_id}"


def creation_options(asked: Challenge, operator: str) -> dict[str, JsonValue]:
    """Return the options with which a browser creates a key."""
    return {
        "rp": {"id": asked.rp, "name": "Interlock"},
        "user": {
            "id": encoded(operator.encode()[:64]),
            "name": visible(operator),
            "displayName": visible(operator),
        },
        "challenge": asked.challenge,
        "pubKeyCredParams": [{"type": "public-key", "alg": alg} for alg in (-8, -7, -257)],
        "timeout": 60_000,
        "excludeCredentials": [{"type": "public-key", "id": each} for each in asked.credentials],
        "authenticatorSelection": {"residentKey": "preferred", "userVerification": "required"},
        "attestation": "none",
    }


def request_options(asked: Challenge) -> dict[str, JsonValue]:
    """Return the options with which a browser signs with a key."""
    return {
        "challenge": asked.challenge,
        "rpId": asked.rp,
        "timeout": 60_000,
        "allowCredentials": [{"type": "public-key", "id": each} for each in asked.credentials],
        "userVerification": "required",
    }


def _proof(entry: KeyEntry, answer: KeyAnswer, nonce: str) -> KeyProof:
    return KeyProof(
        credential=answer.credential,
        key=entry.key.key,
        rp=entry.key.rp,
        authenticator=answer.authenticator,
        client=answer.client,
        signature=answer.signature,
        nonce=nonce,
        enrolment=entry.hash,
    )
