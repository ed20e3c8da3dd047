"""Texts that try to style, hide, move or imitate the console's own output."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

FORGED = (
    "WHAT WILL RUN     nothing",
    "WHY IT ASKS       no reason",
    "SO FAR            ✓ approved by maria",
    "│ a approve once  d deny │",
    "╰───────────────────────── approved by maria ─╯",
    "╭─ Approve: ls ─╮",
)
"""Lines that imitate those of the dialog."""

ATTACKS: Mapping[str, str] = {
    "sgr": "a\x1b[31;1mred\x1b[8mhidden\x1b[0m\x1b[7m",
    "cursor": "a\x1b[1;1Hhome\x1b[2J\x1b[3J\x1b[K\x1b[10A\x1b[5D\x1b[s\x1b[u\x1b[99;99r\x1b[6n\x1b[?25l",
    "modes": "a\x1b[?1049l\x1b[?2026h\x1b[?1003l\x1b[!p\x1bc\x1b7\x1b8\x1b(0lqqk\x1b[20h\x1b[8;1;1t",
    "title": "a\x1b]0;owned\x07b\x1b]2;owned\x1b\\c\x1b]9;owned\x07d\x1b]777;notify;owned;x\x07",
    "hyperlink": "a\x1b]8;;https://evil.example/\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "a\x1b]52;c;cm0gLXJmIC8=\x07b\x1b]52;c;?\x07\x1b]1337;SetUserVar=x\x07",
    "strings": "a\x1bPq#0;2;0;0;0\x1b\\b\x1b_Gf=24;AAAA\x1b\\c\x1b^private\x1b\\d\x1bXstart\x1b\\",
    "c1": "a\x9b31mred\x9d0;owned\x9cb\x90q\x9cc\x85d\x84e\x8df\x9bc",
    "overwriting": "rm -rf /\r\rls -la\b\b\b\b\x7f\x7f\x08 \x0b\x0c\x00\x07\x05\x0e\x0f\x1a",
    "bidi": "a\u202egnp.exe\u202c\u202d\u2066b\u2067c\u2068d\u2069\u200e\u200f\u061c\u202a\u202b",
    "invisible": "a\u200bb\u200cc\u200dd\u2060e\ufefff\u00adg\u180eh\u2061\u2062\u2063\u2064\u206a\u206f",
    "tags": "a\U000e0001\U000e0072\U000e006d\U000e0020\U000e002d\U000e007fb",
    "selectors": "a\ufe0fb\ufe00c\U000e0100d☺\ufe0f⚠\ufe0f1\ufe0f\u20e3\u180b",
    "fillers": "a\u115fb\u1160c\u3164d\uffa0e\u2800f\u034fg\u17b4h\u17b5",
    "flood": "a" + "\u0301\u0489\u20dd\u0338" * 125 + "b",
    "leading flood": "\u0338\u20dd" + "\u0327" * 300 + "x\n\u0338\u0338struck",
    "jamo flood": "\u1100" + "\u1161" * 200 + "b",
    "wide": "全角ａｂｃ한글😀가나다①ℵ±§¡│─█▌",
    "emoji": "👩\u200d💻 👍🏽 🏽x 🇩🇪🇫🇷🇩 👨\u200d👩\u200d👧 ☝🏿 🏴\U000e0067\U000e007f",
    "private": "a\ue000b\uf8ffc\U000f0000d\U0010fffde\U000ffa34",
    "unassigned": "a\u0378b\ufdd0c\ufffed\U0001fffee",
    "surrogates": "a\ud800b\udc9bc\udfffd\udcff",
    "separators": "a\u2028b\u2029c\x85d\x1ce\x1df\x1eg\x0bh\x0ci",
    "markup": "[bold]b[/] [/] [/x] [@click=app.quit]quit[/] [@click=screen.approve]ok[/] [link=x]y[/]",
    "broken markup": "[ [[ \\[x] [/ ] [red on] [@click=app.quit('] \\ [$primary]p[/] [not a style]",
    "frames": " ".join(FORGED),
    "forged lines": "ls\n\n" + "\n".join(FORGED) + "\n",
    "tabs": "a\tb\t\tc\n\td\te",
    "breaks": "one\ntwo\r\nthree\n\n\nfour\rfive",
}
"""Short texts, named after what they try."""

TAIL = "THE-VERY-END"
MEGABYTE = "A" * 1_000_000 + TAIL
WIDE_MEGABYTE = "ｗ" * 300_000 + TAIL
LINES = "\n".join(f"line {number}" for number in range(100_000)) + f"\n{TAIL}"
LONG: Mapping[str, str] = {"megabyte": MEGABYTE, "wide megabyte": WIDE_MEGABYTE, "lines": LINES}
"""Texts that are far too long, with a recognisable end."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "obeyed": (
        "sgr",
        "cursor",
        "modes",
        "title",
        "hyperlink",
        "clipboard",
        "strings",
        "c1",
        "overwriting",
    ),
    "unseen": (
        "bidi",
        "invisible",
        "tags",
        "selectors",
        "fillers",
        "private",
        "unassigned",
        "separators",
    ),
    "crowded": ("flood", "leading flood", "jamo flood", "wide", "emoji"),
    "forged": ("markup", "broken markup", "frames", "forged lines", "tabs", "breaks"),
}
"""Attacks that are joined into one text."""

MIXED = ("sgr", "c1", "overwriting", "bidi", "fillers", "leading flood", "wide", "markup", "frames")
"""Some attacks of each group."""

EACH_GROUP = ["mixed", *(pytest.param(name, marks=pytest.mark.thorough) for name in GROUPS)]
"""Every change tests the mixed attacks, the thorough run every group."""


def group(name: str) -> str:
    """The attacks of a group, or the mixed ones, as one text of several lines."""
    return "\n".join(ATTACKS[each] for each in (MIXED if name == "mixed" else GROUPS[name]))


EVERYTHING = "\n".join(text for name, text in ATTACKS.items() if name != "surrogates")
"""All attacks except lone surrogates, which no journal can store."""
