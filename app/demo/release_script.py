"""Scripted models of the release flow: each chooses its next reply from its conversation.

They keep no state between replies, so a run that is resumed in another process continues in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue

from ...engine.agents import C, Message, Reply, ScriptedModel, T, UserMessage
from ...engine.flows import ClientOptions, ModelClient
from .agent import MISSING, Exchange, exchanges, say

LOOK = "git show --stat --format=%s HEAD"


def notes(messages: Sequence[Message]) -> Reply:
    """Look at the newest commit, then write a line for each commit."""
    changes = _initial_state(messages)
    if not exchanges(messages):
        return say("I look at the newest change before I write.") + C(bash={"command": LOOK})
    commits = cast("list[str]", changes["commits"])
    text = "\n".join(f"- {commit}" for commit in commits)
    return say("Notes for what the shop's users will see.") + C(
        submit={"version": changes["version"], "text": text}
    )


def review(messages: Sequence[Message]) -> Reply:
    """Rate more than two changes as medium risk, otherwise as low."""
    content = cast("dict[str, JsonValue]", _initial_state(messages)["notes"])
    changes = len(str(content["text"]).splitlines())
    level = "low" if changes <= 2 else "medium"
    why = f"{changes} small {'change' if changes == 1 else 'changes'}, all in shop/price.py"
    return T(json.dumps({"level": level, "why": why, "notes": content}))


def tests(messages: Sequence[Message]) -> Reply:
    """Run the tests, after any step that the gate reports as missing."""
    _initial_state(messages)
    done = _done(messages)
    if not done:
        return say("I run the tests.") + C(bash={"command": "./test"})
    last = done[-1]
    if (missing := MISSING.search(last.result)) and len(done) < 6:
        step = missing.group(1)
        return say(f"Not before {step} has passed, so that first.") + C(bash={"command": f"./{step}"})
    if last.command == "./lint" and not last.failed:
        return say("Clean. Now the tests.") + C(bash={"command": "./test"})
    passed = last.command == "./test" and not last.failed
    report = next(
        (line for line in last.result.splitlines() if line.startswith("Ran ")), last.result[-200:]
    )
    return say("The tests pass." if passed else "They do not pass.") + C(
        submit={"passed": passed, "said": report}
    )


def deploy(messages: Sequence[Message]) -> Reply:
    """Deploy to the target of the sign-off, and report what prevented it, if anything."""
    target = str(_initial_state(messages)["target"])
    done = _done(messages)
    if not done:
        return say(f"Signed off. Asking to deploy to {target}.") + C(
            bash={"command": f"./deploy {target}"}
        )
    report = done[-1].result.strip()
    went = report.startswith("deployed")
    return say("It runs." if went else "It did not happen, so I leave everything as it is.") + C(
        submit={"deployed": went, "said": report}
    )


SCRIPTS = {"notes": notes, "review": review, "tests": tests, "deploy": deploy}
MODELS: Mapping[str, ScriptedModel] = {
    name: ScriptedModel(script, name=name) for name, script in SCRIPTS.items()
}


class Paced:
    """The same models with a delay of `pace` seconds per word, so that people can watch."""

    def __init__(self, pace: float) -> None:
        self._pace = pace

    def create(self, model_url: str, options: ClientOptions) -> ModelClient:
        """Create a client of the model with that name."""
        model = ScriptedModel(SCRIPTS[model_url], name=model_url, delay=self._pace)
        return ModelClient(model, options, describe_output=False)


def _initial_state(messages: Sequence[Message]) -> dict[str, JsonValue]:
    """Return the state that the agent was started with."""
    first = messages[0]
    assert isinstance(first, UserMessage)
    return cast("dict[str, JsonValue]", json.loads(first.text))


def _done(messages: Sequence[Message]) -> list[Exchange]:
    """Return every finished command. In flows, results are JSON strings, which are decoded."""
    return [Exchange(each.command, _text(each.result)) for each in exchanges(messages)]


def _text(result: str) -> str:
    try:
        value = cast("JsonValue", json.loads(result))
    except ValueError:
        return result
    return value if isinstance(value, str) else result
