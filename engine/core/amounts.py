"""Sums over a number in the input of calls: exact decimals, in whole units of their last place (G-92)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from math import isfinite

from .condition import Input, at_path, field_text

MOST_DECIMALS = 9
MOST_DIGITS = 15
"""Most digits of a sum, including its decimals."""


@dataclass(frozen=True, slots=True)
class SumField:
    """Field whose numbers are summed, by its path, in units of 10 to the minus `decimals`."""

    path: tuple[str, ...]
    decimals: int

    @property
    def name(self) -> str:
        """`input.amount`, as shown to people."""
        return field_text(self.path)

    def units(self, value: Input) -> int | None:
        """The units of a call's number, rounded up; `None` if it is missing or not a number of at least
        0.

        Text is not a number, because readers interpret it differently. Nor is one of two fields whose
        names differ only in looks.
        """
        amount = at_path(value, self.path)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0:
            return None
        if isinstance(amount, int):
            return amount * 10**self.decimals
        if not isfinite(amount):
            return None
        with localcontext() as context:
            # A JSON number is taken as written: 0.1 is exactly that.
            context.prec = 700
            units = Decimal(repr(amount)).scaleb(self.decimals)
            return int(units.to_integral_value(ROUND_CEILING))

    def text(self, units: int) -> str:
        """A sum as people write it: `1000.00`."""
        digits = f"{units:0{self.decimals + 1}d}"
        return f"{digits[: -self.decimals]}.{digits[-self.decimals :]}" if self.decimals else digits


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens that a call takes from `source` and moves to `target`: one for each unit of its number.

    `units` is 0 until the call is known.
    """

    field: SumField
    source: str
    target: str | None = None
    units: int = 0


def amount_units(text: str) -> tuple[int, int] | None:
    """A written sum in units, and its decimals; `None` if it is 0 or has too many digits.

    With fewer than two decimals it is counted in hundredths.
    """
    whole, _, fraction = text.partition(".")
    decimals = max(2, len(fraction))
    if decimals > MOST_DECIMALS or len(whole.lstrip("0")) + decimals > MOST_DIGITS:
        return None
    units = int(whole + fraction.ljust(decimals, "0"))
    return (units, decimals) if units else None
