"""Verification: what a net can reach, and what all nets together allow."""

from .effort import Effort
from .local import Action
from .most import Most, Pace
from .reach import Reachability, reachable
from .shown import PlannedCall
from .together import Answer, Never, Together, Unknown, Way
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
