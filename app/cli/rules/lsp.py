"""`interlock lsp`: rules in editors, over the Language Server Protocol."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ...config.arguments import database, refuse
from ..options import add_database

NOT_INSTALLED = "the package pygls is not installed; it comes with: pip install 'interlock[lsp]'"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the option for the journal, whose tools, fields and answers are offered in the editor."""
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the editor that started this process, over the standard streams. Returns the exit code."""
    if find_spec("pygls") is None:
        return refuse("lsp", NOT_INSTALLED)
    from ...lsp.server import serve

    serve(database(args))
    return 0
