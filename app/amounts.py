"""Amounts of money that people type."""

from __future__ import annotations


def parse_dollars(text: str) -> float:
    """An amount in US dollars. Raises `ValueError`, with a sentence, for anything else."""
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise ValueError(f"an amount in US dollars, more than 0, not '{text}'")
    return amount
