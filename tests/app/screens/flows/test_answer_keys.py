"""The answer form under keys that arrive faster than they are handled."""

from __future__ import annotations

import pytest
from textual import events

from ...support.stage import Stage, stage
from .flows import release
from .test_answer_form import FILLED, editor, fill_in, open_form


def at_once(on: Stage, *keys: str) -> None:
    """Press keys so fast that none is handled before the next one."""
    for key in keys:
        on.app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.slow
class TestFast:
    async def test_keys_go_into_newly_focused_field(self) -> None:
        """P-81: keys typed right after a change of focus go into the newly focused field."""
        async with stage(release()) as on:
            await open_form(on)
            at_once(on, "tab", "tab", "3", "tab", "5", "shift+tab", "shift+tab", "1")
            await on.settle()
            texts = {name: editor(on, name).text for name in ("by", "severity", "ratio")}
            assert texts == {"by": "Ada", "severity": "3", "ratio": "5"}

    async def test_focus_key_right_after_send_prevents_sending(self) -> None:
        """A key that moves the focus right after `^s` prevents sending, as any other key does."""
        async with stage(release(), quiet=5.0) as on:
            await open_form(on)
            await fill_in(on, **FILLED)
            on.seconds += 9
            await on.press("ctrl+s", "tab")
            await on.settle()
            assert "nothing was decided" in on.painted()
            assert on.hub.asked == []

    async def test_letter_bound_to_next_field_can_be_typed(self) -> None:
        """A letter configured to move to the next field can still be typed."""
        async with stage(release()) as on:
            on.app.set_keymap({"focus.next": "n"})
            await open_form(on)
            at_once(on, "n")
            await on.settle()
            assert editor(on, "by").text == "n"
            editor(on, "kind").take_focus()
            await on.settle()
            at_once(on, "n", "1")
            await on.settle()
            assert editor(on, "level").text == '"low"'
            assert editor(on, "kind").text == ""
