"""Half-written texts: every request of an editor gets an answer, whatever the text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.app.lsp.analysis import analyse
from interlock.app.lsp.completion import proposals
from interlock.app.lsp.hover import hover_text
from interlock.app.lsp.messages import diagnostics
from interlock.app.lsp.navigation import (
    RenameError,
    definitions,
    outline,
    references,
    renamed,
    used_file,
)
from interlock.app.lsp.positions import TextPositions
from interlock.app.lsp.quick_fixes import fixes
from interlock.rules.library import LIBRARY
from tests.support.laws import examples

ALL = """\
let team = ["ada@x.org", 'x']
let payees = lines "none.txt"
map bash.command /^deploy( |$)/ as deploy # "
map shell bash.command ./x as ship because
require lint or test before deploy because "so # so"
require human-approval before send by 2 within 10m no grants when every input.to in team
after read_web require human-approval before send when not (input.a = "é😀" or input.b is missing)
limit deploy to 2 per 1h when input.to not from user, contacts
block rm after read_web
allow unclear bash
"""
SCENARIOS = """\
use a.rules "b c.rules"
scenario "x"
  call bash command "./x" fails
  expect block "x"
  wait 1h
"""
FILES = {"a.rules": ALL, "a_test.rules": SCENARIOS}
LETTERS = st.sampled_from([*' ."#,()[]=<>!/\\\n\r\t\0~é😀\u0301\u202e\u2028\ufeff\ud800', *"input.whe"])


def ask_everything(file: str, text: str, line: int, character: int) -> None:
    """Ask all requests of an editor at a position, and check that each answer lies in the text."""
    positions = TextPositions(text)
    place = positions.place(line, character)
    found = analyse(file, text)
    for each in diagnostics(found, positions):
        first, last = each.range.start, each.range.end
        assert (0, 0) <= (first.line, first.character) <= (last.line, last.character)
        assert last.line <= len(text.splitlines())
    hover_text(found, *place)
    for each in proposals(file, text, *place):
        assert 1 <= each.start <= place[1]
    for name in (*references(file, text, *place), *definitions(file, text, *place)):
        assert text.split("\n")[name.line - 1][name.column - 1 : name.end - 1] == name.name
    list(outline(file, text))
    used_file(file, text, *place)
    for problem in (*found.errors, *found.warnings):
        list(fixes(text, problem))
    with suppress(RenameError):
        renamed(found, *place, "crew")


class TestHalfWritten:
    @pytest.mark.slow
    @pytest.mark.parametrize("file", FILES)
    def test_is_answered_at_every_character(self, file: str) -> None:
        """A file that is typed character by character gets answers after each of them."""
        text = FILES[file]
        for length in range(len(text) + 1):
            typed = text[:length]
            ask_everything(file, typed, typed.count("\n"), length - typed.rfind("\n") - 1)

    @pytest.mark.slow
    def test_library_file_is_answered_at_every_word(self) -> None:
        """A library file that is typed word by word gets answers after each word."""
        text = (LIBRARY / "deploy.rules").read_text("utf-8")
        for length in [at for at, letter in enumerate(text) if letter in " \n"]:
            typed = text[:length]
            ask_everything("deploy.rules", typed, typed.count("\n"), length - typed.rfind("\n") - 1)

    @settings(max_examples=examples(150), deadline=None)
    @given(
        st.sampled_from(sorted(FILES)),
        st.lists(
            st.tuples(st.integers(0, 700), st.integers(0, 6), st.text(LETTERS, max_size=4)), max_size=5
        ),
        st.integers(-1, 12),
        st.integers(-1, 100),
    )
    def test_is_answered_after_any_edit(
        self, file: str, edits: list[tuple[int, int, str]], line: int, character: int
    ) -> None:
        """After any edits of a file, every request gets an answer at any position."""
        text = FILES[file]
        for start, length, added in edits:
            text = text[:start] + added + text[start + length :]
        ask_everything(file, text, line, character)
