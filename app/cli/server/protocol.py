"""`interlock protocol`: the wire protocol, for authors of clients."""

from __future__ import annotations

import json
from typing import TextIO

from ....engine.gateway.protocol.schema import document
from ....engine.gateway.protocol.schema import schema as protocol_schema


def protocol(*, schema: bool, out: TextIO) -> int:
    """Print the document, or the JSON Schema. Returns the exit code."""
    out.write(json.dumps(protocol_schema(), indent=2) + "\n" if schema else document())
    return 0
