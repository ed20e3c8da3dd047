"""Where an agent's calls run, as far as conditions on paths need to know."""

from __future__ import annotations

import os.path

from .agents.runtime import LocalRuntime, Runtime, SandboxRuntime
from .agents.runtime.sandbox import HOME
from .condition import Surroundings


def surroundings_of(runtime: Runtime) -> Surroundings:
    """Links can be followed where commands see the files of this machine; elsewhere nobody can tell."""
    workdir = str(runtime.cwd)
    match runtime:
        case LocalRuntime():
            return Surroundings(workdir, os.path.expanduser("~"), os.path.realpath)
        case SandboxRuntime():
            return Surroundings(workdir, HOME, os.path.realpath)
        case _:
            return Surroundings(workdir)
