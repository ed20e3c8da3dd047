"""Verification: what a net can reach, and what all nets together allow."""

from .budget import Effort
from .call_bounds import Most, Pace
from .local_net import Action
from .reachability import Reachability, reachable
from .ruleset import Answer, Never, PlannedCall, Together, Unknown, Way
from .vocabulary import Vocabulary, vocabulary

__all__ = [
    "Action",
    "Answer",
    "Effort",
    "Most",
    "Never",
    "Pace",
    "PlannedCall",
    "Reachability",
    "Together",
    "Unknown",
    "Vocabulary",
    "Way",
    "reachable",
    "vocabulary",
]
