"""lark without `regex`, in programs of Interlock's own.

lark loads `regex` where it is installed, as it is beside litellm, for patterns that none of the grammars
here has. That takes 1 MB of every command that reads rules, and of a server; 5 MB where modules are
not compiled.
A program of somebody else's that imports `interlock.rules` has lark as it is.
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
    """Finder of modules that finds none, and no `regex` for lark.

    Whoever else imports it has it, also while another thread imports lark.
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
    """Tell whether lark is being imported: what it is for is not there yet."""
    module = sys.modules.get("lark")
    return module is not None and not hasattr(module, "Lark")


def keep_lark_small() -> None:
    """Have lark do without `regex` in this process, if lark is not there yet."""
    if not any(isinstance(each, _WithoutRegex) for each in sys.meta_path):
        sys.meta_path.insert(0, _WithoutRegex())
