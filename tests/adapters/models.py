"""Fake models of the frameworks, for the programs of their pages: each calls `deploy`, and then ends."""

from __future__ import annotations

from collections.abc import Callable

GIVEN = {"env": "prod"}


def openai_agents() -> object:
    """The scripted model that the SDK comes with."""
    from agents.testing import ScriptedModel, assistant_message, function_call

    return ScriptedModel([[function_call("deploy", GIVEN, call_id="c1")], [assistant_message("done")]])


MODELS: dict[str, Callable[[], object]] = {"openai-agents": openai_agents}


def fake_model(page: str) -> object:
    """The model of a page in docs/how-to/adapters. Raises `KeyError` for one that has none."""
    return MODELS[page]()
