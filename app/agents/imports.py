"""Objects of Python modules, named `package.module:name` as in entry points."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from ...engine.agents.errors import describe


class ImportFailedError(ValueError):
    """An object whose import failed or raised; the message has the position, the cause is the error."""


def import_object(name: str, directories: Sequence[Path]) -> object:
    """Import the object called `name`; `directories` are prepended to the module path permanently.

    They stay because modules may import others later. Raises `ImportFailedError`.
    """
    module_name, _, attribute = name.partition(":")
    for directory in reversed([str(directory) for directory in directories]):
        if directory not in sys.path:
            sys.path.insert(0, directory)
    importlib.invalidate_caches()
    module = _module(name, module_name, directories)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        close = get_close_matches(attribute, dir(module), n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        place = getattr(module, "__file__", None) or module_name
        raise ImportFailedError(f"{name}: {place} has no '{attribute}'{hint}") from error


def _module(name: str, module_name: str, directories: Sequence[Path]) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        fault = failure_position(error, directories)
        missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (module_name == missing or module_name.startswith(f"{missing}.")):
            fault = f"no module '{missing}' was found; the search for modules begins in {sys.path[0]}"
        raise ImportFailedError(f"{name}: {fault}") from error


def failure_position(error: BaseException, directories: Sequence[Path]) -> str:
    """Return `agents.py:3: ValueError: no`: the innermost line, preferably in `directories`, and text."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")
    ]
    own = [f for f in frames if any(Path(f.filename).is_relative_to(d) for d in directories)]
    fault = f"{type(error).__name__}: {describe(error)}"
    return f"{(own or frames)[-1].filename}:{(own or frames)[-1].lineno}: {fault}" if frames else fault
