"""Conditions on a call's input under which a rule applies: `input.env = "prod" and not input.dry = true`.

Pure, over plain data. A condition holds, does not hold, or is unknown, because a field is missing or has
a value that the comparison cannot handle. `and`, `or` and `not` follow Kleene's three-valued logic:
unknown stays unknown unless the other part decides. Callers treat unknown as closed: the rule applies
(G-83, G-84).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from types import MappingProxyType, UnionType
from typing import Literal, Protocol, TypeAlias, assert_never, cast

from .sanitize import folded_name
from .sources import ITEMS, source_parts

Input: TypeAlias = Mapping[str, object]
Scalar: TypeAlias = str | int | float | bool | None
Operator: TypeAlias = Literal[
    "=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "under", "is", "from"
]
Root: TypeAlias = Literal["input", "session", "hint"]
Quantifier: TypeAlias = Literal["every", "any"]

_OTHER: Mapping[Quantifier | None, Quantifier | None] = {"every": "any", "any": "every", None: None}
MOST_SHOWN = 20
"""Longest list that is shown in full to people and models."""

PRESENT, ABSENT = "present", "missing"
MISSING = object()
DOUBLED = object()
"""Value of a field if the name of another field differs from its name only in looks."""
_PLAIN_SOURCE = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_WORDS = frozenset(
    {"and", "any", "because", "contains", "every", "false", "from", "in"}
    | {"lines", "matches", "not", "null", "of", "or", "true", "under"}
)
"""Words of conditions; as names of sources they need quotes."""
_PLAIN_NAME = re.compile(r'[^\s.#()\[\]"=<>!,\ufeff]+')


class Matcher(Protocol):
    """Compiled pattern of `matches`. Patterns with equal `text` are equal."""

    @property
    def text(self) -> str: ...

    @property
    def search(self) -> Callable[[str], bool]: ...


class Said(Protocol):
    """Texts of a session; see `sources.SourceTexts`."""

    def find(self, value: str | float, sources: Iterable[str]) -> bool | None:
        """True if `value` occurs in a text of one of `sources`; `None` if unknown."""
        ...


Shell: TypeAlias = Literal["bash", "sh", "zsh"]
"""A shell that runs commands; `sh` means dash and other plain POSIX shells."""


def shell_named(program: str | None) -> Shell | None:
    """The shell to which a program's path refers, such as `$SHELL`; `None` if it is unknown."""
    match (program or "").rpartition("/")[2]:
        case "bash":
            return "bash"
        case "zsh":
            return "zsh"
        case "sh" | "dash" | "ash":
            return "sh"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Environment of a session's calls, for conditions and for parsing shell commands.

    `workdir` is the base of relative paths, `home` is the value of `~`. `real` resolves symbolic links on
    the machine where the tools run; it is `None` if that is impossible, and raises `OSError` for a path
    that cannot be resolved. `shell` runs the shell commands in calls, `None` if unknown. `said` are the
    texts that `from` searches; without them no value's source is known. `session` has the fields of the
    session itself, see `SESSION_FIELDS`; `None` if unknown. `hints` are the claims of servers about their
    tools, by tool; `hint` is the claim about the called tool, see `about`.
    """

    workdir: str | None = None
    home: str | None = None
    real: Callable[[str], str] | None = None
    shell: Shell | None = None
    said: Said | None = None
    session: Mapping[str, object] | None = None
    hints: Mapping[str, Mapping[str, bool]] = field(default_factory=dict[str, Mapping[str, bool]])
    hint: Mapping[str, bool] = field(default_factory=dict[str, bool])

    def about(self, tool: str) -> Surroundings:
        """These surroundings for a call of `tool`, with the claims about that tool."""
        claims = self.hints.get(tool)
        return self if claims is None else replace(self, hint=claims)


SESSION_FIELDS: Mapping[str, object] = MappingProxyType({"agent": None, "started_by": None, "labels": ()})
"""Fields of a session, with their values if nothing was given.

They are the name of its agent, the person or agent token that opened or last resumed it, and its labels.
"""


def is_session_list(name: str) -> bool:
    """Return whether the session's field with this name is a list."""
    return isinstance(SESSION_FIELDS.get(name), tuple)


