"""The seeds' sentences in the gate's reasons, which also name the call behind a mapped name (G-18)."""

from __future__ import annotations

import re

_DEED = re.compile(r" \([^\s():;]+: [^\n]{1,80}; <rules>:\d+\)(?=\.|$)", re.IGNORECASE)


def seed_sentence(reason: str) -> str:
    """A reason, or a text with one, without the call that it names and the rule's place."""
    return _DEED.sub("", reason)
