"""Rules for who counts as another person than those behind a session (G-77).

Pure functions over names and a session's facts. Names are compared by `person_key`, because a person may
write their name in different ways.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, Protocol, TypeAlias

from .sanitize import visible

LONGEST_NAME = 64
"""Most characters of a person's name."""
Part: TypeAlias = Literal["opened", "branched", "resumed", "owner", "task"]
"""A person's part in a session: its existence, the ownership of its agent, or the current turn's task."""

PARTS: Mapping[Part, tuple[str, str]] = {
    "opened": ("started this session", "you started this session"),
    "branched": ("branched this session", "you branched this session"),
    "resumed": ("resumed this session", "you resumed this session"),
    "owner": ("owns the token of this agent", "the token of this agent is yours"),
    "task": ("gave the running turn its task", "you gave the running turn its task"),
}
"""Each part as said about a person, and to them."""

_LETTERS = {
    # Cyrillic
    **dict(zip("авсԁеһіјкӏмнорԛѕтухԝгѵьѡ", "abcdehijklmhopqstyxwrvbw", strict=True)),
    # Greek
    **dict(zip("αβγεηικνορστυχω", "abyenikvopotuxw", strict=True)),
    # Armenian, Latin
    **dict(zip("օսհոցյıɑɡłøɩ", "ouhngjiaglol", strict=True)),
    # Digits and marks
    "0": "o",
    "1": "l",
    "|": "l",
}
_SHAPES = str.maketrans(_LETTERS | {"i": "l", "ı": "l", "і": "l", "ι": "l", "ɩ": "l"})


class SessionPeople(Protocol):
    """The people behind a session; `SessionState` implements this.

    `starters` has by name what each person did; `task_by` are those who gave the current turn its task.
    """

    @property
    def starters(self) -> Mapping[str, Part]: ...

    @property
    def task_by(self) -> Collection[str]: ...


def person_key(name: str) -> str:
    """Key shared by all spellings of one person's name: NFKC and casefold, no invisible characters."""
    folded_text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    visible_text = "".join(c for c in folded_text if unicodedata.category(c) not in ("Cf", "Cc"))
    return " ".join(visible_text.split())


def checked_name(text: str) -> str:
    """A person's name as recorded: one line without deceptive characters or surrounding blanks.

    Raises `ValueError`; callers add where the name was found.
    """
    name = unicodedata.normalize("NFC", text).strip()
    if not name:
        problem = "it is empty" if not text else "it is blank"
    elif (safe := visible(name)) != name:
        problem = f"'{safe[:LONGEST_NAME]}' has characters that cannot be seen, or a line break"
    elif len(name) > LONGEST_NAME:
        problem = f"it has {len(name)} characters"
    else:
        return name
    raise ValueError(
        f"an operator's name is one line of 1 to {LONGEST_NAME} visible characters; {problem}"
    )


def same_person(one: str, other: str) -> bool:
    """Return whether two names belong to the same person."""
    return person_key(one) == person_key(other)


def is_among(name: str, people: Iterable[str]) -> bool:
    """Return whether a person is one of `people`, in any spelling."""
    key = person_key(name)
    return any(person_key(other) == key for other in people)


def part_in(name: str, *sessions: SessionPeople) -> Part | None:
    """Part of a person in `sessions`; `None` for another person (G-77).

    The first session is the one that a rule judges; the others are those of subagents through which a
    call came. The holder of the tokens decides whether the token of `name` is in force.
    """
    key = person_key(name)
    for session in sessions:
        for starter, part in session.starters.items():
            if person_key(starter) == key:
                return part
    matches = (is_among(name, session.task_by) for session in sessions)
    return "task" if any(matches) else None


def involvement_reason(name: str, *sessions: SessionPeople, own_approvals: bool = False) -> str | None:
    """Reason, with the name, why somebody is not another person than those behind `sessions`; else
    `None`.

    With `own_approvals` the people behind a session count as others.
    """
    part = None if own_approvals else part_in(name, *sessions)
    return None if part is None else f"{name} {PARTS[part][0]}"


def name_shape(name: str) -> str:
    """Shape shared by names that are easily confused: accents, scripts and digits folded."""
    bare = unicodedata.normalize("NFKD", person_key(name))
    plain = "".join(c for c in bare if not unicodedata.category(c).startswith("M")).translate(_SHAPES)
    plain_dashes = "".join("-" if unicodedata.category(c) == "Pd" else c for c in plain)
    return plain_dashes.replace("rn", "m").replace("vv", "w")
