"""Nets of one session's gate: which are active, the state of each, and the grants."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import get_args

from ...core.condition import Surroundings
from ...core.sources import USER
from ...net.net import GateState, NetError, SkillNet, initial_state
from ..calls.contention import Claims
from ..classify import Roster
from ..commit import PendingIndex
from ..conditions import Timekeeper
from ..grants.net import Grant
from ..grants.store import GrantStore
from ..member import Member
from ..name_changes import takes_from
from ..shared_uses import SessionUses, SharedUses
from ..types import Mode, RecordDecision, ReplayEntry, SaidText, ToggleResult
from .recorder import Recorder
from .registry import Nets, keyed_nets, one_of, split_registry
from .replay import replay_entry
from .restore import (
    Arrivals,
    Markings,
    Pending,
    member_of,
    pending_step,
    restored_nets,
    value_members,
)
from .undo import Moves

_STATIC = ToggleResult(False, "Static composition does not support dynamic nets")


class Composition:
    """Nets by key, with their states and grants; every change is atomic.

    A list of nets is static; nets of a registry can be switched on and off. All of it can be restored
    from a record.
    """

    def __init__(
        self,
        nets: Nets | None,
        registry: Mapping[str, SkillNet] | None,
        active: Sequence[str] | None,
        *,
        mode: Mode,
        record: RecordDecision | None,
        quote_calls: bool,
        surroundings: Surroundings,
        clock: Callable[[], float],
        uses: SessionUses | None,
    ) -> None:
        nets, active = split_registry(nets, active)
        nets = one_of(nets, registry)
        self.is_dynamic = isinstance(nets, Mapping)
        if not self.is_dynamic and active is not None:
            raise NetError("'active' needs a registry: give the nets as a mapping from key to net")
        self._members = {k: Member(k, net, initial_state(net)) for k, net in keyed_nets(nets).items()}
        self._granted = GrantStore()
        self._uses = uses or SharedUses().of_session("")
        self._time = Timekeeper(clock, surroundings, self._uses)
        self._listen(self._members)
        self._time.said.clear()
        context = self._time.context()
        for member in self._members.values():
            member.state.since = context.since(member.net, member.state.marking, {})
        self._pending = PendingIndex()
        self._moves = Moves()
        self._lock = self._uses.uses.lock
        self._claims = Claims(self._lock)
        self._recorder = None if record is None else Recorder(record)
        self._quote_calls = quote_calls
        self.mode = mode
        self.replacements = 0
        """Number of times that the nets were replaced."""
        self._roster = self._roster_of(self._members if active is None else active)

    @property
    def mode(self) -> Mode:
        """`enforce` or `shadow` (G-57)."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is 'enforce' or 'shadow', not {mode!r}")
        with self._lock:
            self._mode: Mode = mode
            self._claims.wake()

    @property
    def surroundings(self) -> Surroundings:
        """Surroundings in which calls run, for conditions on paths."""
        return self._time.surroundings

    @surroundings.setter
    def surroundings(self, surroundings: Surroundings) -> None:
        self._time.surroundings = surroundings

    @property
    def sources(self) -> frozenset[str]:
        """Sources in which conditions look for values: `user`, tools, members of their results."""
        return self._time.said.sources

    def listens_to(self, source: str) -> bool:
        """Return whether conditions read texts of `source` (`user` or a tool); see `hear`."""
        return source in self._time.said.speakers

    def _listen(self, members: Mapping[str, Member]) -> None:
        """Start keeping the texts and uses that these nets read."""
        nets = [member.net for member in members.values()]
        self._time.listen(nets)
        limits = [net.shared for net in nets if net.shared is not None]
        self._uses.uses.keep_for(limits)
        self._counts = bool(limits)

    def hear(self, source: str, text: str) -> None:
        """Add a text of a source: `user` for what a user said, or a tool for what its call returned.

        Conditions look there for values (`input.to not from user, get_contacts`). Texts of sources that
        are not in `sources` are not kept.
        """
        if source in self._time.said.speakers:
            with self._lock:
                self._time.said.add(source, text)

    def hear_again(self, texts: Iterable[tuple[str, str]]) -> None:
        """Replace all texts with these, given with their sources, oldest first."""
        with self._lock:
            self._time.said.clear()
            for source, text in texts:
                self._time.said.add(source, text)

    @property
    def nets(self) -> dict[str, SkillNet]:
        """All nets by key, active or not."""
        return {key: member.net for key, member in self._members.items()}

    @property
    def states(self) -> dict[str, GateState]:
        """Every net's state by key; these are the manager's own objects."""
        return {key: member.state for key, member in self._members.items()}

    @property
    def pending(self) -> tuple[Pending, ...]:
        """Deferred transitions that wait for results, in the form that `restore` accepts."""
        return tuple(
            (net.key, waiting.transition.name, waiting.tool, waiting.call)
            for member in self._members.values()
            for net in (member, *member.values())
            for calls in net.state.pending.values()
            for waiting in calls
        )

    @property
    def active(self) -> tuple[str, ...]:
        """Keys of the active nets, in order of activation (G-22)."""
        return tuple(member.key for member in self._roster.members)

    # Grants

    @property
    def grants(self) -> dict[str, Grant]:
        """Grants by key, including expired and used ones but not revoked ones."""
        return dict(self._granted.grants)

    @property
    def grant_states(self) -> dict[str, GateState]:
        """State of every grant's net by key; these are the manager's own objects."""
        return {key: member.state for key, member in self._granted.members.items()}

    def add_grant(self, grant: Grant, *, since: float | None = None) -> None:
        """Add a grant; one that expires counts from `since`, or from now.

        Raises `NetError` for a key that is not a grant's or is in use, and for an unknown net.
        """
        with self._lock:
            for asks in grant.asking:
                member_of(self._members, asks)
            if since is None and grant.net.timed:
                since = self._time.context().now()
            self._granted.add(grant, since)
            self._claims.wake()

    def grants_with(self, key: str) -> tuple[str, ...]:
        """Keys of the grants that end together with this one: all grants of the same plan (G-110).

        `key` may also be the key of a plan.
        """
        return self._granted.together(key)

    def revoke_grant(self, key: str) -> ToggleResult:
        """End a grant and all others of its plan."""
        with self._lock:
            ended = self._granted.together(key)
            if not ended:
                known = ", ".join(self._granted.grants) or "none"
                return ToggleResult(False, f"Unknown grant '{key}'. There are: {known}")
            for each in ended:
                self._granted.drop(each)
            self._claims.wake()
            return ToggleResult(True, f"Revoked '{', '.join(ended)}'")

    # Switching nets

    def add_net(self, name: str) -> ToggleResult:
        """Activate a registered net; it continues from its last state (G-21)."""
        with self._lock:
            if not self.is_dynamic:
                return _STATIC
            if name not in self._members:
                available = ", ".join(self._members)
                return ToggleResult(False, f"Unknown net '{name}'. Available: {available}")
            if name in self.active:
                return ToggleResult(False, f"'{name}' is already active")
            self._roster = self._roster_of([*self.active, name])
            self._claims.wake()
            return ToggleResult(True, f"Activated '{name}'")

    def loses_to(self, name: str, returning: Iterable[str] = ()) -> tuple[str, ...]:
        """Nets that no longer judge some calls once the net `name` is on as well (G-66).

        These are nets on `anything-else`, and on names that fold to one of its names.

        `returning` are nets that are off and will be on again; they count as active.
        """
        with self._lock:
            if name not in self._members or name in self.active:
                return ()
            on = [self._members[key] for key in dict.fromkeys((*self.active, *returning))]
        net, nets = self._members[name].net, [member.net for member in on]
        return tuple(m.key for m in on if m.key != name and takes_from(net, m.net, nets))

    def remove_net(self, name: str) -> ToggleResult:
        """Deactivate a net; it keeps its state and still receives results (G-17, G-21)."""
        with self._lock:
            if not self.is_dynamic:
                return _STATIC
            if name not in self.active:
                return ToggleResult(False, f"'{name}' is not active. Active: {', '.join(self.active)}")
            self._roster = self._roster_of(key for key in self.active if key != name)
            self._claims.wake()
            return ToggleResult(True, f"Deactivated '{name}' (state preserved)")

    def replace_nets(
        self,
        registry: Mapping[str, SkillNet],
        active: Sequence[str],
        kept: Container[str] = (),
        *,
        grants: Container[str] = (),
        undo: bool = False,
    ) -> tuple[str, ...]:
        """Replace the nets with those of `registry`, of which exactly `active` are on (G-67).

        Nets that are already here and named in `kept` keep their state, including pending calls; all
        others start from their initial markings. Moves by calls that later do not run are kept too.
        Questions that were shown to operators stay open. With `undo`, the last replacement is taken back
        before anybody could see it.

        Grants end, and those of a plan end together, except those whose keys are in `grants` and whose
        nets are still here: only the caller knows whether what they rest on is unchanged (G-74, G-110).
        Returns the keys of the grants that have ended.

        Raises `NetError` for a static composition, an unknown name in `active`, a kept net with other
        places or transitions, and a net that does not come to rest; nothing changes then.
        """
        with self._lock:
            if not self.is_dynamic:
                raise NetError(_STATIC.message)
            context = self._time.context()
            members: dict[str, Member] = {}
            for key, net in keyed_nets(registry).items():
                old = self._members.get(key) if key in kept else None
                members[key] = Member(key, net, initial_state(net) if old is None else old.state)
                if old is None:
                    members[key].state.since = context.since(net, members[key].state.marking, {})
                elif (old.net.places, old.net.transitions) != (net.places, net.transitions):
                    raise NetError(f"Net '{key}' cannot keep its state: its structure differs")
            roster = self._roster_of(active, members)
            ended = self._granted.ended_without(members, grants)
            for key in ended:
                self._granted.drop(key)
            self._members, self._roster = members, roster
            self._listen(members)
            self.replacements += -1 if undo else 1
            self._pending = PendingIndex.of(*members.values())
            self._moves.forget()
            self._claims.wake()
            return ended

    # From a record

    def replay(self, entries: Iterable[ReplayEntry | SaidText | str]) -> None:
        """Move the active nets by finished calls, oldest first; bare names count as successes (G-25).

        Results of the calls, and what users said between them, are added as by `hear`. Raises `NetError`
        if a mapper fails or a net does not come to rest.
        """
        with self._lock:
            self._moves.forget()
            context = self._time.context()
            for entry in entries:
                if isinstance(entry, SaidText):
                    self._time.said.add(USER, entry.text)
                    continue
                replay_entry(entry, self._roster, context)
                if isinstance(entry, ReplayEntry) and entry.output is not None and not entry.is_error:
                    self._time.said.add(entry.tool_name, entry.output)
            self._claims.wake()

    def restore(
        self,
        *,
        markings: Markings | None = None,
        since: Arrivals | None = None,
        pending: Iterable[Pending] | None = None,
        active: Sequence[str] | None = None,
        mode: Mode | None = None,
        grants: Iterable[Grant] | None = None,
        revoked: Container[str] = (),
        latest: float | None = None,
    ) -> None:
        """Restore markings, pending transitions, active nets, mode and grants from a record (G-63).

        Arguments that are not given leave their part unchanged. `pending` gives net, transition, tool and
        call of every deferred transition that waits, oldest first, and replaces the current ones.
        `grants` are all grants ever given and replace the current ones; `revoked` are the keys of those
        that were revoked. `markings` and `since` (arrival times in places with timed tokens) are of nets
        and grants alike. For a net per value, the nets of values not among them start from their initial
        markings. Tokens of a net with a marking but no `since` count from now. The gate's time is never
        before `latest`; `-inf` is for another record.

        Ends the refusal of calls after a decision that could not be recorded. Raises `NetError` for an
        unknown net, place or transition, and for a grant that expires without `since`; nothing changes
        then.
        """
        with self._lock:
            roster = self._roster if active is None else self._roster_of(active)
            granted = self._granted.replaced(grants, revoked)
            members = {**self._members, **granted.members}
            pending = None if pending is None else list(pending)
            named = (*(markings or ()), *(since or ()), *(p[0] for p in pending or ()))
            members.update(value_members(self._members, named))
            markings = {k: marking for k, marking in (markings or {}).items() if k not in revoked}
            since = {k: times for k, times in (since or {}).items() if k not in revoked}
            if latest is not None:
                self._time.begin_at(latest)
            places = restored_nets(members, markings, since, self._time.context())
            granted.check_times(places)
            steps = None if pending is None else [pending_step(members, p) for p in pending]
            if mode is not None:
                self.mode = mode
            self._roster = roster
            if places or grants is not None or steps is not None:
                self._moves.forget()
            self._granted = granted
            if steps is not None:
                self._pending.clear()
            for place in places.values():
                place.put()
            for member, step, call in steps or ():
                member.keep()
                self._pending.add(member, step, call)
            if self._recorder is not None:
                self._recorder.restored()
            self._claims.wake()

    def adopt(self, states: Sequence[GateState]) -> None:
        """Use the caller's states for the nets, in the order of the nets.

        Raises `ValueError` unless there is one for each.
        """
        context = self._time.context()
        with self._lock:
            for member, state in zip(self._members.values(), states, strict=True):
                member.take_state(state)
                state.since = context.since(member.net, state.marking, state.since)
            self._pending = PendingIndex.of(*self._members.values())

    def _member(self, key: str) -> Member | None:
        """The net, grant, or net of one value that has this key in steps."""
        member = self._members.get(key) or self._granted.members.get(key)
        if member is not None:
            return member
        return next(iter(value_members(self._members, (key,)).values()), None)

    def _roster_of(self, keys: Iterable[str], members: Mapping[str, Member] | None = None) -> Roster:
        members = self._members if members is None else members
        keys = list(dict.fromkeys(keys))
        unknown = [key for key in keys if key not in members]
        if unknown:
            names = ", ".join(f"'{key}'" for key in unknown)
            raise NetError(f"Unknown nets in active: {names}. Available: {', '.join(members)}")
        return Roster((members[key] for key in keys), quotes_calls=self._quote_calls)

    def _name(self, member: Member) -> str:
        return member.key if self.is_dynamic else member.net.name
