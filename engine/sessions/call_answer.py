"""Decision on an external agent's call as sent to its client; imports no gate, for light clients."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue


class CallAnswer(BaseModel):
    """Decision on a call: `allow` to run it with exactly `input`, or `block` it for `reason`.

    `waiting` means that the call needs approval and no operator has decided yet, or that all agents are
    frozen, as `reason` then says: request the decision again later. `approved` says that the operators in
    `approved_by` approved this very call, not the rules or a grant. `edited` says that an operator
    changed the input, and `repeated` that the answer was given before. In shadow mode everything is
    allowed, and `would` is the decision of enforce mode.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Literal["allow", "block", "waiting"]
    input: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    approved: bool = False
    approved_by: tuple[str, ...] = ()
    edited: bool = False
    reason: str | None = None
    mode: Literal["enforce", "shadow"] = "enforce"
    repeated: bool = False
    would: Literal["allow", "block", "ask"] | None = None