NOWHERE = Surroundings()

_OF_ONE_PROCESS = re.compile(
    r"//?(?:proc/(?:self|thread-self|[0-9]+)|dev/(?:fd|stdin|stdout|stderr))(?:/|\Z)"
)


@dataclass(frozen=True, slots=True)
class Compare:
    """One comparison of the field at `path` (`("env",)` for `input.env`) of a call's input.

    With the `root` `session` it is a field of the session, with `hint` a claim about the tool.

    `value` is a tuple of scalars for `in`, a matcher for `matches`, a string for `under`, `PRESENT` or
    `ABSENT` for `is`, and for `from` a tuple of sources: `user` and names of tools. With `quantifier` the
    comparison is about the elements of a list: `every` one, or `any`. `name` is the value's name in a
    `let` line, if it was written with one; for sources it is everything written after `from`. `name`,
    `start` and `end`, the columns in the line, are ignored when conditions are compared.
    """

    path: tuple[str, ...]
    operator: Operator
    value: Scalar | tuple[Scalar, ...] | Matcher
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    quantifier: Quantifier | None = None
    name: str | None = field(default=None, compare=False)
    root: Root = "input"
    kinds: tuple[bool, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # For Python `true` equals 1, but conditions that differ in this are different.
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        object.__setattr__(self, "kinds", tuple(isinstance(value, bool) for value in values))

    @property
    def field_name(self) -> str:
        """`input.env`, as shown to people; `input."a.b"` if a name is not a plain word."""
        return field_text(self.path, self.root)

    @property
    def subject(self) -> str:
        """The field with its quantifier: `every input.to`."""
        return f"{self.quantifier} {self.field_name}" if self.quantifier else self.field_name


@dataclass(frozen=True, slots=True)
class Not:
    inner: Condition


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Condition, ...]


Condition: TypeAlias = Compare | Not | And | Or


def holds(condition: Condition, value: Input, surroundings: Surroundings = NOWHERE) -> bool | None:
    """True if `condition` holds for a call's input; `None` if unknown."""
    match condition:
        case Compare():
            return _compare(condition, value, surroundings)
        case Not(inner=inner):
            answer = holds(inner, value, surroundings)
            return None if answer is None else not answer
        case And(parts=parts):
            return _join([holds(part, value, surroundings) for part in parts], decisive=False)
        case Or(parts=parts):
            return _join([holds(part, value, surroundings) for part in parts], decisive=True)
        case _:
            assert_never(condition)


def _join(answers: list[bool | None], *, decisive: bool) -> bool | None:
    if decisive in answers:
        return decisive
    return None if None in answers else not decisive


def unknown_reason(
    condition: Condition, value: Input, surroundings: Surroundings = NOWHERE
) -> str | None:
    """Reason, in words, why it is unknown whether `condition` holds; `None` if it is known."""
    if holds(condition, value, surroundings) is not None:
        return None
    match condition:
        case Compare(root="session") if surroundings.session is None:
            return f"{condition.field_name} is not known here"
        case Compare():
            field_value = _field_value(condition, value, surroundings)
            if field_value is MISSING and condition.root == "hint":
                return f"the tool's server claims no {condition.field_name} that counts"
            if field_value is MISSING:
                return f"{_OWNERS[condition.root]} has no {condition.field_name}"
            if field_value is DOUBLED:
                return f"another field differs from {condition.field_name} only in looks"
            if condition.quantifier is not None and not isinstance(field_value, list | tuple):
                return f"{condition.field_name} is not a list"
            if condition.operator == "from":
                return _unknown_source(condition, cast("object", field_value), surroundings)
            return f"{condition.field_name} cannot be compared by '{condition.operator}'"
        case Not(inner=inner):
            return unknown_reason(inner, value, surroundings)
        case And(parts=parts) | Or(parts=parts):
            # The other parts do not decide, so the first unknown part is a reason.
            return next(
                why for part in parts if (why := unknown_reason(part, value, surroundings)) is not None
            )
        case _:
            assert_never(condition)


