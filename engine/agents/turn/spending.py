"""Cost of a session, and the limit beyond which it makes no further model call."""

from __future__ import annotations

import asyncio

from ..errors import AgentError, CostLimitError, describe
from ..models.base import Finish, Model, PricedModel

_REMEDY = "Choose a model with a known price, or leave max_cost out; max_steps bounds a run without it."


class Spending:
    """Cost of a session and its subagents in US dollars, and its limit.

    `spent` is the recorded cost at the start. `parent` is the meter of the session that started this one:
    costs here count there too, and no model is called beyond either limit. A limit may be raised. It is
    checked before a model call, so the call that reaches it is paid in full. Providers do not report the
    cost of an incomplete reply.
    """

    def __init__(
        self, agent: str, limit: float | None, spent: float = 0.0, parent: Spending | None = None
    ) -> None:
        self._agent = agent
        self.limit = limit
        self._spent = spent
        self._parent = parent
        self._unpriced: str | None = None
        self._checked: Model | None = None

    @property
    def limited(self) -> bool:
        """True if there is a limit, here or in a parent."""
        return self.limit is not None or (self._parent is not None and self._parent.limited)

    def check_raise(self, limit: float) -> None:
        """Raise `ValueError` unless `limit` is higher than the present limit and than the cost so far."""
        check_limit(limit)
        if self.limit is not None and limit <= self.limit:
            raise ValueError(f"max_cost is {_dollars(self.limit)} already; a higher limit is needed")
        if limit <= self._spent:
            raise ValueError(
                f"This session of {self._agent} has cost {_dollars(self._spent)} already; "
                f"it needs a higher limit than {_dollars(limit)} to continue"
            )

    def add(self, model: Model, finish: Finish) -> None:
        """Add the cost of a reply of `model` that has ended with `finish`."""
        self._spent += finish.usage.cost
        if not finish.priced:
            self._unpriced = model.name
        if self._parent is not None:
            self._parent.add(model, finish)

    async def problem(self, model: Model) -> CostLimitError | None:
        """Return the error that prevents a call of `model` now: the limit, or an unknown price."""
        if not self.limited:
            return None
        return self._limit_error() or await self.unknown_price(model)

    async def unknown_price(self, model: Model) -> CostLimitError | None:
        """Return an error if a limit cannot be enforced because the price of `model` is unknown."""
        if not self.limited or self._checked is model:
            return None
        # In a thread: importing a price list may take seconds, and screens must stay responsive.
        if (why := await asyncio.to_thread(unpriced, model)) is not None:
            return CostLimitError(not_kept(why))
        self._checked = model
        return None

    def _limit_error(self) -> CostLimitError | None:
        if (parent_error := None if self._parent is None else self._parent._limit_error()) is not None:
            return parent_error
        if self.limit is None:
            return None
        if self._unpriced is not None:
            return CostLimitError(not_kept(f"the cost of the last reply of {self._unpriced} is unknown"))
        if self._spent < self.limit:
            return None
        return CostLimitError(
            f"The cost limit is reached: this session of {self._agent} has spent "
            f"{_dollars(self._spent)} of {_dollars(self.limit)}. To continue, raise the limit in the "
            "console, resume it with a higher limit (interlock resume SESSION --max-cost USD --reason "
            "TEXT), or start anew."
        )


def unpriced(model: Model) -> str | None:
    """Return the reason why the cost of replies of `model` is unknown, if it is. May take seconds."""
    if not isinstance(model, PricedModel):
        return f"{model.name} does not say whether its replies have a price (check_price)"
    try:
        model.check_price()
    except AgentError as error:
        return describe(error)
    return None


def check_limit(max_cost: float | None) -> None:
    """Raise `ValueError` for an invalid limit."""
    if max_cost is not None and not 0 < max_cost < float("inf"):
        raise ValueError(f"max_cost is in US dollars, more than 0, not {max_cost}")


def not_kept(reason: str) -> str:
    """Return the sentence for a limit that could not be enforced."""
    return f"max_cost cannot be kept: {reason}. {_REMEDY}"


def _dollars(amount: float) -> str:
    """Format an amount with enough digits to distinguish the cost from the limit."""
    digits = 2 if amount >= 1 or amount == round(amount, 2) else 4 if amount >= 0.01 else 6
    return f"${amount:.{digits}f}"
