"""Login links that work once, and the logins that they create."""

from __future__ import annotations

import pytest

from interlock.app.web.logins import (
    LINK_LIFETIME,
    LOGIN_LIFETIME,
    LONGEST_LOGIN,
    MAX_LOGINS,
    RENEWED_AFTER,
    Logins,
    browser_name,
)

from .fronts import KEY as PRIVATE
from .fronts import shown

KEY = shown(PRIVATE)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TestLinks:
    def test_a_link_gives_a_cookie_once(self) -> None:
        """A link can be redeemed only once."""
        logins = Logins()
        secret = logins.link()
        cookie = logins.redeem(secret, KEY)
        assert cookie is not None
        assert logins.redeem(secret, KEY) is None
        assert logins.find(cookie) is not None

    def test_new_link_ends_the_previous_one(self) -> None:
        """Only the latest link is valid."""
        logins = Logins()
        first, second = logins.link(), logins.link()
        assert logins.redeem(first, KEY) is None
        assert logins.redeem(second, KEY) is not None

    def test_wrong_secret_does_not_invalidate_the_link(self) -> None:
        """A wrong secret does not invalidate the link."""
        logins = Logins()
        secret = logins.link()
        assert logins.redeem("", KEY) is None
        assert logins.redeem(secret[:-1], KEY) is None
        assert logins.redeem("\udcff\ud800", KEY) is None
        assert logins.redeem(secret, KEY) is not None

    def test_link_expires(self) -> None:
        """A link expires after its lifetime."""
        clock = Clock()
        logins = Logins(clock)
        early, late = logins.link(), None
        clock.now += LINK_LIFETIME - 1
        assert logins.redeem(early, KEY) is not None
        late = logins.link()
        clock.now += LINK_LIFETIME
        assert logins.redeem(late, KEY) is None


class TestLogins:
    def test_login_expires(self) -> None:
        """A login is valid for its lifetime and no longer."""
        clock = Clock()
        logins = Logins(clock)
        cookie = logins.redeem(logins.link(), KEY)
        assert cookie is not None
        login = logins.find(cookie)
        assert login is not None
        clock.now += LOGIN_LIFETIME - 1
        assert logins.holds(login)
        clock.now += 1
        assert logins.find(cookie) is None
        assert not logins.holds(login)

    def test_logging_out_ends_one_login_only(self) -> None:
        """Logging out ends one login; another browser stays logged in."""
        logins = Logins()
        mine, other = logins.redeem(logins.link(), KEY), logins.redeem(logins.link(), KEY)
        assert mine is not None
        assert other is not None
        logins.end(mine)
        assert logins.find(mine) is None
        assert logins.find(other) is not None

    def test_no_secret_is_kept(self) -> None:
        """Neither link nor cookie is kept in memory as plain text."""
        logins = Logins()
        cookie = logins.redeem(logins.link(), KEY)
        assert cookie is not None
        secret = logins.link()
        kept = repr(vars(logins))
        assert cookie not in kept
        assert secret not in kept

    def test_number_of_logins_is_limited(self) -> None:
        """A login above the limit ends the oldest."""
        logins = Logins()
        cookies = [logins.redeem(logins.link(), KEY) or "" for _ in range(MAX_LOGINS + 1)]
        assert logins.find(cookies[0]) is None
        assert all(logins.find(cookie) for cookie in cookies[1:])

    def test_provider_logins_end_only_those_of_their_operator(self) -> None:
        """An operator with too many provider logins ends only their own."""
        logins = Logins()
        link = logins.redeem(logins.link(), KEY) or ""
        ada = logins.admit(KEY, "Firefox", "ada", "of-ada", float("inf"))
        for number in range(2 * MAX_LOGINS):
            latest = logins.admit(KEY, "Firefox", "eve", f"of-eve-{number}", float("inf"))
        found = [logins.find(each) for each in (link, ada, latest)]
        assert [each and each.operator for each in found] == ["", "ada", "eve"]


class TestRenewal:
    def test_gives_another_cookie_and_more_time(self) -> None:
        """A renewed login outlasts its first lifetime and keeps its id and start."""
        clock = Clock()
        logins = Logins(clock)
        first = logins.redeem(logins.link(), KEY) or ""
        before = logins.find(first)
        assert before is not None
        clock.now += RENEWED_AFTER - 1
        assert logins.renew(first) is None
        clock.now += 1
        second = logins.renew(first) or ""
        clock.now += LOGIN_LIFETIME - 1
        after = logins.find(second)
        assert after is not None
        assert (after.id, after.begun) == (before.id, before.begun)
        assert logins.holds(before)

    def test_ends_the_old_cookie_with_the_first_use_of_the_new_one(self) -> None:
        """The old cookie stays valid until the browser uses the new one, since the answer may be lost."""
        clock = Clock()
        logins = Logins(clock)
        first = logins.redeem(logins.link(), KEY) or ""
        clock.now += RENEWED_AFTER
        lost = logins.renew(first) or ""
        assert logins.find(first) is not None
        clock.now += RENEWED_AFTER
        second = logins.renew(first) or ""
        assert logins.find(lost) is None
        assert logins.find(second) is not None
        assert logins.find(first) is None

    def test_is_limited_to_thirty_days(self) -> None:
        """A login cannot be renewed beyond thirty days."""
        clock = Clock()
        logins = Logins(clock)
        cookie = logins.redeem(logins.link(), KEY) or ""
        begun = clock.now
        while logins.find(cookie) is not None:
            clock.now += RENEWED_AFTER
            cookie = logins.renew(cookie) or cookie
        assert LONGEST_LOGIN <= clock.now - begun <= LONGEST_LOGIN + RENEWED_AFTER

    def test_logging_out_ends_both_cookies(self) -> None:
        """Logging out with one cookie ends the login's other cookie."""
        clock = Clock()
        logins = Logins(clock)
        first = logins.redeem(logins.link(), KEY) or ""
        clock.now += RENEWED_AFTER
        second = logins.renew(first) or ""
        logins.end(first)
        assert logins.find(second) is None


class TestNames:
    @pytest.mark.parametrize(
        ("agent", "name"),
        [
            ("Mozilla/5.0 (Linux; Android 14) Chrome/130 Mobile Safari/537.36", "Chrome on Android"),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17 like Mac OS X) Safari/604", "Safari on iPhone"),
            ("<script>", "another program"),
        ],
    )
    def test_browser_names_come_from_a_fixed_list(self, agent: str, name: str) -> None:
        """A browser's name is one of a fixed list, whatever its user agent says."""
        assert browser_name(agent) == name
