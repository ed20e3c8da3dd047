"""What a tool's result says of how its work ended, in the words of the agents that have hooks. No I/O.

Nothing here makes a success: a result that says neither is as good as whoever told it.
"""

from __future__ import annotations

from typing import cast

_FAILED = ("is_error", "isError", "interrupted")
_LAUNCHED = ("async_launched", "remote_launched")


def failed(response: object) -> bool:
    """Whether a tool did not do its work, though its call came to an end.

    An exit code that Claude Code interprets is not 0: for it a `diff` that finds one is no error.
    """
    if not isinstance(response, dict):
        return False
    said = cast("dict[str, object]", response)
    return any(said.get(key) is True for key in _FAILED) or _is_text(said, "returnCodeInterpretation")


def goes_on(response: object) -> bool:
    """Whether the work has only begun: a command in the background, a watch, a subagent that reports.

    Its end is not told to any hook, so such a call has no result.
    """
    if not isinstance(response, dict):
        return False
    said = cast("dict[str, object]", response)
    return (
        said.get("status") in _LAUNCHED
        or _is_text(said, "backgroundTaskId")
        or (_is_text(said, "taskId") and "timeoutMs" in said)
    )


def _is_text(said: dict[str, object], key: str) -> bool:
    found = said.get(key)
    return isinstance(found, str) and bool(found)
