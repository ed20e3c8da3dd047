"""Runtimes: where tools' commands run and files live.

Importing this imports neither just-bash nor vercel; their runtimes do, when they are first used.
"""

from .base import ExecResult, Runtime
from .fake import FakeCall, FakeRuntime
from .just_bash import JustBashRuntime
from .local.runtime import LocalRuntime
from .sandbox import SandboxRuntime
from .vercel import VercelSandboxRuntime

__all__ = [
    "ExecResult",
    "FakeCall",
    "FakeRuntime",
    "JustBashRuntime",
    "LocalRuntime",
    "Runtime",
    "SandboxRuntime",
    "VercelSandboxRuntime",
]
