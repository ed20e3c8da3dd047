"""Secrets for tests of masking."""

from __future__ import annotations

from interlock.engine.history.redaction import Redaction

R = Redaction()
SECRET = "correct-horse-9"
WORDS = "abcdefghijklmnopqrstuvwxyz"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def run(length: int, of: str = LETTERS) -> str:
    """A made-up key's random part."""
    return (of * (length // len(of) + 1))[:length]
