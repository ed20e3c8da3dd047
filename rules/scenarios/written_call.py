"""A recorded call as written in scenarios."""

from __future__ import annotations

import json
import re

from ...engine.net.net import Input
from ..errors.problems import RuleError
from .scenarios import parse_call

_PLAIN = re.compile(r"(?!(?:fails|returns)$)[A-Za-z_][A-Za-z0-9_]*")


def call_words(tool: str, values: Input) -> str | None:
    """A call in the form that follows `call`; `None` for one that scenarios cannot express.

    Texts are in quotes, and so are names if necessary.
    """
    try:
        pairs = (word for name, value in values.items() for word in (_name(name), _quoted(value)))
        text = " ".join((tool, *pairs))
        call = parse_call(text)
    except (RuleError, TypeError, ValueError):
        return None
    is_same = call.tool == tool and call.input == dict(values) and not call.fails and call.output is None
    return text if is_same else None


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
