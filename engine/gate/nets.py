"""A ready-made net for agents that should look before they touch."""

from __future__ import annotations

from ..net import Transition, define_skill_net

tool_approval_net = define_skill_net(
    "tool-approval",
    places=["idle", "ready"],
    transitions=[
        Transition("start", ("idle",), ("ready",)),
        Transition("execShell", ("ready",), ("ready",), ("bash",), type="manual"),
        Transition("execWrite", ("ready",), ("ready",), ("write", "edit"), type="manual"),
        Transition("writeData", ("ready",), ("ready",), ("writeData",)),
        Transition("sendEmail", ("ready",), ("ready",), ("sendEmail",)),
    ],
    initial_marking={"idle": 1},
    free_tools=["ls", "read", "grep", "find", "readData", "fetchData"],
)
"""Reading is free, a shell and writing files ask a person, data tools wait for the net to be ready."""