_OWNERS: Mapping[Root, str] = {"input": "the call", "session": "the session", "hint": "the tool"}


def _unknown_source(part: Compare, field_value: object, surroundings: Surroundings) -> str:
    if not _may_have_source(field_value):
        return f"{part.field_name} is not a text, number, or list of them"
    sources = f"the sources of {part.field_name}"
    if surroundings.said is None:
        return f"{sources} are not recorded here"
    if any(source_parts(source)[0] for source in sources_of(part)):
        return f"{sources} returned a result that is not JSON, or more than is kept"
    return f"more came from {sources} than is kept"


def comparisons(condition: Condition) -> Iterator[Compare]:
    """Every comparison in a condition, from left to right."""
    match condition:
        case Compare():
            yield condition
        case Not(inner=inner):
            yield from comparisons(inner)
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from comparisons(part)
        case _:
            assert_never(condition)


def sources_of(condition: Condition | None) -> frozenset[str]:
    """Sources in which a condition looks for values: `user`, tools, and members of their results."""
    parts = comparisons(condition) if condition is not None else ()
    source_lists = (
        part.value for part in parts if part.operator == "from" and isinstance(part.value, tuple)
    )
    return frozenset(str(source) for names in source_lists for source in names)


def condition_text(condition: Condition, *, whole: bool = False) -> str:
    """A condition as written in the rules language, with only the necessary parentheses.

    A named value is written as its name, and a long list is shortened, unless the text must be parseable
    as a `whole` condition again.
    """
    match condition:
        case Compare(operator="is", value=value):
            return f"{condition.field_name} is {value}"
        case Compare(operator="from"):
            return f"{condition.subject} from {_sources_text(condition, whole)}"
        case Compare(operator=operator):
            return f"{condition.subject} {operator} {_value_text(condition, whole)}"
        case Not(inner=Compare(operator="in" | "contains" | "matches" | "under") as inner):
            return f"{_turned_subject(inner)} not {inner.operator} {_value_text(inner, whole)}"
        case Not(inner=Compare(operator="from") as inner):
            return f"{_turned_subject(inner)} not from {_sources_text(inner, whole)}"
        case Not(inner=inner):
            return f"not {_part(inner, And | Or, whole)}"
        case And(parts=parts):
            return " and ".join(_part(part, And | Or, whole) for part in parts)
        case Or(parts=parts):
            return " or ".join(_part(part, Or, whole) for part in parts)
        case _:
            assert_never(condition)


def _turned_subject(part: Compare) -> str:
    """Subject of a comparison under `not`: "not every element in a list" is "any element not in it"."""
    return replace(part, quantifier=_OTHER[part.quantifier]).subject


def _sources_text(part: Compare, whole: bool) -> str:
    """The sources after `from`, in quotes unless they are plain words."""
    if part.name is not None and not whole:
        return part.name
    sources = part.value if isinstance(part.value, tuple) else ()
    return ", ".join(written_source(str(source)) for source in sources)


def written_source(name: str) -> str:
    """A source as written in rules: `user`, `get_contacts`, `email of get_contacts`."""
    path, tool = source_parts(name)
    if not path:
        return _written_word(tool)
    if path == ITEMS:
        return f"* of {_written_word(tool)}"
    return f"{'.'.join(map(_written_word, path))} of {_written_word(tool)}"


def _written_word(name: str) -> str:
    plain = _PLAIN_SOURCE.fullmatch(name) is not None and name not in _WORDS
    return name if plain else _quoted(name)


def _part(part: Condition, loose: type[Or] | UnionType, whole: bool) -> str:
    """A part of a condition, in parentheses if its meaning would change without them."""
    text = condition_text(part, whole=whole)
    return f"({text})" if isinstance(part, loose) else text


def _value_text(part: Compare, whole: bool) -> str:
    if whole:
        return written_value(part.value)
    if part.name is not None:
        return part.name
    if isinstance(part.value, tuple) and len(part.value) > MOST_SHOWN:
        beginning = ", ".join(map(written_value, part.value[: MOST_SHOWN - 2]))
        return f"[{beginning}, … {len(part.value) - MOST_SHOWN + 2:,} more]"
    return written_value(part.value)


