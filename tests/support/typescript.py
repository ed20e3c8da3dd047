"""Types and validation models of the TypeScript client, generated from the protocol's schema.

`python -m tests.support.typescript` writes them, for everything that agents send and receive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from interlock.engine.gateway.protocol.framing import Code
from interlock.engine.gateway.protocol.schema import schema

PACKAGE = Path(__file__).parents[2] / "clients" / "typescript"
FILE = PACKAGE / "src" / "protocol.ts"
_WIDTH = 106
_NAME = re.compile(r"[A-Za-z_]\w*")

Schema = dict[str, JsonValue]


def current() -> str:
    """Return the file's text for the present protocol."""
    whole = schema()
    models = cast("dict[str, Schema]", whole["$defs"])
    methods = _of_agents(whole, "methods")
    notices = _of_agents(whole, "notices")
    taken = _reached(models, [method["params"] for method in methods.values()])
    given = _reached(
        models,
        [method["result"] for method in methods.values()] + [one["params"] for one in notices.values()],
    )
    parts = [
        "// Made by `python -m tests.support.typescript` from the protocol's schema.",
        f"export const VERSION = {json.dumps(whole['version'])};",
        "export const Code = {\n"
        + "".join(f"  {code.name}: {int(code)},\n" for code in Code)
        + "} as const;",
        "/** A value of JSON. A number is one that JavaScript holds exactly. */\n"
        "export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;",
        "export type JsonObject = { [key: string]: JsonValue };",
        *(_interface(name, models[name], is_answer=False) for name in sorted(taken - given)),
        *(_interface(name, models[name], is_answer=True) for name in sorted(given)),
        "/** Parameters and result of each method, by its name on the wire. */\n"
        "export interface Methods {\n"
        + "".join(
            f'  "{name}": {{ params: {_type(each["params"])}; result: {_type(each["result"])} }};\n'
            for name, each in methods.items()
        )
        + "}",
        "/** The result of each method, as a model of `MODELS`. */\n"
        "export const RESULTS: Readonly<Record<keyof Methods, string>> = {\n"
        + "".join(f"  {json.dumps(name)}: {_named(each['result'])},\n" for name, each in methods.items())
        + "};",
        "/** What the server sends without being asked, as models of `MODELS`. */\n"
        "export const NOTICES: Readonly<Record<string, string>> = {\n"
        + "".join(f"  {json.dumps(name)}: {_named(each['params'])},\n" for name, each in notices.items())
        + "};",
        "/** JSON Schemas of what a server sends. */\n"
        "export const MODELS: Readonly<Record<string, unknown>> = {\n"
        + "".join(
            f"  {name}: {json.dumps(_bare(models[name], is_schema=True), ensure_ascii=False)},\n"
            for name in sorted(given)
        )
        + "};",
    ]
    return "\n\n".join(parts) + "\n"


def _of_agents(whole: Schema, kind: str) -> dict[str, Schema]:
    found = cast("dict[str, Schema]", whole[kind])
    return {name: each for name, each in found.items() if each.get("for", "agent") == "agent"}


def _reached(models: dict[str, Schema], start: list[JsonValue]) -> set[str]:
    """Return the models that some schemas refer to, directly or indirectly."""
    found: set[str] = set()
    within = list(start)
    while within:
        for name in set(_references(within.pop())) - found - {"JsonValue"}:
            found.add(name)
            within.append(models[name])
    return found


def _references(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(target := value.get("$ref"), str):
            yield target.rpartition("/")[2]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _interface(name: str, model: Schema, *, is_answer: bool) -> str:
    properties = cast("dict[str, Schema]", model.get("properties", {}))
    required = cast("list[str]", model.get("required", []))
    about = _comment(cast("str", model.get("description", "")))
    if not properties:
        return f"{about}export type {name} = Record<string, never>;"
    lines: list[str] = []
    for field, kind in properties.items():
        # An answer's defaults are filled in when it is parsed.
        there = field in required or (is_answer and "default" in kind)
        lines.append(f"  {field}{'' if there else '?'}: {_type(kind)};\n")
    return f"{about}export interface {name} {{\n{''.join(lines)}}}"


def _comment(text: str) -> str:
    if not text:
        return ""
    lines = text.replace("*/", "* /").split("\n")
    if len(lines) == 1 and len(text) < _WIDTH - 8:
        return f"/** {text} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _type(kind: JsonValue) -> str:
    """Return the type of a schema. Raises `ValueError` for an unsupported form."""
    match kind:
        case {"$ref": str(target)}:
            return target.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": list(values)}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": list(every)} | {"oneOf": list(every)}:
            return " | ".join(dict.fromkeys(map(_type, every)))
        case {"type": "array", "prefixItems": list(items)}:
            return f"[{', '.join(map(_type, items))}]"
        case {"type": "array", "items": items}:
            item = _type(items)
            return f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": "object", "additionalProperties": values} if isinstance(values, dict):
            return "JsonObject" if _type(values) == "JsonValue" else f"Record<string, {_type(values)}>"
        case {"type": "integer" | "number"}:
            return "number"
        case {"type": "string" | "boolean" | "null" as name}:
            return name
        case _:
            raise ValueError(f"{FILE.name}: no type is known for {json.dumps(kind)}")


def _named(kind: JsonValue) -> str:
    return json.dumps(_type(kind))


def _bare(value: JsonValue, *, is_schema: bool) -> JsonValue:
    """Return a schema without its descriptions; in `properties` the same names are not keywords."""
    if isinstance(value, list):
        return [_bare(each, is_schema=is_schema) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return {"$ref": cast("str", value["$ref"]).rpartition("/")[2]}
    return {
        key: _bare(each, is_schema=key != "properties")
        for key, each in value.items()
        if not (is_schema and key in ("title", "description"))
    }


if __name__ == "__main__":
    FILE.write_text(current(), encoding="utf-8")
