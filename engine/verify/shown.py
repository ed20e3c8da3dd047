"""A way as people read it: calls, what they ask, and how long to wait between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..lasting import as_typed
from ..net import SkillNet, auto_advance
from .effort import Effort
from .local import Action, Wait
from .machine import Machine, Tokens
from .waiting import seconds_of
from .whole import Whole


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call on a way: its names, the most specific first, whether people are asked, how it ends.

    `people` is how many must approve. `outside` holds the keys of nets that would stop it or ask somebody
    if it met their conditions, which it must not. With `seconds` it is no call but waiting for so long,
    and `names` says that.
    """

    names: tuple[str, ...]
    approval: bool = False
    succeeds: bool = True
    people: int = 1
    outside: tuple[str, ...] = ()
    seconds: float | None = None

    def __str__(self) -> str:
        asked = "approval" if self.people < 2 else f"{self.people} people approve"
        marks = [*([asked] if self.approval else []), *([] if self.succeeds else ["fails"])]
        if self.outside:
            marks.append(f"outside {', '.join(self.outside)}")
        return f"{self.names[0]} ({', '.join(marks)})" if marks else self.names[0]


class Shown:
    """Words of a whole as calls; a call that occurs on many ways is made once."""

    def __init__(
        self,
        whole: Whole,
        nets: Mapping[str, SkillNet],
        markings: Mapping[str, Mapping[str, int]] | None,
    ) -> None:
        self._whole = whole
        self._nets = nets
        self._markings = markings
        self._at = {local.key: net for net, local in enumerate(whole.locals)}
        # Where nothing depends on where the nets stand, they need not be moved along.
        self._moves = whole.manual or any(a.outside or a.wait for a in whole.actions)
        self._known: dict[tuple[int, int, tuple[str, ...]], PlannedCall] = {}
        self._fixed: dict[int, PlannedCall] = {}
        self._left_out: dict[str, tuple[Machine, Tokens]] = {}

    def calls(self, word: Sequence[int]) -> tuple[PlannedCall, ...]:
        """The calls of a word that works from where the nets stand; waiting on end is one step."""
        if not self._moves:
            for number in word:
                if number not in self._fixed:
                    self._fixed[number] = self._planned({}, number)
            return tuple(map(self._fixed.__getitem__, word))
        whole = self._whole
        state = whole.begin()
        planned: list[PlannedCall] = []
        waited: list[Wait] = []
        since: dict[int, int] = {}
        for number in self._waiting_together(word):
            wait = whole.actions[number].wait
            if wait is not None:
                since = since if waited else dict(state)
                waited.append(wait)
            else:
                if waited:
                    planned.append(self._waiting(waited, since))
                    waited = []
                planned.append(self._planned(state, number))
            whole.run(state, [number])
        return tuple(planned)

    def _waiting_together(self, word: Sequence[int]) -> list[int]:
        """The word with waiting put beside earlier waiting, past calls that its net does not know."""
        found: list[int] = []
        for number in word:
            place = end = len(found)
            if self._whole.actions[number].wait is not None:
                here = set(self._whole.nets_of[number])
                while place and here.isdisjoint(self._whole.nets_of[found[place - 1]]):
                    place -= 1
                    if self._whole.actions[found[place]].wait is not None:
                        end = place + 1
                        break
            found.insert(end, number)
        return found

    def _waiting(self, waited: Sequence[Wait], state: Mapping[int, int]) -> PlannedCall:
        keys = {wait.key for wait in waited}
        markings = {k: self._whole.locals[self._at[k]].marking(state[self._at[k]]) for k in keys}
        seconds = seconds_of(waited, self._nets, markings)
        return PlannedCall((f"wait {as_typed(seconds)}",), seconds=seconds)

    def _planned(self, state: Mapping[int, int], number: int) -> PlannedCall:
        whole = self._whole
        action = whole.actions[number]
        people = whole.asking.get(number, 0)
        if whole.manual:
            asked = (whole.locals[net].asks(state[net], number) for net in whole.nets_of[number])
            people = max(people, *asked, 0)
        outside = tuple(key for key in action.outside if self._would_stop(state, action, key))
        key = (number, people, outside)
        if key not in self._known:
            self._known[key] = PlannedCall(
                action.names, people > 0, action.succeeds, max(people, 1), outside
            )
        return self._known[key]

    def _would_stop(self, state: Mapping[int, int], action: Action, key: str) -> bool:
        """Whether a net that the call is outside of would block it or ask somebody from inside."""
        if key in self._at:
            local = self._whole.locals[self._at[key]]
            machine, tokens = local.machine, local.tokens(state[self._at[key]])
        else:
            machine, tokens = self._resting(key)
        moved = machine.advance(tokens, action.names, Effort(), succeeds=action.succeeds)
        return moved is None or moved[1] > 0

    def _resting(self, key: str) -> tuple[Machine, Tokens]:
        """A net that none of the calls moves, where it stands."""
        if key not in self._left_out:
            net = self._nets[key]
            given = self._markings
            marking = auto_advance(net, net.initial_marking) if given is None else given[key]
            machine = Machine(net, marking)
            self._left_out[key] = machine, tuple(marking.get(p, 0) for p in machine.places)
        return self._left_out[key]
