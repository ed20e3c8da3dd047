"""Suggestions: rules that a journal speaks for, with what they rest on and would have done."""

from .facts import loosenable
from .narrowing import Narrowing, narrow
from .suggest import suggest
from .suggestion import Effect, History, Kind, ListedCall, Suggestion, Support
from .writer import RuleWriter

__all__ = [
    "Effect",
    "History",
    "Kind",
    "ListedCall",
    "Narrowing",
    "RuleWriter",
    "Suggestion",
    "Support",
    "loosenable",
    "narrow",
    "suggest",
]
