"""Proofs of passkeys: the challenge that an operator signs, and the check of a signature.

A challenge is a hash over what was approved, by whom and in which request, so that a proof is valid for
nothing else. It can be computed again from the event. Checks do no I/O.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from ...core.people import person_key, same_person
from ...core.sanitize import visible
from ..model.records import EnrolledKey, KeyProof
from .canonical_json import canonical

MOST_BYTES = 4096
"""Maximum size of a part of a proof, in bytes."""


class KeyProofError(ValueError):
    """An invalid proof; the message says what does not match."""


def new_nonce() -> str:
    """Return a nonce that nobody can guess."""
    return secrets.token_urlsafe(24)


def encoded(data: bytes) -> str:
    """Encode bytes as base64url without padding, as browsers do."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Decode base64url text. Raises `KeyProofError`."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise KeyProofError("a part of the proof is not base64url") from error
    if len(data) > MOST_BYTES:
        raise KeyProofError(f"a part of the proof has {len(data)} bytes, more than {MOST_BYTES}")
    return data


# Challenges


@dataclass(frozen=True, slots=True)
class ApprovedRequest:
    """A request as an operator approves it; the digest covers input, requirement and rules."""

    session: str
    approval_id: str
    digest: str
    operator: str

    def challenge(self, nonce: str) -> bytes:
        """Return the challenge that the operator signs to approve it."""
        return _challenge(
            "approve",
            nonce,
            session=self.session,
            approval=self.approval_id,
            digest=self.digest,
            operator=self.operator,
        )


def request_digest(
    *,
    session: str,
    call_id: str,
    called: str,
    arguments: JsonValue,
    names: Iterable[str],
    tool: str,
    net: str,
    transition: str,
    people: int,
    rules: str,
    salt: str | None = None,
) -> str:
    """Return the digest of a request as shown: the call, what requires approval, the hash of its `rules`.

    Without the `salt` nobody can find a short input by trying values. Requests of older journals have no
    salt.
    """
    bound: dict[str, JsonValue] = {
        "session": session,
        "call": call_id,
        "called": called,
        "input": arguments,
        "names": list(names),
        "tool": tool,
        "net": net,
        "transition": transition,
        "people": people,
        "rules": rules,
    }
    if salt is not None:
        bound["salt"] = salt
    return sha256(canonical(bound).encode()).hexdigest()


def enrolment_challenge(operator: str, nonce: str) -> bytes:
    """Return the challenge with which a key is created for an operator."""
    return _challenge("enroll", nonce, operator=operator)


def confirmation_challenge(key: EnrolledKey, nonce: str) -> bytes:
    """Return the challenge that an operator signs with an earlier key to confirm a new one."""
    return _challenge(
        "confirm",
        nonce,
        operator=key.operator,
        credential=key.credential,
        key=key.key,
        origin=key.origin,
        name=key.name,
    )


def _challenge(act: str, nonce: str, **parts: JsonValue) -> bytes:
    bound: dict[str, JsonValue] = {"v": 1, "act": act, "nonce": nonce, **parts}
    return sha256(canonical(bound).encode()).digest()


# Checks


def rp_of(origin: str) -> str:
    """Return the domain of passkeys that are created on a page with this origin.

    Raises `KeyProofError` for a page on which browsers do not create passkeys.
    """
    try:
        parts = urlsplit(origin)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise KeyProofError(f"'{visible(origin)}' is no page's origin") from error
    if not host or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise KeyProofError(f"'{visible(origin)}' is no page's origin")
    if ":" in host or host.replace(".", "").isdigit():
        raise KeyProofError(
            f"passkeys need a host name, and {visible(host)} is an address: open the page under a name "
            "(interlock web --listen localhost:8738 on this machine, else a name of the certificate)"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host == "localhost"):
        raise KeyProofError(
            "browsers create passkeys on pages with TLS and on http://localhost, not on "
            f"{visible(origin)}: serve it with --certificate and --key"
        )
    return host


