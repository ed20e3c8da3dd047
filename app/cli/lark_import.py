"""Imports lark without `regex` in Interlock's own programs.

lark loads `regex` if it is installed, as it is together with litellm. `regex` supports patterns that no
grammar here uses. It costs 1 MB in a server and in every command that reads rules; 5 MB where modules are
not compiled. Other programs that import `interlock.rules` get lark unchanged.
"""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class _WithoutRegex:
    """Import finder that finds no modules, and hides `regex` from lark.

    Other importers get `regex`, even while another thread imports lark.
    """

    _lark_in: int | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "lark":
            self._lark_in = get_ident()
        elif fullname == "regex" and self._lark_in == get_ident() and _is_incomplete_lark():
            raise ModuleNotFoundError("lark does without it here", name=fullname)
        return None


def _is_incomplete_lark() -> bool:
    """Return whether lark is being imported: its main class is not defined yet."""
    module = sys.modules.get("lark")
    return module is not None and not hasattr(module, "Lark")


def keep_lark_small() -> None:
    """Make lark do without `regex` in this process, unless lark is already imported."""
    if not any(isinstance(each, _WithoutRegex) for each in sys.meta_path):
        sys.meta_path.insert(0, _WithoutRegex())
