"""Suggestions: rules that a journal supports, with their evidence and their effect.

Names are imported on first use, like those of `backtest`.
"""

from typing import TYPE_CHECKING

from ...core.lazy_names import lazy

if TYPE_CHECKING:
    from .facts import loosenable as loosenable
    from .narrowing import narrow as narrow
    from .suggestion import Effect as Effect
    from .suggestion import History as History
    from .suggestion import Kind as Kind
    from .suggestion import ListedCall as ListedCall
    from .suggestion import Narrowing as Narrowing
    from .suggestion import Suggestion as Suggestion
    from .suggestion import Support as Support
    from .writer import RuleWriter as RuleWriter

_HOMES = {
    "Effect": "suggestion",
    "History": "suggestion",
    "Kind": "suggestion",
    "ListedCall": "suggestion",
    "Narrowing": "suggestion",
    "RuleWriter": "writer",
    "Suggestion": "suggestion",
    "Support": "suggestion",
    "loosenable": "facts",
    "narrow": "narrowing",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
