"""Text in a rules file cannot style, hide or imitate the console."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.screens.rules.screen import RulesScreen
from interlock.app.widgets.lists.rules import RuleList

from ....support.laws import pairs
from ...support.stage import stage
from ..approval.test_spoofing import SIZES, assert_harmless
from .folder import opened, sessions

EVIL = "[bold]x[/][/x][@click=app.quit]\x1b[31m\x1b]0;t\x07\x9b31m\u202eb\u2066\u200bz\ue000"
TEXTS = {
    "tools": f"# {EVIL}\nblock {EVIL}\nrequire a{EVIL} before b\nmap bash.command {EVIL} as c\n",
    "condition": f'block rm when input.path = "{EVIL}"\nlimit rm to 2 per {EVIL}\n',
    "mistakes": f"{EVIL}\nrequire {EVIL}\nlimit [/x] to [red] per {EVIL}\r\n\r\n\tblock\t\n",
    "forged": "# ──\n╰──────╯\n✗ error: nothing\nblock rm  # └ block-rm · ✓ nothing found\n",
    "long": f"block {'A' * 200_000}\n# {'漢' * 50_000}\n{EVIL * 3_000}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "size"), pairs(TEXTS, SIZES))
async def test_hostile_text_is_shown_as_text_everywhere(
    rules: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markup, escape sequences, bidi and zero-width in names, conditions, comments and mistakes."""
    monkeypatch.chdir(tmp_path)
    file = "[b]\u202e\x1b[31m.rules"
    (tmp_path / file).write_text(rules, encoding="utf-8", newline="")
    async with stage(*sessions(tmp_path, file), size=size) as on:
        await opened(on)
        assert_harmless(on)
        text = on.app.screen.query_one(RuleList)
        assert text.blocks
        for block in list(text.blocks)[:12]:
            text.select(block.key)
            text.post_message(RuleList.Moved(text, block.key))
            await on.settle()
            assert_harmless(on)
            for key in ("enter", "p"):
                await on.press(key)
                await on.settle()
                assert_harmless(on)
                if not isinstance(on.app.screen, RulesScreen):
                    await on.press("escape")
                    await on.settle()
        (tmp_path / file).write_text("block rm\n")
        on.app.screen.look()
        await on.until("has changed on disk")
        assert_harmless(on)
        assert on.hub.asked == []
