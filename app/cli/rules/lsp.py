"""`interlock lsp`: rules in editors, over the Language Server Protocol."""

from __future__ import annotations

import argparse
from importlib.util import find_spec

from ...config.arguments import refuse

NOT_INSTALLED = "the package pygls is not installed; it comes with: pip install 'interlock[lsp]'"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add nothing: an editor says all that there is to say."""


def run(_args: argparse.Namespace) -> int:
    """Serve the editor that started this over the standard streams. Returns the exit code."""
    if find_spec("pygls") is None:
        return refuse("lsp", NOT_INSTALLED)
    from ...lsp.server import serve

    serve()
    return 0
