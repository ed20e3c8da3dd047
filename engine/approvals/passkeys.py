"""Passkeys of a hub's operators: who has which, the challenges that are open, and checks of their proofs.

Keys are read from the log beside the journal when the hub starts, and never again: a line that another
program adds meanwhile enrolls nothing. Challenges are made here, for one use and a short while.
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
"""Challenges at a time; one more forgets the oldest."""
MOST_OPEN_EACH = 32
"""Challenges of one operator at a time: who asks for many forgets their own, and nobody else's."""
MOST_CODES = 10
"""Codes of one operator within `CODES_WITHIN`: each is good for `MOST_TRIES` guesses, and is shown."""
CODES_WITHIN = timedelta(hours=1)
MOST_KEYS = 20
"""Keys of one operator."""
MOST_TRIES = 5
"""Wrong codes, after which a key has to be made anew."""
LONGEST_NAME = 40
GIVEN_UP = "the name was given up"
"""Said instead of a remover of keys whose name has no holder any more."""
LOST = "This challenge was used before, or is too old: try again"

log = logging.getLogger(__name__)


class KeyAnswer(BaseModel):
    """A browser's answer to the challenge of this `id`. Bytes are base64url."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(max_length=100)
    credential: str = Field(max_length=2000)
    authenticator: str = Field(max_length=6000)
    client: str = Field(max_length=6000)
    signature: str = Field(max_length=6000)


class NewKey(BaseModel):
    """A key that a browser made, by the `id` of the challenge. Bytes are base64url."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(max_length=100)
    name: str = Field(min_length=1, max_length=LONGEST_NAME)
    credential: str = Field(max_length=2000)
    attestation: str = Field(max_length=20_000)
    client: str = Field(max_length=6000)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge as a browser gets it: with `credentials` to sign with, or to leave out."""

    id: str
    challenge: str
    rp: str
    credentials: tuple[str, ...]


@dataclass(slots=True)
class _Open:
    """An open challenge: what for, by whom, on which page, and the key that waits to be confirmed."""

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

    `announce` shows a person at the terminal of this process a code; without one nobody enrolls a first
    key. `page` is the address of the pages for phones, where it is known: keys are then made and used
    there only. `given_up` is when a holder last gave a name up, `None` if never: keys that were enrolled
    under it until then count for nobody who has the name next.
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
        """The keys in force, oldest first. Those of names that were given up are removed from the log."""
        return [each for each in self._history.in_force() if not self._was_given_up(each)]

    def _was_given_up(self, entry: KeyEntry) -> bool:
        """Tell whether the holder of a key gave their name up since; so it is where nobody can tell."""
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
        """The keys of an operator."""
        return [each for each in self.in_force() if same_person(each.key.operator, operator)]

    def holds(self, operator: str, credential: str | None) -> bool:
        """Tell whether a key is still this operator's; so is none where the log cannot be read."""
        try:
            self._read_on()
        except KeyProofError:
            log.exception(
                "It is not known whether a key of '%s' was removed: it counts no more", operator
            )
            return False
        return any(each.key.credential == credential for each in self.keys_of(operator))

    def link(self, approval_id: str) -> str | None:
        """The page of a request, where a key can be used; `None` where no address is known."""
        return page_link(self.page, approval_id)

    def remedy(self, approval_id: str) -> str:
        """Sentence on where a request is approved with a key."""
        link = self.link(approval_id)
        if link is None:
            return (
                "that is done on the page for phones: run `interlock web` for these agents, and open the "
                "request there on the device that has your key ([gateway] page says where that is)"
            )
        return f"open {link} on the device that has your key"

    def _read_on(self) -> None:
        """Take in what other servers have noted of keys since. Raises `KeyProofError`."""
        try:
            self._history = self._log.newer(self._history)
        except OSError as error:
            raise KeyProofError(f"the log of keys cannot be read: {error}") from error

    # Approvals

    def challenge(self, request: ApprovedRequest, origin: str) -> Challenge:
        """A challenge for the approval of a request. Raises `KeyProofError`."""
        self._read_on()
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
        """The proof that an operator has a key of theirs, by an answer to a challenge for this request.

        A challenge counts once. Raises `KeyProofError`.
        """
        if answer is None:
            raise KeyProofError("its rule asks for a passkey")
        self._read_on()
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
        """Note how often a key was used, of those that count it. Raises `KeyProofError`."""
        if uses > entry.uses:
            try:
                self._history = self._log.note_uses(entry.key.credential, uses, self._history)
            except OSError as error:
                raise KeyProofError(f"the log of keys cannot be written: {error}") from error

    # Enrolment

    def begin(self, operator: str, origin: str) -> Challenge:
        """A challenge with which a browser makes a key. Raises `KeyProofError`."""
        self._read_on()
        rp = self._check_page(origin)
        own = self.keys_of(operator)
        if len(own) >= MOST_KEYS:
            raise KeyProofError(f"{operator} has {len(own)} keys, the most there may be: remove one")
        opened = self._begin("enroll", operator, origin)
        return self._shown(opened, enrolment_challenge(operator, opened[1].nonce), rp, own)

    def register(self, operator: str, new: NewKey) -> Challenge | None:
        """Take a key that was made, and ask for its confirmation: a challenge for an earlier key.

        For the first one `None`: a code is shown in the terminal of this process. Raises `KeyProofError`.
        """
        from webauthn import verify_registration_response
        from webauthn.helpers.exceptions import WebAuthnException
        from webauthn.helpers.structs import AuthenticatorAttestationResponse, RegistrationCredential

        self._read_on()
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
        """Note that an operator gets another code. Raises `KeyProofError` where that were too many."""
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
        """Enroll a key that was made, by its code or an earlier key. Returns its name.

        Raises `KeyProofError`, and `OSError` where it cannot be written down.
        """
        self._read_on()
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
        # What was made some minutes ago counts from now on.
        self._history = self._log.enroll(key, self._history)
        log.warning("passkey '%s' of %s is enrolled", visible(key.name), visible(key.operator))
        if self.announce is not None:
            by = "by a code" if key.confirmed == "code" else "by an earlier key"
            self.announce(
                f"passkey '{visible(key.name)}' of {visible(key.operator)} is enrolled, confirmed {by}"
            )
        return key.name

    def remove(self, credential: str, by: str) -> str:
        """Remove a key of one's own; returns its name. Raises `KeyProofError`, and `OSError`."""
        self._read_on()
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
        """An open challenge, which counts no more. Raises `KeyProofError`."""
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
    """The page of a request among the pages for phones at an address."""
    return None if page is None else f"{page}/m/a/{approval_id}"


def creation_options(asked: Challenge, operator: str) -> dict[str, JsonValue]:
    """The options with which a browser makes a key."""
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
    """The options with which a browser signs with a key."""
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
