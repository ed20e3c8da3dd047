"""Verification: what a net can reach, and what all nets together allow.

Names are imported on first use, because compiling rules does not need verification.
"""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy

if TYPE_CHECKING:
    from .budget import Effort as Effort
    from .call_bounds import Most as Most
    from .call_bounds import Pace as Pace
    from .local_net import Action as Action
    from .reachability import Reachability as Reachability
    from .reachability import reachable as reachable
    from .ruleset import Answer as Answer
    from .ruleset import Never as Never
    from .ruleset import PlannedCall as PlannedCall
    from .ruleset import Together as Together
    from .ruleset import Unknown as Unknown
    from .ruleset import Way as Way
    from .vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "Action": "local_net",
    "Answer": "ruleset",
    "Effort": "budget",
    "Most": "call_bounds",
    "Never": "ruleset",
    "Pace": "call_bounds",
    "PlannedCall": "ruleset",
    "Reachability": "reachability",
    "Together": "ruleset",
    "Unknown": "ruleset",
    "Vocabulary": "vocabulary",
    "Way": "ruleset",
    "reachable": "reachability",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
