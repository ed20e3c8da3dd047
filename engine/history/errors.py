"""Errors of a journal: of its file, a session's id, the events themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model.events import JournalEvent

from collections.abc import Sequence

from ..core.sanitize import visible

_LIBPQ_QUESTION = "Is the server running"


def error_text(error: BaseException) -> str:
    """Return the message of an error on one line without a full stop, or its type if it has none."""
    text = ""
    for line in str(error).splitlines():
        words = " ".join(line.split())
        if words.startswith(_LIBPQ_QUESTION):  # the remedies of Interlock's messages say what to check
            continue
        is_new = text[-1:].isalnum() and words[:1].isupper()
        text = f"{text}{'.' if is_new else ''} {words}".strip()
    return text.rstrip(".") or type(error).__name__


class JournalError(Exception):
    """The journal cannot be opened, read or written; the message names the file and the remedy."""


class JournalDisturbed(JournalError):  # noqa: N818 - says what happened
    """Another program changed the files of an open journal, which accepts no more writes."""


class ServerEnded(JournalDisturbed):
    """Another server has taken over, or may have; callers must send their requests there."""


class SessionRefused(JournalError):  # noqa: N818 - says what happened
    """Events of `session` were not written, while those of other sessions were."""

    def __init__(self, message: str, *, session: str = "") -> None:
        super().__init__(message)
        self.session = session


class SessionElsewhere(SessionRefused):
    """Another server of the same database owns `session`; `url` is where it can be reached."""

    def __init__(self, message: str, *, session: str = "", url: str | None = None) -> None:
        super().__init__(message, session=session)
        self.url = url


class SessionBehind(SessionRefused):
    """Events were recorded in `session` that whoever wrote to it does not know of."""


class SessionDiverged(SessionRefused):
    """The database lost acknowledged events of `session`; no more events of the session are accepted."""


class SessionNewer(SessionRefused):
    """A `session` has events of a newer version, so this version cannot safely act on it."""


class SessionNotFound(LookupError):  # noqa: N818 - says what happened, as the session stores' own does
    """No session, or more than one, has an id with this prefix; `candidates` are the ids to choose from.

    `pruned` says when and by whom the session with such an id was pruned.
    """

    def __init__(
        self, prefix: str, candidates: Sequence[str], *, ambiguous: bool, pruned: str | None = None
    ) -> None:
        self.wanted = prefix
        self.candidates = tuple(candidates)
        name = visible(prefix) or "''"
        candidate_list = ", ".join(visible(c) for c in self.candidates)
        if pruned is not None:
            text = (
                f"Session '{name}' was pruned {visible(pruned)}; only its stub is left. "
                "An export of it can still be checked: interlock history verify FILE"
            )
        elif ambiguous:
            text = f"Several sessions begin with '{name}': {candidate_list}. Give more of the id."
        elif candidate_list:
            text = f"Session not found: {name}. The latest are: {candidate_list}."
        else:
            text = f"Session not found: {name}. The journal has no sessions yet."
        super().__init__(text)


class FoldError(ValueError):
    """An event that cannot follow those before it; the message names session, event number and reason."""


def impossible(event: JournalEvent, reason: str) -> FoldError:
    """Return the error for an event that cannot follow those before it."""
    return FoldError(f"session '{event.session}', event {event.seq} ({event.body.type}): {reason}")
