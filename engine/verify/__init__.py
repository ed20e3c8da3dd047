"""Verification: what a net can reach, and what all nets together allow."""

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
from .vocabulary import vocabulary as vocabulary
