"""`interlock console`: the console on a journal; sessions are started, resumed and replayed from it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ....engine.core.sanitize import visible
from ....engine.history.errors import FoldError, JournalError
from ....engine.history.redaction.redaction import Redaction
from ...config.arguments import BAD_INPUT, operator
from ...config.loader import SettingsError
from ...hosting.host import show, watch


def console(args: argparse.Namespace, database: Path, redaction: Redaction) -> int:
    """Open the console, with `--read-only` on a journal that others write. Returns the exit code."""
    for name in {"session", "approval"} & args.typed:
        print(f"interlock console: --{name} goes with --connect: a server has it", file=sys.stderr)
        return BAD_INPUT
    try:
        if args.read_only:
            return watch(database, operator(args), redaction, args.appearance)
        return show(database, operator(args), None, redaction, args.appearance)
    except (JournalError, FoldError, SettingsError) as error:
        print(f"interlock: {visible(str(error), keep_newlines=True)}", file=sys.stderr)
        return BAD_INPUT
