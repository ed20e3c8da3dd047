"""Laws: under any order of operators' actions, every call that runs is justified by its journal."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine.gate.types import GrantTerms
from interlock.engine.hub.hub import ApprovalPolicy

from ...support.laws import examples
from ..support.approval_justified import Journalled
from ..support.approval_rules import CONDITIONS, HOUR, QUARTER, Call, Written
from ..support.approval_world import Answer, Deed, Move, World, turns

WHEN = st.sampled_from((None, None, *CONDITIONS))
ENVS = ({}, {"env": "prod"}, {"env": "lab"}, {"env": "prod", "n": 2}, {"n": 1}, {"env": "lab", "n": 2})

approval = st.builds(
    Written,
    st.just("approval"),
    st.just("deploy"),
    within=st.sampled_from((None, QUARTER)),
    grants=st.sampled_from((True, True, False)),
    when=WHEN,
)
two = st.builds(Written, st.just("approval"), st.just("publish"), people=st.just(2), when=WHEN)
limit = st.builds(Written, st.just("limit"), st.just("deploy"), limit=st.sampled_from((1, 2)), when=WHEN)
first = st.builds(Written, st.just("sequence"), st.just("deploy"), first=st.just("test"), when=WHEN)
block = st.builds(Written, st.just("block"), st.just("rm"), when=WHEN)
RULES = st.tuples(
    approval,
    *(st.one_of(rule, rule, st.none()) for rule in (two, limit)),
    *(st.one_of(st.none(), st.none(), rule) for rule in (approval, first, block)),
).map(lambda rules: list({rule.text: rule for rule in rules if rule is not None}.values()))

INPUTS = st.sampled_from(ENVS)
ENV = st.sampled_from(({}, {"env": "prod"}, {"env": "lab"}))
CALL = st.one_of(
    st.builds(Call, st.just("deploy"), INPUTS),
    st.builds(Call, st.just("deploy"), INPUTS),
    st.builds(Call, st.just("publish"), ENV),
    st.builds(Call, st.just("publish"), ENV),
    st.builds(Call, st.just("test"), st.sampled_from(({}, {}, {"bad": True}))),
    st.builds(Call, st.just("rm"), ENV),
)
HELP = Call("task_helper", {"prompt": "help"})
HELPERS = st.lists(st.lists(CALL, min_size=1, max_size=2), max_size=3)
OWN = st.lists(
    st.one_of(
        st.lists(CALL, min_size=1, max_size=2),
        st.lists(CALL, max_size=1).map(lambda calls: [HELP, HELP, *calls]),
        st.just([]),
    ),
    min_size=1,
    max_size=6,
)
SCRIPTS = st.lists(st.tuples(OWN, HELPERS), min_size=1, max_size=3)

PEOPLE = st.sampled_from(("ada", "ben", "ada", "mia", " ada", "mia "))
GRANTS = st.one_of(
    st.none(),
    st.builds(
        GrantTerms,
        st.sampled_from(("names", "input")),
        uses=st.sampled_from((None, 1, 2)),
        seconds=st.sampled_from((None, 600.0)),
    ),
)
WHICH = st.sampled_from((0, 0, 0, 1, 2))
CUT = st.sampled_from((None, None, None, 0, 1, 3))
ANSWER = st.one_of(
    st.builds(Answer, WHICH, st.just("approve"), PEOPLE, st.just("right"), GRANTS, cut=CUT),
    st.builds(Answer, WHICH, st.just("approve"), PEOPLE, st.sampled_from(("right", "none", "first"))),
    st.builds(Answer, WHICH, st.just("edit"), PEOPLE, st.just("right"), GRANTS, ENV),
    st.builds(Answer, WHICH, st.just("edit"), PEOPLE, st.just("right"), input=ENV),
    st.builds(
        Answer,
        WHICH,
        st.sampled_from(("approve", "deny", "stop")),
        PEOPLE,
        st.sampled_from(("right", "wrong", "first")),
    ),
)
SESSION = st.integers(0, 2)
DEED = st.one_of(
    st.builds(Deed, st.just("clock"), seconds=st.sampled_from((60.0, 600.0, QUARTER, HOUR))),
    st.builds(Deed, st.sampled_from(("on", "off")), SESSION, st.integers(0, 4)),
    st.builds(Deed, st.sampled_from(("shadow", "enforce", "enforce")), SESSION),
    st.builds(Deed, st.sampled_from(("go", "steer", "abort", "go", "resume")), SESSION),
    st.builds(Deed, st.just("revoke"), SESSION, WHICH),
    st.builds(Deed, st.just("take back"), which=WHICH),
    st.builds(Deed, st.sampled_from(("claim", "unclaim", "comment", "gone")), which=WHICH),
    st.builds(Deed, st.sampled_from(("freeze", "lift", "lift"))),
    st.builds(Deed, st.just("extend"), which=WHICH, seconds=st.sampled_from((0.0, 60.0, QUARTER))),
)
REST = 90
SOON = st.one_of(st.just(0), st.integers(0, 14), st.just(REST), st.just(REST))

Moment = tuple[int, Move]


def one_after_another(*moves: st.SearchStrategy[Move]) -> st.SearchStrategy[list[Moment]]:
    """Moves that each happen after the previous one has taken effect."""
    return st.tuples(*moves).map(lambda each: [(REST, move) for move in each])


def at_the_same_moment(*moves: st.SearchStrategy[Move]) -> st.SearchStrategy[list[Moment]]:
    """Moves that happen at the same moment, in this order."""
    return st.tuples(*moves).map(lambda each: [(0 if n else REST, move) for n, move in enumerate(each)])


def deeds(*verbs: str) -> st.SearchStrategy[Move]:
    return st.builds(Deed, st.sampled_from(verbs), st.just(0), st.just(0))


GRANT = st.builds(Answer, st.just(0), st.just("approve"), st.just("ada"), grant=GRANTS)
MORE = st.builds(Deed, st.just("go"), st.just(0))
LATER = st.builds(Deed, st.just("clock"), seconds=st.sampled_from((600.0, QUARTER, HOUR)))
EXTEND = st.builds(Deed, st.just("extend"), seconds=st.sampled_from((0.0, QUARTER)))
FUSE_TIME = st.builds(Deed, st.just("clock"), seconds=st.sampled_from((1.0, 30.0)))
SWITCH = deeds("off", "on", "shadow", "abort", "revoke")
CUT_OFF = st.builds(Answer, st.just(0), st.just("approve"), PEOPLE, cut=st.integers(0, 3))
STORIES = st.one_of(
    one_after_another(GRANT, deeds("go", "revoke", "off"), MORE),
    one_after_another(GRANT, deeds("go", "revoke", "abort"), deeds("resume"), MORE),
    one_after_another(deeds("shadow", "off"), MORE, deeds("enforce", "on"), MORE),
    one_after_another(GRANT, LATER, MORE),
    at_the_same_moment(LATER, st.one_of(ANSWER, EXTEND)),
    at_the_same_moment(ANSWER, SWITCH),
    at_the_same_moment(SWITCH, ANSWER),
    at_the_same_moment(CUT_OFF, ANSWER),
    one_after_another(ANSWER, FUSE_TIME, deeds("take back", "abort", "off", "freeze"), FUSE_TIME),
    at_the_same_moment(FUSE_TIME, deeds("take back")),
    at_the_same_moment(deeds("take back"), FUSE_TIME),
    one_after_another(deeds("freeze"), ANSWER, MORE, deeds("resume", "lift"), deeds("lift")),
)


def moments(*moves: st.SearchStrategy[Move]) -> st.SearchStrategy[list[Moment]]:
    """Up to thirty moves with the pauses between them."""
    one = st.tuples(SOON, st.one_of(*moves)).map(lambda moment: [moment])
    parts = st.lists(st.one_of(one, one, STORIES), min_size=2, max_size=22)
    return parts.map(lambda lists: [moment for part in lists for moment in part][:30])


MOVES = moments(ANSWER, ANSWER, DEED)
LAGS = st.lists(st.integers(0, 3), max_size=4)
DELAYS = st.lists(st.sampled_from((0, 2, 5, 8)), max_size=3)
POLICIES = st.builds(
    ApprovalPolicy,
    st.sampled_from((None, None, 600.0)),
    st.booleans(),
    st.sampled_from((0.0, 0.0, 30.0)),
)
Scripts = Sequence[tuple[Sequence[Sequence[Call]], Sequence[Sequence[Call]]]]


def run_and_check(
    empty: Path,
    rules: Sequence[Written],
    scripts: Scripts,
    policy: ApprovalPolicy,
    lags: Sequence[int],
    moves: Sequence[Moment],
    delays: Sequence[int] = (),
) -> World:
    """Run sessions while `moves` happen, each after its pause, and check the records."""

    async def live(folder: Path) -> World:
        world = World(empty, folder, rules, scripts, policy, lags, delays)
        await world.open()
        for number in range(len(scripts)):
            world.do(Deed("go", number))
        await world.rest()
        for pause, move in moves:
            if pause == REST:
                await world.rest()
            else:
                await turns(pause)
            world.do(move)
        await world.settle()
        read = []
        for name in world.names:
            journalled = Journalled(rules, policy.own_approvals, policy.fuse).read(
                await world.hub.recorded(name)
            )
            journalled.justify([mark for mark in world.marks if mark.session == name])
            read.append(journalled)
        await world.close()
        for journalled in read:
            journalled.ended()
        return world

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(live(Path(folder)))


DIRECT = st.builds(Deed, st.just("call"), SESSION, st.integers(0, 4))
LOST = st.one_of(ANSWER, DEED, DIRECT)


def refused_switch(
    switch: str, session: int, net: int, calls: list[tuple[int, int]], besides: list[Moment]
) -> list[Moment]:
    """A switch that the journal refuses, with calls that the session decides at about the same time."""
    direct = [(pause, Deed("call", session, call)) for pause, call in calls]
    return [(REST, Deed("refuse")), (0, Deed(switch, session, net)), *direct, *besides]


WINDOW = st.builds(
    refused_switch,
    st.sampled_from(("off", "off", "shadow", "on", "enforce", "revoke")),
    SESSION,
    st.sampled_from((0, 0, 1, 2, 3)),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from((0, 0, 1, 2, 3, 4))), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 4), LOST), max_size=2),
)
REFUSED = st.lists(
    st.tuples(
        st.one_of(
            WINDOW,
            st.tuples(st.integers(0, 6), LOST).map(lambda move: [(REST, Deed("refuse")), move]),
        ),
        MOVES,
    ).map(lambda parts: [*parts[0], *parts[1][:8]]),
    min_size=1,
    max_size=4,
).map(lambda lists: [moment for part in lists for moment in part])


@pytest.mark.slow
class TestLaws:
    @settings(max_examples=examples(50), deadline=None)
    @given(RULES, SCRIPTS, POLICIES, LAGS, MOVES)
    def test_every_executed_call_is_justified(
        self,
        empty: Path,
        rules: list[Written],
        scripts: Scripts,
        policy: ApprovalPolicy,
        lags: list[int],
        moves: list[Moment],
    ) -> None:
        """G-15, G-63: for any moves, each call that ran was allowed with that input by a decision already
        in the file. Earlier events justify that decision, and fold, hub and gate agree."""
        run_and_check(empty, rules, scripts, policy, lags, moves)

    @settings(max_examples=examples(30), deadline=None)
    @given(RULES, SCRIPTS, POLICIES, LAGS, DELAYS, REFUSED)
    def test_justified_also_with_failed_commits(
        self,
        empty: Path,
        rules: list[Written],
        scripts: Scripts,
        policy: ApprovalPolicy,
        lags: list[int],
        delays: list[int],
        moves: list[Moment],
    ) -> None:
        """G-15, G-63: the same holds if commits fail and operators act before the failure is known.
        Afterwards every session continues."""
        run_and_check(empty, rules, scripts, policy, lags, moves, delays)
