"""The rules language: text in, checked nets out.

require lint before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
map bash.command ./deploy as deploy
"""

from .compiler import compile_files as compile_files
from .compiler import compile_rules as compile_rules
from .compiler import condition_of as condition_of
from .compiler import load_rules as load_rules
from .compiler import read_rules as read_rules
from .errors.problems import Problem as Problem
from .errors.problems import RuleError as RuleError
from .library import library_rules as library_rules
from .ruleset import RuleSet as RuleSet
from .ruleset import Verification as Verification
