"""Link from a terminal to the page where a passkey approves a request, and its QR code."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ...format.text import MUTED, shown, styled_rows
from ...terminal.charset import ascii_only
from ...terminal.qr_code import qr_rows

NO_PAGE = (
    "Its rule asks for a passkey, and no page for phones is known here: run `interlock web` for these "
    "agents, and approve it there"
)
PAPER = "#000000 on #ffffff"
"""Scanners need dark modules on a light background, whatever the terminal's colours."""


def passkey_line(link: str | None) -> str:
    """Return the line that says where a request is approved with a passkey."""
    if link is None:
        return "the page for phones, where a passkey is used, is not known here: run `interlock web`"
    return f"approved with a passkey at {shown(link)}"


def passkey_rows(link: str | None, width: int) -> Sequence[Content]:
    """Return lines with the link, and its QR code if the terminal can show one."""
    if link is None:
        return styled_rows([f"{NO_PAGE}."], width)
    rows = styled_rows(["Open this on the device that has your passkey:"], width)
    rows += styled_rows([shown(link)], width, "bold")
    code = qr_rows(link)
    if ascii_only() or max(map(len, code)) > width:
        return rows
    rows += [Content(""), *(Content.styled(line, PAPER) for line in code), Content("")]
    return [*rows, *styled_rows(["It can be denied here without a passkey."], width, MUTED)]
