"""Recorded text cannot style, hide or imitate the decisions screen."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from interlock.engine.history.journal.journal import Journal
from interlock.engine.history.model.records import RuleRecord
from tests.support.decisions import Ticking, asked, call, ended, opened
from tests.support.laws import pairs

from ...support.clicks import clicks_of_others
from ..approval.test_spoofing import SIZES, TEXTS
from .decisions_world import Desk, desk


def hostile(path: Path, text: str) -> Path:
    """A journal with `text` in every untrusted place."""
    session = text[:200]
    rule = RuleRecord(file=text, line=5, text=text)
    with Journal.open(path, clock=Ticking()) as journal:
        journal.write(session, opened(text, "shadow"))
        more = {"net": text, "rule": rule, "reason": text, "via": session, "tool": text}
        given = {"input": {text: text, "list": [text]}, **more}
        journal.write(session, call("c1", text, text, "block", mode="shadow", **given))
        journal.write(session, ended("c1"))
        journal.write(session, call("c2", text, text, "block", **given))
        journal.write(session, *asked("c3", text, approved=False, by=text))
        journal.write(session, call("c3", text, text, "block", **more))
        journal.write(session, call("c4", text, text, approved_by=(text,), **more))
    return path


def assert_harmless(on: Desk) -> None:
    """Check that the screen holds no control, format or private character and keeps its width."""
    for line in on.painted().split("\n"):
        strange = {c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")}
        assert strange == set()
    for row in on.app.screen._compositor.render_strips():
        assert row.cell_length == on.app.size.width
    assert clicks_of_others(on.app) == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "text"), pairs(SIZES, TEXTS))
async def test_hostile_text_is_shown_as_text_everywhere(
    tmp_path: Path, text: str, size: tuple[int, int]
) -> None:
    """Markup, escape sequences, bidi, zero-width and a long text, in the list and in every panel."""
    async with desk(hostile(tmp_path / "j.db", text), size) as on:
        await on.until("4 decisions", "S Shadow")
        for keys in (
            ("down",),
            ("enter",),
            ("end",),
            ("escape",),
            ("g",),
            ("g",),
            ("g",),
            ("s",),
            ("end",),
        ):
            await on.press(*keys)
            await on.app.workers.wait_for_complete()
            await on.pilot.pause(0.05)
            assert_harmless(on)
        await on.press("escape", "g")
        await on.until("by rule")
        await on.press("enter")
        await on.pilot.pause(0.1)
        assert_harmless(on)


async def test_filter_is_never_markup(tmp_path: Path) -> None:
    """A typed filter and its error message are never markup."""
    async with desk(hostile(tmp_path / "j.db", "x")) as on:
        await on.filter("[/x] [@click=app.quit]verdict [bold]:x verdict:[/y]")
        await on.until("'[/y]' is not a verdict")
        assert_harmless(on)
