"""Hub API for the passkeys of operators: enrolment, listing, removal, and challenges for approvals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ..approvals.answer_checks import NO_KEYS
from ..approvals.open_request import Reply
from ..approvals.passkeys import (
    KeyAnswer,
    NewKey,
    Passkeys,
    creation_options,
    request_options,
)
from ..approvals.policy import Credential
from ..history.audit.passkeys import KeyEntry, KeyProofError
from .api import KeyRequest, Outcome, PasskeyList, PasskeyView
from .operator_api import OperatorActions

NOBODY = "this needs the name of an operator"


def passkey_list(entries: Iterable[KeyEntry], faults: tuple[str, ...]) -> PasskeyList:
    """Return the passkeys of a log's entries, with the faults of the log."""
    views = tuple(
        PasskeyView(
            passkey=each.key.credential,
            operator=each.key.operator,
            name=each.key.name,
            origin=each.key.origin,
            at=each.key.at,
            confirmed=each.key.confirmed,
        )
        for each in entries
    )
    return PasskeyList(passkeys=views, faults=faults)


class PasskeyApi(OperatorActions):
    """Part of a hub that has the passkeys of its operators."""

    @property
    def keys(self) -> Passkeys:
        """The passkeys. Raises `KeyProofError` for a hub without passkeys."""
        if self._live.tokens.keys is None:
            raise KeyProofError(NO_KEYS)
        return self._live.tokens.keys

    def serve_keys(self, page: str | None, announce: Callable[[str], None] | None) -> None:
        """Set the address of the pages for phones, and how codes are shown at this process's terminal.

        Without `announce` no operator can enroll a first key here.
        """
        if page is not None:
            self.keys.page = page
        self.keys.announce = announce

    @property
    def web_page(self) -> str | None:
        """Address of the pages for phones, if it is known."""
        return None if self._live.tokens.keys is None else self._live.tokens.keys.page

    def key_link(self, approval_id: str) -> str | None:
        keys = self._live.tokens.keys
        return None if keys is None else keys.link(approval_id)

    async def passkeys(self) -> PasskeyList:
        keys = self._live.tokens.keys
        if keys is None:
            return PasskeyList(passkeys=())
        try:
            await asyncio.to_thread(keys.read_on)
        except KeyProofError as error:
            return passkey_list(keys.in_force(), (*keys.faults, str(error)))
        return passkey_list(keys.in_force(), keys.faults)

    async def challenge_key(
        self,
        approval_id: str,
        *,
        digest: str | None,
        origin: str,
        by: str,
        credential: Credential | None = None,
    ) -> KeyRequest:
        hosted = self._asker(approval_id)
        found = None
        if hosted is not None:
            found = hosted.questions.checks.key_challenge(
                approval_id, digest or "", by, origin, credential
            )
        match found:
            case None:
                return KeyRequest(ok=False, message=self._no_longer(approval_id, by).message)
            case Reply():
                return KeyRequest(ok=False, message=found.message)
            case _:
                return KeyRequest(ok=True, message="", id=found.id, options=request_options(found))

    async def begin_key(
        self, *, origin: str, by: str, credential: Credential | None = None
    ) -> KeyRequest:
        problem = self._overstepped(by, credential)
        if problem is not None:
            return KeyRequest(ok=False, message=f"Not enrolled: {problem}")
        try:
            found = self.keys.begin(by.strip(), origin)
        except KeyProofError as error:
            return KeyRequest(ok=False, message=f"Not enrolled: {error}")
        return KeyRequest(ok=True, message="", id=found.id, options=creation_options(found, by.strip()))

    async def register_key(
        self, key: NewKey, *, by: str, credential: Credential | None = None
    ) -> KeyRequest:
        problem = self._overstepped(by, credential)
        if problem is not None:
            return KeyRequest(ok=False, message=f"Not enrolled: {problem}")
        try:
            found = self.keys.register(by.strip(), key)
        except KeyProofError as error:
            return KeyRequest(ok=False, message=f"Not enrolled: {error}")
        if found is None:
            message = "The key is made. A code for it stands in the terminal of the server: type it here"
            return KeyRequest(ok=True, message=message, id=key.id)
        message = "The key is made. Confirm it with an earlier one"
        return KeyRequest(ok=True, message=message, id=found.id, options=request_options(found))

    async def confirm_key(
        self,
        key_id: str,
        *,
        code: str = "",
        passkey: KeyAnswer | None = None,
        by: str,
        credential: Credential | None = None,
    ) -> Outcome:
        problem = self._overstepped(by, credential)
        if problem is not None:
            return Outcome(ok=False, message=f"Not enrolled: {problem}")
        try:
            name = self.keys.confirm(by.strip(), key_id, code=code, answer=passkey)
        except (KeyProofError, OSError) as error:
            return Outcome(ok=False, message=f"Not enrolled: {error}")
        return Outcome(ok=True, message=f"Passkey '{name}' is enrolled")

    async def remove_key(self, passkey: str, *, by: str, credential: Credential | None = None) -> Outcome:
        problem = self._overstepped(by, credential)
        if problem is not None:
            return Outcome(ok=False, message=f"Not removed: {problem}")
        try:
            name = self.keys.remove(passkey, by.strip())
        except (KeyProofError, OSError) as error:
            return Outcome(ok=False, message=f"Not removed: {error}")
        return Outcome(ok=True, message=f"Passkey '{name}' is removed")

    def _overstepped(self, by: str, credential: Credential | None) -> str | None:
        if not by.strip():
            return NOBODY
        return self._live.tokens.overstepped(by.strip(), credential, "decide")
