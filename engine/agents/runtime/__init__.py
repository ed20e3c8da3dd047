"""Runtimes: where tools' commands run and files live."""

from .base import ExecResult, Runtime
from .local import LocalRuntime

__all__ = ["ExecResult", "LocalRuntime", "Runtime"]
