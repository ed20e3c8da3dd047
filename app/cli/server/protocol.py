"""`interlock protocol`: the wire protocol, for authors of clients."""

from __future__ import annotations

import argparse
import json

from ..options import add_switch


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_switch(parser, "--schema", "as JSON Schema (default: as a document)")


def run(args: argparse.Namespace) -> int:
    """Print the document, or the JSON Schema. Returns the exit code."""
    from ....engine.gateway.protocol.schema import document, schema

    print(json.dumps(schema(), indent=2) if args.schema else document(), end="\n" if args.schema else "")
    return 0