def _written_name(name: str) -> str:
    """A field's name, in quotes if necessary; invisible characters are written as escapes."""
    return name if _PLAIN_NAME.fullmatch(name) and name.isprintable() else _quoted(name)


def _quoted(name: str) -> str:
    literal = json.dumps(name, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in literal)


def written_value(value: Scalar | tuple[Scalar, ...] | Matcher) -> str:
    """A value as written in the rules language."""
    if isinstance(value, tuple):
        return f"[{', '.join(written_value(item) for item in value)}]"
    if value is None or isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    return value.text


def field_text(path: tuple[str, ...], root: Root = "input") -> str:
    """A field as written in the rules language: `input.env`, `input."a.b"`."""
    return ".".join((root, *map(_written_name, path)))


def at_path(value: object, path: tuple[str, ...]) -> object:
    """The value at a path of names; `MISSING`, or `DOUBLED` if another name folds to one of them."""
    for name in path:
        if not isinstance(value, Mapping):
            return MISSING
        fields = cast("Mapping[str, object]", value)
        value = fields.get(name, MISSING)
        if value is MISSING:
            return MISSING
        if len(fields) > 1 and _is_doubled(fields, name):
            return DOUBLED
    return value


def _is_doubled(fields: Mapping[str, object], name: str) -> bool:
    """Return whether another field folds to the same name, so that the tool decides which one counts."""
    folded_form = folded_name(name)
    return any(other != name and folded_name(other) == folded_form for other in fields)


def _field_value(part: Compare, value: Input, surroundings: Surroundings) -> object:
    """Value of a comparison's field."""
    match part.root:
        case "input":
            return at_path(value, part.path)
        case "session":
            return at_path(surroundings.session, part.path)
        case "hint":
            return at_path(surroundings.hint, part.path)


def _compare(part: Compare, value: Input, surroundings: Surroundings) -> bool | None:
    if part.root == "session" and surroundings.session is None:
        return None
    field_value = _field_value(part, value, surroundings)
    if part.operator == "is" and field_value is not DOUBLED:
        # Agents and frameworks write `null` for omitted fields. A session without labels has an empty
        # list of labels, so that every other comparison has an answer.
        absent = (
            field_value is MISSING
            or field_value is None
            or (part.root == "session" and field_value in ((), []))
        )
        return absent is (part.value == ABSENT)
    if field_value is MISSING or field_value is DOUBLED:
        return None
    if part.quantifier is None:
        return _answer(part, field_value, surroundings)
    if not isinstance(field_value, list | tuple):
        return None
    answers = [_answer(part, item, surroundings) for item in cast("list[object]", field_value)]
    return _join(answers, decisive=part.quantifier == "any")


def _answer(part: Compare, field_value: object, surroundings: Surroundings) -> bool | None:
    """Result of a comparison with the value of a field, or with an element of its list."""
    match part.operator:
        case "=" | "!=":
            answer = _same(field_value, part.value)
            return None if answer is None else answer is (part.operator == "=")
        case "<" | "<=" | ">" | ">=":
            return _ordered(field_value, part.operator, part.value)
        case "in":
            choices = part.value if isinstance(part.value, tuple) else ()
            if isinstance(field_value, str):
                return field_value in choices
            return _join([_same(field_value, choice) for choice in choices], decisive=True)
        case "contains":
            return _contains(field_value, part.value)
        case "matches":
            return _matches(field_value, part.value)
        case "under":
            return _under(field_value, part.value, surroundings)
        case "from":
            return _comes_from(field_value, part.value, surroundings)
        case "is":
            return None
        case _:
            assert_never(part.operator)


def _equal(field_value: object, value: object) -> bool:
    """Equality as in JSON: `true` is not 1, but 1 is 1.0."""
    if isinstance(field_value, bool) or isinstance(value, bool):
        return field_value is value
    return field_value == value


