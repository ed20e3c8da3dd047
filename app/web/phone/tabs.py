"""Tabs of the page: each has proved its login's key; what it was shown of each request is stored.

All of it is in memory. A program that listens in place of the server receives a tab's secret, which is
useless once the server is back.
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
"""Maximum number of tabs; a further one forgets the oldest, which has to prove its key again."""
MOST_CHALLENGES = 256
CHALLENGE_LIFETIME = 60.0
"""Seconds within which a challenge has to be signed."""
MOST_SHOWN = 50
"""Maximum number of requests that a tab may have open."""


@dataclass(frozen=True, slots=True)
class Review:
    """A decision with changes or a grant, as shown before it may be sent."""

    token: str
    at: float
    decision: OperatorDecision


@dataclass(slots=True)
class ShownRequest:
    """A request as shown in a tab: its digest, since when, and what else was shown.

    `claims` tracks the claims of other people that the tab was warned of.
    """

    digest: str | None
    at: float
    revealed: tuple[RevealedText, ...] = ()
    review: Review | None = None
    claims: ClaimWarning | None = None


@dataclass(slots=True)
class PhoneTab:
    """A tab of a login; `freeze` is the stamp of the freeze that it shows, and the time since when."""

    login: Login
    clock: Callable[[], float]
    shown: dict[str, ShownRequest] = field(default_factory=dict[str, ShownRequest])
    freeze: tuple[str, float] = ("", 0.0)

    def show_freeze(self, stamp: str) -> None:
        """Record that a freeze is shown; an empty stamp means that there is none."""
        if stamp != self.freeze[0]:
            self.freeze = stamp, self.clock()

    def show(self, request_id: str, digest: str | None) -> ShownRequest:
        """Record that a request is shown. With another digest it counts as newly shown."""
        before = self.shown.pop(request_id, None)
        known = before is not None and before.digest == digest
        now = before if known and before is not None else ShownRequest(digest, self.clock())
        self.shown[request_id] = now
        while len(self.shown) > MOST_SHOWN:
            del self.shown[next(iter(self.shown))]
        return now

    def review(self, request_id: str, decision: OperatorDecision) -> Review:
        """Record that a decision is shown for review, replacing any other on this request."""
        review = Review(secrets.token_urlsafe(16), self.clock(), decision)
        self.shown[request_id].review = review
        return review

    def is_early(self, at: float) -> bool:
        """Return whether something shown at this time cannot have been read yet."""
        return self.clock() - at < ASLEEP


class PhoneTabs:
    """Tabs by the digest of their secret, and the challenges that new tabs have to sign."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tabs: dict[str, PhoneTab] = {}
        self._challenges: dict[str, tuple[str, float]] = {}

    def challenge(self, login: Login) -> str:
        """Create a challenge for one tab of a login."""
        challenge = new_challenge()
        self._challenges[challenge] = login.id, self._clock() + CHALLENGE_LIFETIME
        while len(self._challenges) > MOST_CHALLENGES:
            del self._challenges[next(iter(self._challenges))]
        return challenge

    def open(self, login: Login, origin: str, challenge: str, signature: str) -> str | None:
        """Return the secret of a new tab, or `None` if the signature is not by the login's key."""
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
        """Return the tab of a secret, if it belongs to this login."""
        tab = self._tabs.get(_digest(secret))
        return tab if tab is not None and tab.login.id == login.id else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
