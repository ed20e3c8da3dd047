"""Texts of the reference implementations in the gate's reasons, which also name a mapped call (G-18)."""

from __future__ import annotations

import re

_DEED = re.compile(r" \([^\s():;]+: [^\n]{1,80}; <rules>:\d+\)(?=\.|$)", re.IGNORECASE)


def seed_sentence(reason: str) -> str:
    """Return a reason, or a text containing one, without the call that it names and the rule's place."""
    return _DEED.sub("", reason)
