"""Fields of an answer, derived from its JSON Schema.

Required objects are split into their fields. Values of other types are entered as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from pydantic import JsonValue

from ...engine.core.sanitize import visible
from ...engine.history.model.state import ApprovalState
from ..format.text import as_json
from ..terminal.charset import with_certain_width
from .input_draft import ALL, MOST, FieldError, field_of, read_json, safe_json, type_name, with_article

Kind: TypeAlias = Literal["text", "escaped", "number", "integer", "choice", "json"]
Schema: TypeAlias = Mapping[str, JsonValue]

TRUTH = {"true", "false"}
OBJECT, LIST = "object", "list"
_NAMES: Mapping[Kind, str] = {
    "text": "text",
    "escaped": "text as JSON",
    "number": "number",
    "integer": "whole number",
    "choice": "one of these",
}
_BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "more than {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} long"),
    ("maxLength", "at most {} long"),
    ("pattern", "like {}"),
    ("format", "{}"),
)
_SIMPLE: Mapping[str, Kind] = {"string": "text", "integer": "integer", "number": "number"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Marks a field that the answer does not contain."""


LEFT_OUT = LeftOut()


@dataclass(frozen=True, slots=True)
class AnswerField:
    """One field to fill in. `text` is its initial text; `empty` is the value of an empty field.

    `options` are the permitted values, as JSON and in words; `suggestions` are the schema's examples.
    `container` is the type that JSON entered here must have.
    """

    path: tuple[str, ...]
    kind: Kind
    text: str
    required: bool
    empty: JsonValue | LeftOut = LEFT_OUT
    options: tuple[tuple[str, str], ...] = ()
    suggestions: tuple[tuple[str, str], ...] = ()
    container: str | None = None
    description: str = ""
    bounds: str = ""

    @property
    def name(self) -> str:
        """Return the dotted path such as `place.city`, as validation errors name the field."""
        return ".".join(self.path) if self.path else ALL

    @property
    def lacking(self) -> bool:
        """Return whether the field is required and has no initial text."""
        return self.required and not self.text

    @property
    def type_name(self) -> str:
        """Return the type of the value and its bounds, in words."""
        name = _NAMES.get(self.kind) or (f"{self.container} as JSON" if self.container else "JSON")
        if self.kind == "choice" and {value for value, _ in self.options} - {""} == TRUTH:
            name = "true or false"
        return f"{name}, {self.bounds}" if self.bounds else name

    def read(self, text: str) -> JsonValue | LeftOut:
        """Parse `text`. Raises `FieldError`."""
        if not text if self.kind == "text" else not text.strip():
            if self.required:
                raise FieldError("choose one" if self.kind == "choice" else "it must be filled in")
            return self.empty
        match self.kind:
            case "text":
                return text
            case "number" | "integer":
                return self._number(text)
            case "escaped":
                return self._of_type(read_json(text), "text")
            case "choice":
                return read_json(text)
            case "json":
                value = read_json(text)
                return value if self.container is None else self._of_type(value, self.container)

    def _number(self, text: str) -> JsonValue:
        value = field_of(self.name, 0).read(text)
        if self.kind == "integer" and not isinstance(value, int):
            raise FieldError(f"expected a whole number, found {text.strip()[:40]}")
        return value

    def _of_type(self, value: JsonValue, expected: str) -> JsonValue:
        if type_name(value) != expected:
            raise FieldError(f"expected {with_article(expected)}, found {with_article(type_name(value))}")
        return value


def fields_of(schema: Schema) -> list[AnswerField]:
    """Return the fields of an answer by its schema; empty if an empty object is the complete answer.

    A schema that is not a plain object, or has too many fields, becomes a single field.
    """
    reader = _Reader(schema)
    root = reader.resolved(schema)
    found = list(reader.properties(root, (), None)) if _is_object(root) else None
    if found is None or len(found) > MOST or len({each.name for each in found}) < len(found):
        return [AnswerField((), "json", "{}", True, container=OBJECT, description=_words(root))]
    return found


