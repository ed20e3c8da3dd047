"""Inspection of shell commands (G-51): every simple command in one, however it is written or wrapped.

Names are imported on first use: rules without shell commands do not load the parser.
"""

from typing import TYPE_CHECKING

from ...engine.core.lazy_names import lazy

if TYPE_CHECKING:
    from .command_reader import CommandReading as CommandReading
    from .command_reader import Shell as Shell
    from .command_reader import SimpleCommand as SimpleCommand
    from .command_reader import read as read
    from .command_reader import views as views

_HOMES = {
    "CommandReading": "command_reader",
    "Shell": "command_reader",
    "SimpleCommand": "command_reader",
    "read": "command_reader",
    "views": "command_reader",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
