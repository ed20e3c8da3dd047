"""Filter for open requests, and its syntax as an operator types it: `prod risk:high agent:bot`.

Words are searched for in tool, effects, rule, agent, session and the whole input; all of them have to
occur. Of several values of one key one has to match; all keys have to match.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.history.decisions.filter import LONGEST, FilterError, required_value, tokens
from ...engine.history.model.state import ApprovalState
from ..format.text import as_json

KEYS = "risk|agent|tool|rule|session"
RISKS = ("high", "medium", "low", "none")
HINT = "words, risk: agent: tool: rule: session:"


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Criteria in lower case; an empty filter matches every request."""

    words: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()

    def fits(self, request: ApprovalState) -> bool:
        """Return whether a request matches."""
        rule = request.net if request.rule is None else f"{request.rule.where} {request.rule.text}"
        tool = " ".join((request.called, request.tool, *request.names))
        agent = f"{request.agent} {request.via or ''}"
        if self.risks and (request.risk or "none") not in self.risks:
            return False
        if not (
            _any(self.agents, agent)
            and _any(self.tools, tool)
            and _any(self.rules, f"{rule} {request.net}")
            and _any(self.sessions, f"{request.session} {request.via or ''}")
        ):
            return False
        if not self.words:
            return True
        text = f"{tool} {agent} {request.session} {rule} {as_json(request.input)} {_texts(request)}"
        lower = text.lower()
        return all(word in lower for word in self.words)


EVERYTHING = QueueFilter()


def _any(words: tuple[str, ...], text: str) -> bool:
    lower = text.lower()
    return not words or any(each in lower for each in words)


def _texts(request: ApprovalState) -> str:
    """Return the texts of an input without JSON escapes."""
    return " ".join(value for value in request.input.values() if isinstance(value, str))


def parse_queue_filter(text: str) -> QueueFilter:
    """Parse a filter.

    Raises `FilterError` for an unknown key or risk, an unclosed quotation mark, and text that is too
    long.
    """
    if len(text) > LONGEST:
        raise FilterError(LONGEST + 1, f"a filter has at most {LONGEST} characters; leave something out")
    found: dict[str, list[str]] = {}
    for token in tokens(text, KEYS):
        match token.key:
            case None:
                found.setdefault("words", []).append(token.value.lower())
            case "risk":
                risk = required_value(token).lower()
                if risk not in RISKS:
                    raise FilterError(token.column, f"'{token.value}' is not a risk; use {_or(RISKS)}")
                found.setdefault("risks", []).append(risk)
            case "agent" | "tool" | "rule" | "session":
                found.setdefault(f"{token.key}s", []).append(required_value(token).lower())
            case other:
                raise FilterError(
                    token.column,
                    f"unknown key '{other}:'. Use {_or([f'{key}:' for key in KEYS.split('|')])}, "
                    f'or look for the text itself: "{other}:{token.value}"',
                )
    return QueueFilter(**{name: tuple(dict.fromkeys(values)) for name, values in found.items()})


def _or(names: tuple[str, ...] | list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"
