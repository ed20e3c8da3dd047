"""Tabs of the page: each has shown its login's key, and what it was shown of a request is known here.

All of it is in memory. A program that listens in place of the server gets a tab's secret and can do
nothing with it once the server is back.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ....engine.history.redaction.hidden_text import RevealedText
from ...screens.common.guarded_keys import ASLEEP
from ...viewmodels.request import ClaimWarning, OperatorDecision
from ..browser_key import is_signed, new_challenge
from ..logins import Login

MOST_TABS = 256
"""Tabs that are known at a time; one more forgets the oldest, which shows its key again."""
MOST_CHALLENGES = 256
CHALLENGE_LIFETIME = 60.0
"""Seconds in which a challenge has to be signed."""
MOST_SHOWN = 50
"""Requests that a tab may have open."""


@dataclass(frozen=True, slots=True)
class Review:
    """A decision with changes or a grant, as it was shown before it may be sent."""

    token: str
    at: float
    decision: OperatorDecision


@dataclass(slots=True)
class ShownRequest:
    """A request as a tab shows it: its digest, since when, and what was shown besides.

    `claims` are those of other people that the tab was warned of.
    """

    digest: str | None
    at: float
    revealed: tuple[RevealedText, ...] = ()
    review: Review | None = None
    claims: ClaimWarning | None = None


@dataclass(slots=True)
class PhoneTab:
    """A tab of a login; `freeze` is the stamp of the freeze that it shows, and since when."""

    login: Login
    clock: Callable[[], float]
    shown: dict[str, ShownRequest] = field(default_factory=dict[str, ShownRequest])
    freeze: tuple[str, float] = ("", 0.0)

    def show_freeze(self, stamp: str) -> None:
        """Note that a freeze is shown, or by an empty stamp that there is none."""
        if stamp != self.freeze[0]:
            self.freeze = stamp, self.clock()

    def show(self, request_id: str, digest: str | None) -> ShownRequest:
        """Note that a request is shown. Of another digest nothing was shown before."""
        before = self.shown.pop(request_id, None)
        known = before is not None and before.digest == digest
        now = before if known and before is not None else ShownRequest(digest, self.clock())
        self.shown[request_id] = now
        while len(self.shown) > MOST_SHOWN:
            del self.shown[next(iter(self.shown))]
        return now

    def review(self, request_id: str, decision: OperatorDecision) -> Review:
        """Note that a decision is shown for review, in place of any other on this request."""
        review = Review(secrets.token_urlsafe(16), self.clock(), decision)
        self.shown[request_id].review = review
        return review

    def is_early(self, at: float) -> bool:
        """Tell whether what was shown then cannot have been read yet."""
        return self.clock() - at < ASLEEP


class PhoneTabs:
    """Tabs by the digest of their secret, and the challenges that new ones have to sign."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tabs: dict[str, PhoneTab] = {}
        self._challenges: dict[str, tuple[str, float]] = {}

    def challenge(self, login: Login) -> str:
        """A challenge for one tab of a login."""
        challenge = new_challenge()
        self._challenges[challenge] = login.id, self._clock() + CHALLENGE_LIFETIME
        while len(self._challenges) > MOST_CHALLENGES:
            del self._challenges[next(iter(self._challenges))]
        return challenge

    def open(self, login: Login, origin: str, challenge: str, signature: str) -> str | None:
        """The secret of a new tab, or `None` where the signature is not by the login's key."""
        owner, ends = self._challenges.pop(challenge, ("", 0.0))
        if owner != login.id or ends <= self._clock():
            return None
        if not is_signed(login.key, origin, challenge, signature, use="phone"):
            return None
        secret = secrets.token_urlsafe(32)
        self._tabs[_digest(secret)] = PhoneTab(login, self._clock)
        while len(self._tabs) > MOST_TABS:
            del self._tabs[next(iter(self._tabs))]
        return secret

    def find(self, secret: str, login: Login) -> PhoneTab | None:
        """The tab of a secret, if it is one of this login's."""
        tab = self._tabs.get(_digest(secret))
        return tab if tab is not None and tab.login.id == login.id else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
