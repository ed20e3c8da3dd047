"""View of an explanation for consoles and other programs: plain fields, ready for a wire.

Every client imports this, so it imports neither the gate nor verification; `explain` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import JsonValue

from ..history.model.records import RuleRecord, View

if TYPE_CHECKING:
    from ..history.redaction.redaction import Redaction


class NetView(View):
    """Verdict of one active net on the call, its marking, and its rule.

    `people` is how many must approve, 0 if it needs no approval, and `approvers` are the rule's words for
    who may. `when` is the rule's condition, if it applies to the call. `note` says that the condition
    does not hold, so that the net abstains, or why that is unknown, so that the net applies.
    """

    net: str
    verdict: Literal["free", "abstain", "gated", "blocked"]
    tool: str
    asks: bool
    reason: str | None
    marking: dict[str, int]
    rule: RuleRecord | None
    people: int = 0
    approvers: str | None = None
    when: str | None = None
    note: str | None = None


class PlannedCallView(View):
    """A call on the way: all its names, whether it needs approval, how it has to end.

    `people` is how many must approve, `outside` are the nets whose conditions it must not meet. With
    `seconds` it is a wait of that length instead of a call; see `verify.PlannedCall`.
    """

    names: tuple[str, ...]
    approval: bool
    succeeds: bool
    people: int = 1
    outside: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        from ..verify import PlannedCall

        return str(PlannedCall(**dict(self)))


class WayView(View):
    """Way to get the call allowed.

    `reachable` is `yes` with the `calls`, this call last, `never` with the nets `against` it, or
    `unknown` if there was too much to try. `shortest` says that no fewer calls lead there.
    """

    reachable: Literal["yes", "never", "unknown"]
    calls: tuple[PlannedCallView, ...] = ()
    shortest: bool = False
    against: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " → ".join(map(str, self.calls))


class ExplanationView(View):
    """Outcome of a call under the active nets now; see `gate.explain.Explanation`.

    `unclear` is why the call may do more than its names say. `judged_as` are names in the rules that
    equal its tool's name after folding, but not exactly. `off` says for a recorded call what people had
    switched off that would have stopped it, and who. `shell_fields` are as in `CallRecord`.
    """

    tool: str
    input: dict[str, JsonValue]
    names: tuple[str, ...]
    outcome: Literal["allow", "block", "ask"]
    nets: tuple[NetView, ...]
    way: WayView | None
    granted: tuple[str, ...] = ()
    unclear: str | None = None
    judged_as: tuple[str, ...] = ()
    off: str | None = None
    shell_fields: tuple[str, ...] = ()

    def masked(self, redaction: Redaction) -> ExplanationView:
        """This explanation with secrets masked."""
        nets = tuple(
            net if net.reason is None else net.model_copy(update={"reason": redaction.text(net.reason)})
            for net in self.nets
        )
        names = tuple(map(redaction.text, self.names))
        unclear = None if self.unclear is None else redaction.text(self.unclear)
        return self.model_copy(
            update={
                "input": redaction.fields(self.input, self.shell_fields),
                "names": names,
                "nets": nets,
                "unclear": unclear,
            }
        )