def _is_object(schema: Schema) -> bool:
    """Return whether a schema is an object that names all of its fields."""
    if isinstance(schema.get("properties"), dict) and schema["properties"]:
        return True
    free = schema.get("additionalProperties", False)
    combined = any(name in schema for name in ("anyOf", "oneOf", "allOf", "$ref"))
    return schema.get("type") == "object" and free is False and not combined


def _words(schema: Schema) -> str:
    said = schema.get("description")
    return said if isinstance(said, str) else ""


def _bounds(schema: Schema) -> str:
    found = (
        words.format(schema[name])
        for name, words in _BOUNDS
        if isinstance(schema.get(name), str | int | float)
    )
    return ", ".join(found)


def _labels(values: Sequence[JsonValue]) -> tuple[tuple[str, str], ...]:
    """Return each value as JSON and in words. Texts are unquoted if all values are texts."""
    plain = all(isinstance(value, str) for value in values)
    return tuple((safe_json(v), str(v) if plain and v else as_json(v)) for v in values)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Parses schemas that refer to definitions of `root`."""

    root: Schema

    def resolved(self, schema: Schema, references: tuple[str, ...] = ()) -> Schema:
        """Return a schema with its references resolved. Its own keywords take precedence."""
        reference, only = schema.get("$ref"), schema.get("allOf")
        if reference is None and isinstance(only, list) and len(only) == 1 and isinstance(only[0], dict):
            rest = {name: value for name, value in schema.items() if name != "allOf"}
            return self.resolved({**only[0], **rest}, references)
        if not isinstance(reference, str) or reference in references:
            return schema
        target: JsonValue = dict(self.root)
        for step in reference.removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, dict) else None
        if not isinstance(target, dict):
            return schema
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return self.resolved({**target, **rest}, (*references, reference))

    def properties(
        self, schema: Schema, path: tuple[str, ...], defaults: Schema | None
    ) -> Iterator[AnswerField]:
        """Yield the fields of an object; `defaults` are the object's default values, if it has any."""
        named, needed = schema.get("properties"), schema.get("required")
        for name, value in named.items() if isinstance(named, dict) else ():
            each: Schema = value if isinstance(value, dict) else {}
            required = isinstance(needed, list) and name in needed
            if defaults is not None:
                each = {**each, **({"default": defaults[name]} if name in defaults else {})}
                required = required and name not in defaults
            yield from self._field(each, (*path, name), required)

    def _field(self, schema: Schema, path: tuple[str, ...], required: bool) -> Iterator[AnswerField]:
        schema, nullable = self._without_null(self.resolved(schema))
        default = schema.get("default")
        has_default = "default" in schema and not required
        whole = default if isinstance(default, dict) else None
        if not nullable and _is_object(schema) and (required or whole is not None) and len(path) < 5:
            yield from self.properties(schema, path, whole)
            return
        yield self._single(
            schema, path, required, nullable, default if has_default else None, has_default
        )

    def _without_null(self, schema: Schema) -> tuple[Schema, bool]:
        """Return the schema of a field without null, and whether null is permitted."""
        kinds = schema.get("type")
        if isinstance(kinds, list) and "null" in kinds:
            left = [kind for kind in kinds if kind != "null"]
            return {**schema, "type": left[0] if len(left) == 1 else left}, True
        options = schema.get("anyOf")
        if not isinstance(options, list):
            return schema, False
        some = [o for o in options if isinstance(o, dict) and o.get("type") != "null"]
        if len(some) == len(options):
            return schema, False
        rest = {name: value for name, value in schema.items() if name != "anyOf"}
        if len(some) == 1:
            return {**self.resolved(some[0]), **rest}, True
        return {**rest, "anyOf": [*some]}, True

    def _single(
        self,
        schema: Schema,
        path: tuple[str, ...],
        required: bool,
        nullable: bool,
        default: JsonValue,
        has_default: bool,
    ) -> AnswerField:
        kind = _kind(schema)
        empty: JsonValue | LeftOut = LEFT_OUT
        if nullable and (required or default is not None):
            empty = None
        elif kind == "text" and isinstance(default, str) and default:
            empty = ""
        needed = required and not nullable
        if has_default and not nullable and kind not in ("text", "escaped"):
            needed = True  # A default that is removed has to be replaced by another value.
        options = _options(schema) if kind == "choice" else ()
        text = _first_text(kind, default)
        if kind == "choice" and not text and needed and len(options) == 1:
            text = options[0][0]
        if kind == "choice" and not needed:
            options = (("", "nothing"), *options)
        kind = _escaped(kind, path, default)
        examples = schema.get("examples")
        suggested = examples if isinstance(examples, list) and kind != "choice" else []
        container = {"object": OBJECT, "array": LIST}.get(str(schema.get("type")))
        return AnswerField(
            path,
            kind,
            text if kind != "escaped" else safe_json(default),
            needed,
            empty,
            options,
            tuple((_typed(kind, e), e if isinstance(e, str) else as_json(e)) for e in suggested),
            container if kind == "json" else None,
            _words(schema),
            _bounds(schema),
        )


