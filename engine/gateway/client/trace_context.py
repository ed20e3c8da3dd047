"""Trace in which a program makes its calls, if it uses OpenTelemetry.

Nothing is imported for this: a program with a current span has already loaded the library.
"""

from __future__ import annotations

import sys
from typing import Any, cast

LIBRARY = "opentelemetry.trace"


def current_traceparent() -> str | None:
    """Return the current span in W3C Trace Context format; `None` if there is none."""
    library = cast("Any", sys.modules.get(LIBRARY))
    if library is None:
        return None
    try:
        context = library.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    except Exception:
        # A trace must not stop a call, whatever another version of the library does.
        return None