def check_proof(
    proof: KeyProof, challenge: bytes, *, origin: str | None = None, uses: int | None = None
) -> int:
    """Check a proof of this challenge; return the key's count of its own uses.

    `origin` is the page on which it must have been made, `uses` the last count known. Raises
    `KeyProofError`.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from webauthn import verify_authentication_response
    from webauthn.helpers.exceptions import WebAuthnException
    from webauthn.helpers.structs import AuthenticationCredential, AuthenticatorAssertionResponse

    client = decoded(proof.client)
    client_data = _client_data(client)
    if client_data.get("challenge") != encoded(challenge):
        raise KeyProofError("what was signed is another approval, or that of another person")
    page = client_data.get("origin")
    if not isinstance(page, str) or (origin is not None and page != origin):
        raise KeyProofError(f"it was signed on {visible(str(page))}, not on {visible(str(origin))}")
    if client_data.get("crossOrigin", False) is not False or "topOrigin" in client_data:
        raise KeyProofError("it was signed on a page embedded in another one")
    credential = decoded(proof.credential)
    assertion = AuthenticationCredential(
        id=proof.credential,
        raw_id=credential,
        response=AuthenticatorAssertionResponse(
            client_data_json=client,
            authenticator_data=decoded(proof.authenticator),
            signature=decoded(proof.signature),
        ),
    )
    try:
        verification = verify_authentication_response(
            credential=assertion,
            expected_challenge=challenge,
            expected_rp_id=proof.rp,
            expected_origin=page,
            credential_public_key=decoded(proof.key),
            credential_current_sign_count=uses or 0,
            require_user_verification=True,
        )
    except (WebAuthnException, UnsupportedAlgorithm, ValueError) as error:
        raise KeyProofError(visible(str(error)) or type(error).__name__) from error
    return verification.new_sign_count


def _client_data(client: bytes) -> Mapping[str, object]:
    try:
        members: object = json.loads(client.decode())
    except (ValueError, RecursionError) as error:
        raise KeyProofError("the client data is not JSON") from error
    if not isinstance(members, dict):
        raise KeyProofError("the client data is not an object")
    return cast("Mapping[str, object]", members)


# The log of keys


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A key in the log: the `hash` of its line, and when it was `removed`, in UTC milliseconds."""

    key: EnrolledKey
    hash: str
    at: int
    removed: int | None = None
    uses: int = 0

    def in_force(self, at: int | None = None) -> bool:
        """Return whether the key is valid, at a time or now."""
        if at is None:
            return self.removed is None
        return self.at <= at and (self.removed is None or at <= self.removed)


def check_enrolment(key: EnrolledKey, before: Iterable[KeyEntry]) -> None:
    """Check that a key may be added to its operator's keys; `before` are all keys enrolled so far.

    Raises `KeyProofError`.
    """
    operator_keys = [
        each for each in before if each.in_force() and same_person(each.key.operator, key.operator)
    ]
    if key.confirmed == "code":
        if operator_keys:
            raise KeyProofError(f"{visible(key.operator)} has a key already, which did not confirm it")
        return
    proof = key.proof
    if proof is None:
        raise KeyProofError("the proof of an earlier key is missing")
    earlier = next((each for each in operator_keys if each.key.credential == proof.credential), None)
    if earlier is None or (earlier.key.key, earlier.key.rp) != (proof.key, proof.rp):
        raise KeyProofError("no earlier key of the same operator confirms it")
    check_proof(proof, confirmation_challenge(key, proof.nonce), origin=earlier.key.origin)


def check_approval(
    request: ApprovedRequest, proof: KeyProof, at: int, known: Mapping[str, KeyEntry] | None
) -> None:
    """Check the proof of an approval that was recorded at a time, in UTC milliseconds.

    `known` are the keys of the log, by the hash of their line; `None` without a log. Raises
    `KeyProofError`.
    """
    check_proof(proof, request.challenge(proof.nonce))
    if known is None:
        return
    entry = known.get(proof.enrolment)
    if entry is None:
        raise KeyProofError("the log of keys has no such enrolment")
    if (entry.key.credential, entry.key.key, entry.key.rp) != (proof.credential, proof.key, proof.rp):
        raise KeyProofError("the key is not the one that was enrolled")
    if person_key(entry.key.operator) != person_key(request.operator):
        raise KeyProofError(f"the key is {visible(entry.key.operator)}'s")
    if not entry.in_force(at):
        raise KeyProofError("the key was not in force then")
    check_proof(proof, request.challenge(proof.nonce), origin=entry.key.origin)
