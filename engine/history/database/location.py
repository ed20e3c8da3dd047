"""Location of a journal: an SQLite file, or a PostgreSQL database that several servers share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from ...core.sanitize import visible
from ..errors import JournalError

SCHEMES = ("postgresql", "postgres")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ONE_SLASH = re.compile(r"postgres(ql)?:/(?!/)", re.IGNORECASE)
_NO_CODE = re.compile(r"%(?![0-9A-Fa-f]{2})|@")
"""Characters that must be percent-encoded in a user's name or a password.

libpq ends the name or password at them, or shows the rest of the text in its error.
"""
_SCHEMA = "schema"
_POOLER = "pooler"
_WHICH = "target_session_attrs"
DEFAULT_SCHEMA = "interlock"

Pooling: TypeAlias = Literal["session", "transaction"]
"""Duration for which a pooler assigns a database session to a client: its connection, or a transaction.
"""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SECRET = frozenset({"password", "sslpassword"})


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """A schema of a PostgreSQL database. `url` is libpq's URL; the schema is not part of it.

    `pooler` is the kind of pooler in front of the database, if any. The text of a location is its URL
    without the password, suitable for messages.
    """

    url: str
    schema: str = DEFAULT_SCHEMA
    pooler: Pooling | None = None

    @classmethod
    def of(cls, text: str) -> PostgresLocation:
        """Parse `postgresql://user@host:port/database?schema=NAME&pooler=transaction&…`.

        Other parameters are libpq's. There may be several hosts, separated by commas: a database and its
        standbys, of which the writable one is used. Raises `JournalError` if the text is not such a URL,
        or if the schema's name would need quoting.
        """
        try:
            parts = urlsplit(text)
            user, _, place = parts.netloc.rpartition("@")
            hosts = place.split(",")
            addresses = [urlsplit(f"//{each}") for each in hosts]
            has_address = any(each.hostname is not None or each.port is not None for each in addresses)
        except ValueError as error:  # the error's text may include part of a password
            raise _unreadable(text, "its host or port") from error
        if _NO_CODE.search(user) or parts.fragment:
            raise _unreadable(text, "its user or password")
        if not parts.path.strip("/") and not has_address and not parts.query:
            raise JournalError(
                f"'{visible(_without_secrets(text))}' does not name a database. "
                "Write it like postgresql://user@host/database."
            )
        members = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(members).get(_SCHEMA, DEFAULT_SCHEMA)
        if not _NAME.fullmatch(schema):
            raise JournalError(
                f"'{visible(schema)}' cannot be the schema of a journal: use lower-case letters, digits "
                "and underscores, at most 63."
            )
        pooler = dict(members).get(_POOLER)
        kind: Pooling | None = next((each for each in get_args(Pooling) if each == pooler), None)
        if pooler is not None and kind is None:
            raise JournalError(
                f"'{visible(pooler)}' is not a kind of pooler: write pooler=transaction for one that "
                "assigns a database connection for one transaction, pooler=session for one that assigns "
                "it for as long as the client stays connected."
            )
        parameters = [each for each in members if each[0] not in (_SCHEMA, _POOLER)]
        if (len(hosts) > 1 or "," in dict(parameters).get("host", "")) and _WHICH not in dict(parameters):
            parameters.append((_WHICH, "read-write"))
        query = urlencode(parameters, quote_via=quote)
        # urlunsplit omits the slashes of a URL without a host, which libpq needs.
        return cls(f"postgresql://{parts.netloc}{parts.path}{query and '?'}{query}", schema, kind)

    def __str__(self) -> str:
        url = _without_secrets(self.url)
        parameters = [] if self.schema == DEFAULT_SCHEMA else [f"{_SCHEMA}={self.schema}"]
        parameters += [f"{_POOLER}={self.pooler}"] if self.pooler else []
        return f"{url}{'&' if '?' in url else '?'}{'&'.join(parameters)}" if parameters else url


Location: TypeAlias = Path | PostgresLocation


def location_of(text: str | Path | PostgresLocation) -> Location:
    """Return the location that a text names: a database if it is a URL, else a file.

    Raises `JournalError` for a URL of another kind, and for one that lacks a slash.
    """
    if isinstance(text, PostgresLocation):
        return text
    match = _URL.match(str(text))
    if isinstance(text, str) and _ONE_SLASH.match(text):
        raise _unreadable(text, "its host")
    if isinstance(text, Path) or match is None:
        return Path(text)
    if match[1].lower() in SCHEMES:
        return PostgresLocation.of(text)
    raise JournalError(
        f"'{visible(_without_secrets(text))}' cannot be a journal: '{visible(match[1])}' is not "
        "supported. Name a file, or a database: postgresql://user@host/database."
    )


def absolute(location: str | Path | PostgresLocation) -> Location:
    """Return the location with an absolute path. Raises as `location_of` does."""
    parsed_location = location_of(location)
    return parsed_location.absolute() if isinstance(parsed_location, Path) else parsed_location


def resolved(location: str | Path | PostgresLocation) -> Location:
    """Return the location with all symbolic links resolved: lock and logs are next to the real file.

    Raises as `location_of` does.
    """
    parsed_location = location_of(location)
    return parsed_location.resolve() if isinstance(parsed_location, Path) else parsed_location


def _unreadable(text: str, part: str) -> JournalError:
    return JournalError(
        f"'{visible(_without_secrets(text))}' is not the URL of a database: {part} cannot be read. "
        "Write it like postgresql://user@host:5432/database, with every character of a password that "
        "is not a letter or a digit as %XX."
    )


def _without_secrets(url: str) -> str:
    """Return a URL without its secrets."""
    separator = "://" if "://" in url else ":/"
    head, separator, rest = url.partition(separator)
    place, mark, query = rest.partition("?")
    user, at, host = place.rpartition("@")
    safe_query = "&".join(
        each for each in query.split("&") if each.partition("=")[0].lower() not in _SECRET
    )
    return f"{head}{separator}{user.partition(':')[0]}{at}{host}{mark if safe_query else ''}{safe_query}"
