"""The rules language: text in, checked nets out.

require lint before deploy
require human-approval before deploy
limit deploy to 2 per session
block rm
map bash.command ./deploy as deploy
"""

from .compiler import compile_files, compile_rules, condition_of, load_rules, read_rules
from .errors.problems import Problem, RuleError
from .library import library_rules
from .ruleset import RuleSet, Verification

__all__ = [
    "Problem",
    "RuleError",
    "RuleSet",
    "Verification",
    "compile_files",
    "compile_rules",
    "condition_of",
    "library_rules",
    "load_rules",
    "read_rules",
]
