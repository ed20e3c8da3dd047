"""G-67: the live screen's banner of rules switched off, or proposed to be, in any session."""

from __future__ import annotations

from datetime import timedelta

import pytest

from interlock.app.screens.live.loosen import MOST_LINES, banner
from interlock.engine.history.model.state import ChangeState, SessionState, SwitchState

from ...support.scenes import NOW, cleanup, docs_writer, nightly_sync, release_bot
from ...support.stage import stage

ADA = SwitchState(by="ada", others=("ben",), at=NOW, reason="too much noise")
TIMED = SwitchState(by="ada", at=NOW, reason="a drill", until=NOW + timedelta(minutes=10))


def proposed(net: str | None, by: str = "cleo") -> ChangeState:
    return ChangeState(
        id=f"{by}-{net}",
        net=net,
        by=by,
        at=NOW,
        reason="a release",
        people=2,
        expires=NOW + timedelta(minutes=15),
        given=(by,),
        tokens=(None,),
    )


def switched(state: SessionState, *, off: int = 0, shadow: bool = False, wanted: int = 0) -> SessionState:
    """Give the session that many rules off, shadow mode, and that many proposals."""
    state.off = {f"block-{n}": ADA for n in range(off)}
    state.shadowed = TIMED if shadow else None
    state.changes = {change.id: change for n in range(wanted) if (change := proposed(f"limit-{n}"))}
    return state


def lines(state: SessionState | None, *others: SessionState, width: int = 76) -> list[str]:
    found = banner(state, {other.agent: other for other in others}, width)
    return [] if found is None else found.plain.split("\n")


class TestOnScreen:
    @pytest.mark.variants
    @pytest.mark.parametrize("size", [(80, 24), (60, 24), (120, 40)])
    async def test_rule_off_here_is_shown_and_others_are_counted(self, size: tuple[int, int]) -> None:
        """The banner shows this session's rule off with operator and reason, and counts the others."""
        here = switched(release_bot(), off=1)
        async with stage(here, switched(docs_writer(), off=2), nightly_sync(), size=size) as on:
            await on.until("! block-0 is off, by ben, ada: too much noise")
            assert "! 2 off in 1 other session" in on.painted()
            if size[0] >= 80:
                assert "(docs-writer: block-0, block-1)" in on.painted()
            before = on.app.screen.query_one("#switched").size.height
            assert before == 2

    @pytest.mark.slow
    async def test_rule_off_in_another_session_is_shown(self) -> None:
        """If only another session has something off, the banner shows it until it is on again."""
        other = switched(docs_writer(), shadow=True)
        async with stage(release_bot(), other) as on:
            await on.until("! 1 off in 1 other session (docs-writer: shadow mode)")
            other.shadowed = None
            await on.app.screen.paint()
            await on.settle()
            assert not on.app.screen.query_one("#switched").display

    @pytest.mark.slow
    async def test_no_banner_with_all_rules_on(self) -> None:
        """With all rules on there is no banner."""
        async with stage(release_bot(), docs_writer()) as on:
            assert not on.app.screen.query_one("#switched").display


class TestLines:
    def test_no_lines_with_all_rules_on(self) -> None:
        """Sessions with all rules on take no line."""
        assert lines(release_bot(), docs_writer()) == []
        assert lines(None) == []

    def test_end_time_and_proposals_are_shown(self) -> None:
        """The banner shows an end time, and proposals here and in other sessions."""
        found = lines(switched(release_bot(), shadow=True, wanted=1), switched(docs_writer(), wanted=1))
        assert found[0].startswith("! shadow mode, nothing is blocked until ")
        assert "cleo proposes: turn off limit-0; confirmed by 1 of 2" in found[1]
        assert found[2] == "? 1 proposed in 1 other session (docs-writer: turn off limit-0)"

    def test_number_of_lines_is_limited(self) -> None:
        """The banner never exceeds its maximum of lines, and each count is complete."""
        here = switched(release_bot(), off=7, wanted=2)
        found = lines(here, switched(docs_writer(), off=1, wanted=1), switched(cleanup(), off=3))
        assert len(found) == MOST_LINES
        assert found[0].startswith("! block-0 is off")
        assert found[1].startswith("! 8 more: block-1 is off; block-2 is off")
        assert found[2].startswith("! 4 off in 2 other sessions")
        assert found[3].startswith("? 1 proposed in 1 other session")
        assert all(len(line) <= 76 for line in found)

    def test_other_sessions_are_named_as_space_allows(self) -> None:
        """Other sessions are named with their nets if these fit, else by name only, cut at the edge."""
        others = [
            switched(docs_writer(), off=3),
            switched(nightly_sync(), off=3),
            switched(cleanup(), off=3),
        ]
        [wide] = lines(None, *others, width=150)
        assert "nightly-sync: block-0, block-1, block-2; cleanup: block-0" in wide
        [middle] = lines(None, *others, width=76)
        assert middle == "! 9 off in 3 other sessions (docs-writer: block-0, block-1, block-2; …)"
        [narrow] = lines(None, *others, width=50)
        assert narrow == "! 9 off in 3 other sessions: docs-writer, nightly…"

    def test_names_are_shown_as_text(self) -> None:
        """Control characters in a net's name are shown as text."""
        state = release_bot()
        state.off = {"a\x1b[2Jb": ADA}
        [line] = lines(state)
        assert "\x1b" not in line
