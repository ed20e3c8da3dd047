"""The demo's agent: a scripted model that chooses its next step from the conversation.

It wants two things, a deploy to staging and a tidy working directory, and does not know the rules. If a
block reason names a missing step, it takes that step; after a failing test it looks for the faulty line;
after a denial it stops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...engine.agents import (
    SKIPPED,
    Agent,
    AssistantMessage,
    BashTool,
    C,
    LocalRuntime,
    Message,
    Reply,
    ScriptedModel,
    SummaryMessage,
    T,
    ToolMessage,
    UserMessage,
)
from ...engine.agents.rules_notice import RULES_SENDER
from ...engine.hub.hub import Hub, SessionConfig
from ...rules import library_rules, load_rules
from .project import create_project

TASK = "Ship the current commit to staging and leave the working directory tidy."

DEPLOY = "./deploy staging"
LOOK = "cat tests/test_price.py shop/price.py"
FIX = (
    "sed 's/100 + discount/100 - discount/' shop/price.py > price.new"
    " && mv price.new shop/price.py && git diff"
)
TIDY = "rm -rf build"
AGAIN = "./deploy production"
TEST_SECONDS = 3
OFF_AT_FIRST = "block-deploy"

MISSING = re.compile(r"requires a successful call to (\w+) first")
_REFUSED = re.compile(r"was rejected by human review[.:]\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A command the agent ran, and its result."""

    command: str
    result: str

    @property
    def failed(self) -> bool:
        """Return whether the result reports a failure."""
        return "[exit code:" in self.result or "FAILED" in self.result


def exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """Return every finished command of the conversation, in order."""
    commands: dict[str, str] = {}
    finished: list[Exchange] = []
    for message in messages:
        match message:
            case AssistantMessage():
                commands.update({c.call_id: str(c.args.get("command", "")) for c in message.tool_calls})
            case ToolMessage():
                finished.append(Exchange(commands.get(message.call_id, ""), message.text))
            case UserMessage() | SummaryMessage():
                pass
    return finished


def next_move(messages: Sequence[Message]) -> Reply:
    """Return the next message and tool calls of the release bot."""
    history = [e for e in exchanges(messages) if e.result != SKIPPED]
    message = _last_word(messages)
    if message is not None and sum(map(_is_of_a_person, messages)) > 1:
        if re.search(r"\b(stop|halt|wait|abort)\b", message, re.IGNORECASE):
            return T("Understood, I stop here. ", "Nothing more will run.")
        return say("Noted. I am a scripted agent, so I keep to the release. ") + _plan(history)
    return _plan(history)


async def open_demo(
    hub: Hub, *, by: str, pace: float = 0.0, project: Path | None = None, session_id: str | None = None
) -> str:
    """Open the demo's session on `hub` without sending its task, and return the session's id.

    `pace` is the scripted model's time per word in seconds; `project` is the working directory of its
    shell. With a pace, tests of a newly created project take a few seconds, so that pending calls can be
    seen.
    """
    registry = load_rules(library_rules("deploy"), library_rules("freeze")).registry
    project = project or create_project(test_seconds=TEST_SECONDS if pace else 0)
    agent = Agent(
        ScriptedModel(next_move, delay=pace),
        name="release-bot",
        system_prompt="You ship commits.",
        tools=[BashTool],
        runtime=LocalRuntime(cwd=project),
    )
    active = [key for key in registry if key != OFF_AT_FIRST]
    config = SessionConfig(registry, active=active, by=by)
    return await hub.open_session(agent, config, session_id=session_id)


def _plan(history: list[Exchange]) -> Reply:
    if not history:
        return _try("The commit is small, so I will deploy it right away.", DEPLOY)
    last = history[-1]
    if refused := _REFUSED.search(last.result):
        reason = refused.group(1).strip()
        answer = f" and said: {reason}" if reason else " without giving a reason"
        return T(
            "The operator refused the deploy", f"{answer}. ", "I stop here and leave everything as it is."
        )
    if missing := MISSING.search(last.result):
        step = missing.group(1)
        return _try(f"I may not do that yet: {step} has to pass first. Running it.", f"./{step}")
    return _after(last, history)


def _after(last: Exchange, history: list[Exchange]) -> Reply:
    ran = last.command
    failed = last.failed
    tried = sum(1 for e in history if e.command == ran)
    fixed = any(e.command == FIX for e in history)
    match ran:
        case "./lint" if not failed:
            return _try("Lint is clean. Now the tests.", "./test")
        case "./test" if failed and not fixed:
            return _try("A test fails. I will look at the test and the code.", LOOK)
        case "./test" if not failed:
            return _try("All tests pass. Asking to deploy to staging.", DEPLOY)
        case _ if ran == LOOK:
            return _try("The discount is added instead of taken off. I change that one line.", FIX)
        case _ if ran == FIX and not failed:
            return _try("Fixed. Testing again.", "./test")
        case _ if ran == DEPLOY and not failed and "deployed" in last.result:
            return _try("Staging runs the new commit. Now I tidy up the old build.", TIDY)
        case _ if ran == TIDY:
            return _try(
                "I am not allowed to delete, so the build stays. Production next, while I am at it.",
                AGAIN,
            )
        case _ if ran == AGAIN:
            return T(
                "One deploy a session is the limit, ",
                "so production waits for another day. ",
                "Staging is live: done.",
            )
        case _:
            return T(
                f"`{ran}` did not work out after {tried} attempts. ", "I stop here and ask for help."
            )


def _try(words: str, command: str) -> Reply:
    return say(words) + C(bash={"command": command})


def say(words: str) -> Reply:
    """Return text in word-sized deltas, as a model would stream it."""
    return T(*re.findall(r"\S+\s*", words))


def _last_word(messages: Sequence[Message]) -> str | None:
    """Return the last message if it is a person's; `None` if the agent has replied since."""
    last = messages[-1] if messages else None
    return last.text if isinstance(last, UserMessage) and _is_of_a_person(last) else None


def _is_of_a_person(message: Message) -> bool:
    """Return whether a message is a person's rather than a notice of changed rules."""
    return isinstance(message, UserMessage) and message.by != RULES_SENDER