def _kind(schema: Schema) -> Kind:
    if "const" in schema or schema.get("type") == "boolean":
        return "choice"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return "choice"
    kind = schema.get("type")
    if any(name in schema for name in ("anyOf", "oneOf", "allOf", "$ref")):
        return "json"
    return _SIMPLE.get(kind, "json") if isinstance(kind, str) else "json"


def _options(schema: Schema) -> tuple[tuple[str, str], ...]:
    if "const" in schema:
        return _labels([schema["const"]])
    values = schema.get("enum")
    return _labels(values if isinstance(values, list) else [True, False])


def _first_text(kind: Kind, value: JsonValue) -> str:
    """Return the initial text of a field for `value`."""
    if value is None:
        return ""
    if kind == "text" and isinstance(value, str):
        return value
    return safe_json(value, 2 if kind == "json" else None)


def _typed(kind: Kind, value: JsonValue) -> str:
    """Return the text of a suggestion as if it had been pasted."""
    text = _first_text(kind, value)
    return visible(with_certain_width(text), keep_newlines=True) if kind == "text" else text


def _escaped(kind: Kind, path: tuple[str, ...], default: JsonValue) -> Kind:
    """Return the kind of a field with this default: `escaped` for text with invisible characters."""
    if kind != "text" or not isinstance(default, str):
        return kind
    return kind if field_of(".".join(path), default).kind == "text" else "escaped"


# The answer to a request as an operator fills it in, field by field.


@dataclass(slots=True)
class AnswerDraft:
    """Fields of an answer, and the text typed so far."""

    fields: list[AnswerField]
    texts: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, request: ApprovalState) -> AnswerDraft:
        """Return a draft with the initial texts; without fields if no answer is wanted."""
        return cls([] if request.wants is None else fields_of(request.wants))

    def text_of(self, each: AnswerField) -> str:
        """Return the current text of a field."""
        return self.texts.get(each.name, each.text)

    def answer(self) -> dict[str, JsonValue]:
        """Return the complete answer. Raises `FieldError`, which names the field."""
        found: dict[str, JsonValue] = {}
        for each in self.fields:
            try:
                value = each.read(self.text_of(each))
            except FieldError as error:
                raise FieldError(f"{visible(each.name)}: {error}" if each.path else str(error)) from error
            if not each.path:
                return cast("dict[str, JsonValue]", value)
            inside = found
            for step in each.path[:-1]:
                inside = cast("dict[str, JsonValue]", inside.setdefault(step, {}))
            if not isinstance(value, LeftOut):
                inside[each.path[-1]] = value
        return found

    def complained(self, problem: str) -> dict[str, str]:
        """Return the problems found by validation, by the fields that they name."""
        found: dict[str, str] = {}
        for part in problem.split("; "):
            named = [each.name for each in self.fields if _names_field(part, each.name)]
            if named:
                name = max(named, key=len)
                found[name] = part.removeprefix(name).removeprefix(": ")
        return found


def _names_field(problem: str, name: str) -> bool:
    return bool(name) and problem.startswith((f"{name}: ", f"{name}."))