def _same(field_value: object, value: object) -> bool | None:
    """True if they are equal; unknown for a list or object compared with a text, number, true or false.

    A tool may accept `["prod"]` for `prod`.
    """
    if isinstance(field_value, list | tuple | Mapping) and value is not None:
        return None
    return _equal(cast("object", field_value), value)


def _number(value: object) -> bool:
    """True for an ordered number. `isnan` cannot handle a very large integer, so integers always pass."""
    if isinstance(value, float):
        return not isnan(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _ordered(field_value: object, operator: Literal["<", "<=", ">", ">="], value: object) -> bool | None:
    """Order of numbers by size and of texts by code points; unknown for anything else."""
    both_texts = isinstance(field_value, str) and isinstance(value, str)
    if not both_texts and not (_number(field_value) and _number(value)):
        return None
    left_side, right_side = cast("float", field_value), cast("float", value)
    match operator:
        case "<":
            return left_side < right_side
        case "<=":
            return left_side <= right_side
        case ">":
            return left_side > right_side
        case ">=":
            return left_side >= right_side


def _contains(field_value: object, value: object) -> bool | None:
    if isinstance(field_value, str):
        return value in field_value if isinstance(value, str) else None
    if isinstance(field_value, list | tuple):
        return _join([_same(item, value) for item in cast("list[object]", field_value)], decisive=True)
    return None


def _matches(field_value: object, value: object) -> bool | None:
    search = getattr(value, "search", None)
    if not isinstance(field_value, str) or not callable(search):
        return None
    return bool(search(field_value))


def _under(field_value: object, value: object, surroundings: Surroundings) -> bool | None:
    """True if a path is in a folder, or is the folder itself.

    If links can be resolved, their targets count rather than the path's text; otherwise `..` is resolved
    textually. Unknown for a path that means something different to each process.
    """
    if (
        not isinstance(field_value, str)
        or not isinstance(value, str)
        or not field_value
        or "\0" in field_value
    ):
        return None
    path, folder = _absolute(field_value, surroundings), _absolute(value, surroundings)
    if path is None or folder is None or of_one_process(posixpath.normpath(path)):
        return None
    if surroundings.real is not None and path.startswith("/") and folder.startswith("/"):
        try:
            return _is_below(surroundings.real(path), surroundings.real(folder))
        except (OSError, ValueError):
            return None
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    absolute = path.startswith("/"), folder.startswith("/")
    is_above = ".." in (path.split("/")[0], folder.split("/")[0])
    if absolute[0] != absolute[1] or is_above:
        # Relative to an unknown folder, or above one.
        return None
    return _is_below(path.replace("//", "/", 1), folder.replace("//", "/", 1))


def _may_have_source(field_value: object) -> bool:
    """True for a text, a number, or a list of them."""
    items = cast("list[object]", field_value) if isinstance(field_value, list | tuple) else [field_value]
    return all(isinstance(item, str) or _number(item) for item in items)


def _comes_from(field_value: object, value: object, surroundings: Surroundings) -> bool | None:
    """True if a value, or every element of a list, occurs in a source's texts from before the call."""
    if not _may_have_source(field_value) or not isinstance(value, tuple) or surroundings.said is None:
        return None
    items = cast(
        "list[str | float]", field_value if isinstance(field_value, list | tuple) else [field_value]
    )
    sources = cast("tuple[str, ...]", value)
    return _join([surroundings.said.find(item, sources) for item in items], decisive=False)


def of_one_process(path: str) -> bool:
    """True if an absolute path without `..` is a different file for each process, like
    `/proc/self/cwd`.
    """
    return _OF_ONE_PROCESS.match(path) is not None


def _is_below(path: str, folder: str) -> bool:
    return folder in (".", path) or path.startswith(folder.rstrip("/") + "/")


def _absolute(path: str, surroundings: Surroundings) -> str | None:
    """A path with `~` replaced, made absolute with the working directory if that is known."""
    if path == "~" or path.startswith("~/"):
        return None if surroundings.home is None else surroundings.home + path[1:]
    if path.startswith("~"):
        return None
    if not path.startswith("/") and surroundings.workdir is not None:
        return posixpath.join(surroundings.workdir, path)
    return path
