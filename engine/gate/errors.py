"""What wrapped tools raise."""

from __future__ import annotations


class ToolCallBlockedError(Exception):
    """The gate blocked the call; the tool has not run. `reason` is written for the model (G-30)."""

    def __init__(self, tool_name: str, tool_call_id: str, reason: str) -> None:
        super().__init__(f"Tool '{tool_name}' blocked: {reason}")
        self.tool_name = tool_name
        self.tool_call_id = tool_call_id
        self.reason = reason

    def __reduce__(self) -> tuple[type[ToolCallBlockedError], tuple[str, str, str]]:
        return type(self), (self.tool_name, self.tool_call_id, self.reason)


class SyncToolError(RuntimeError):
    """A synchronous tool would have had to wait for a person; it has not run, and nothing has fired."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(
            f"Tool '{tool_name}' is synchronous and cannot wait for an answer that comes later: "
            f"give a confirm that answers at once, make the tool async, or call it with "
            f"'await session.call(\"{tool_name}\", …)'"
        )
        self.tool_name = tool_name
