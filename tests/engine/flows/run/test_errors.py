"""The hierarchy of errors."""

from __future__ import annotations

import pytest

from interlock.engine import agents
from interlock.engine.flows import (
    AgentError,
    BuildError,
    Deadlock,
    DeserializeError,
    FlowError,
    ForbiddenCommand,
    Invalid,
    LimitExceeded,
    MissingDependency,
    NotFound,
    PathEscape,
    ResumeError,
    ResumeMismatchError,
    ResumeRequired,
    SerializeError,
    SnapLoadError,
    SnapStoreError,
    StateConflict,
    SuspendSignal,
    ToolDeserializeError,
    ToolError,
    ToolFailure,
    ToolFatal,
    ToolHttpError,
    ToolIoError,
    ToolSerializeError,
    UnexpectedResumption,
    UnknownTool,
)

ERRORS = [
    (NotFound("idX", "flow 'A'"), KeyError),
    (BuildError("idX"), FlowError),
    (Invalid(["idX"]), BuildError),
    (SerializeError("idX", "A"), ValueError),
    (DeserializeError("idX", "A"), ValueError),
    (SnapLoadError("idX"), FlowError),
    (SnapStoreError("idX"), FlowError),
    (AgentError("idX", "A"), FlowError),
    (Deadlock(["idX"]), FlowError),
    (ResumeRequired("idX"), ResumeError),
    (UnexpectedResumption("idX"), ResumeError),
    (ResumeMismatchError("idX", "other"), ResumeError),
    (StateConflict("idX", "work 'A'"), FlowError),
    (LimitExceeded("idX", 3), FlowError),
]


class TestErrors:
    @pytest.mark.parametrize(("error", "base"), ERRORS)
    def test_hierarchy(self, error: FlowError, base: type) -> None:
        """P-160: each error is a FlowError of its family, and names its id."""
        assert isinstance(error, FlowError)
        assert isinstance(error, base)
        assert "idX" in str(error)

    def test_cause_is_kept(self) -> None:
        """P-160: the cause of an error is kept."""
        error = SnapLoadError("x")
        error.__cause__ = cause = ValueError("why")
        assert error.cause is cause

    def test_tool_errors_are_one_family(self) -> None:
        """Section 11: tool errors are one family, the agents' own, so the model always reads them."""
        for error in (
            ToolIoError("disk"),
            ToolSerializeError("x"),
            ToolDeserializeError("x"),
            UnknownTool("x"),
            PathEscape("x"),
            ForbiddenCommand("x"),
            ToolHttpError("x"),
            MissingDependency(int),
            ToolFailure(ValueError("why")),
            ToolFatal("x"),
        ):
            assert isinstance(error, ToolError)
            assert isinstance(error, agents.ToolError)
            assert not isinstance(error, FlowError)
        assert isinstance(ToolIoError("disk"), OSError)
        assert isinstance(ToolFailure(ValueError("why")).__cause__, ValueError)
        assert str(ToolFailure(ValueError("why"))) == "why"

    def test_suspend_signal_is_no_tool_error(self) -> None:
        """P-80: the signal is not a ToolError, so that `except ToolError` in a tool does not catch it."""
        signal = ToolError.suspend({"reason": "sign-off", "at": (1, 2)})
        assert isinstance(signal, SuspendSignal)
        assert not isinstance(signal, ToolError)
        assert signal.value == {"reason": "sign-off", "at": [1, 2]}

    @pytest.mark.parametrize("value", [object(), float("nan"), {"x": float("inf")}, "\ud800"])
    def test_suspend_with_non_json_value(self, value: object) -> None:
        """P-80: a value that JSON cannot hold is a ToolSerializeError instead."""
        error = ToolError.suspend(value)
        assert isinstance(error, ToolSerializeError)
        assert error.__cause__ is not None
