"""All models of litellm. litellm itself is imported when a model is first used, not earlier."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
import os
from collections.abc import AsyncIterator
from functools import cache
from types import ModuleType
from urllib.parse import urlsplit

from pydantic import JsonValue

from ..errors import InvalidModelUrlError, ModelError
from .base import Chunk, Model, ModelRequest
from .model_url import parse_model_name
from .openai_format import ReplyPart, ReplyReader, wire_messages, wire_tools

WELL_KNOWN_KEYS: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "cohere_chat": ("COHERE_API_KEY", "CO_API_KEY"),
    "ollama": (),
    "ollama_chat": (),
}
ALTERNATIVE_KEYS = frozenset({"GEMINI_API_KEY", "GOOGLE_API_KEY", "COHERE_API_KEY", "CO_API_KEY"})
BASE_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
PLACEHOLDER_KEY = "unused"
_SETTINGS = {
    "suppress_debug_info": True,
    "telemetry": False,
    "turn_off_message_logging": True,
    "drop_params": True,
}


class LitellmModel:
    """A model by litellm's name (`openai/gpt-4o`) or by URL (`openai://gpt-4o`).

    `params` are passed with every call: `temperature=0`, `timeout=60`. Raises `InvalidModelUrlError` for
    an invalid name. `stream` raises `ModelError` if a key is missing, before anything is sent, and
    litellm's own exceptions.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        **params: JsonValue,
    ) -> None:
        self._name = name
        target = parse_model_name(name)
        self._model = target.model
        self._api_base = api_base or target.api_base
        self._api_key = api_key or target.api_key
        self._key_env = target.key_env
        if target.temperature is not None:
            params = {"temperature": target.temperature, **params}
        self._params = params

    @property
    def name(self) -> str:
        return self._name

    def check_environment(self) -> None:
        """Check, without a request, that a call is fully configured; some providers import litellm.

        Raises `ModelError` that names the environment variable to set.
        """
        self._key()

    def check_price(self) -> None:
        """Check that litellm's list has a price for the model; imports litellm, which takes seconds.

        Raises `ModelError` if there is no price or it is 0, because litellm also reports 0 for unknown
        prices.
        """
        litellm = _litellm()
        try:
            cost = sum(litellm.cost_per_token(self._model, prompt_tokens=1000, completion_tokens=1000))
        except Exception:
            cost = 0.0
        if not cost > 0:
            raise ModelError(f"litellm's list has no price for {self._name}")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Stream one call."""
        # In a thread, because importing takes seconds and a console must keep painting.
        litellm = await asyncio.to_thread(_litellm)
        arguments: dict[str, object] = {
            **self._params,
            "model": self._model,
            "messages": wire_messages(request),
            "stream": True,
            "stream_options": {"include_usage": True},
            "api_key": self._key(),
            "api_base": self._api_base,
        }
        if request.tools:
            arguments["tools"] = wire_tools(request)
        reader = ReplyReader()
        usage: object = None
        response = await litellm.acompletion(**arguments)
        try:
            async for part in response:
                usage = getattr(part, "usage", None) or usage
                for chunk in reader.read(ReplyPart.model_validate(part)):
                    yield chunk
        except litellm.exceptions.MidStreamFallbackError as error:
            cause = error.original_exception or error
            raise ModelError(f"{self._name}: the reply ended before it was complete: {cause}") from error
        finally:
            await response.aclose()
        if not reader.complete or not _provider_ended(response):
            raise ModelError(f"{self._name}: the reply ended before it was complete")
        cost = _cost(litellm, self._model, usage)
        for chunk in reader.end(cost, priced=cost > 0):
            yield chunk

    def _key(self) -> str | None:
        """Return the key to call with, `None` if litellm finds it itself."""
        if self._key_env is not None:
            key = os.environ.get(self._key_env)
            if not key:
                raise ModelError(
                    f"{self._name} needs a key: set the environment variable {self._key_env}"
                )
            return key
        if self._api_key:
            return self._api_key
        provider, missing = self._missing_keys()
        if not missing:
            return None
        if _is_loopback(self._api_base or _base_from_environment(provider)):
            return PLACEHOLDER_KEY
        key_names = (" or " if ALTERNATIVE_KEYS.issuperset(missing) else " and ").join(sorted(missing))
        variables = "variables" if " and " in key_names else "variable"
        raise ModelError(f"{self._name} needs a key: set the environment {variables} {key_names}")

    def _missing_keys(self) -> tuple[str, list[str]]:
        """Return the provider and the variables that it requires and that are not set."""
        provider = self._model.partition("/")[0]
        if provider in WELL_KNOWN_KEYS:
            # Common ones are listed here, so that a console need not import litellm before it opens.
            keys = WELL_KNOWN_KEYS[provider]
            return provider, [] if any(os.environ.get(key) for key in keys) else list(keys)
        litellm = _litellm()
        try:
            provider: str = litellm.get_llm_provider(self._model, api_base=self._api_base)[1]
        except Exception as error:
            raise InvalidModelUrlError(
                f"'{self._name}': unknown provider; write provider/model, such as openai/gpt-4o, "
                "or a URL such as openai://gpt-4o"
            ) from error
        return provider, litellm.validate_environment(self._model)["missing_keys"]


def as_model(model: str | Model) -> Model:
    """Return a model; a name gives a litellm model. Raises `TypeError` and as `LitellmModel`."""
    if isinstance(model, str):
        return LitellmModel(model)
    if not isinstance(model, Model):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are untyped
        raise TypeError(f"{type(model).__name__} is not a model: it needs a name and stream(request)")
    return model


def _provider_ended(response: object) -> bool:
    """Return whether the provider ended the reply; litellm claims so for any reply that just stops."""
    finish_fields = [
        name
        for name in ("received_finish_reason", "intermittent_finish_reason")
        if hasattr(response, name)
    ]
    return not finish_fields or any(getattr(response, name) is not None for name in finish_fields)


def _cost(litellm: ModuleType, model: str, usage: object) -> float:
    """Cost of a reply in US dollars by litellm's price list; 0 if it is unknown."""
    if usage is None:
        return 0.0
    try:
        prompt, completion = litellm.cost_per_token(model=model, usage_object=usage)
        return float(prompt) + float(completion)
    except Exception:
        # A reply is worth more than its price, so a failing price list does not end the run.
        return 0.0


def _base_from_environment(provider: str) -> str | None:
    if provider != "openai":
        return None
    return next((os.environ[name] for name in BASE_VARIABLES if os.environ.get(name)), None)


def _is_loopback(url: str | None) -> bool:
    host = urlsplit(url).hostname if url else None
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _litellm() -> ModuleType:
    """Return litellm without its downloads, telemetry and log output, and without reading `.env` files.

    It searches for such a file in its parent directories, one of which is a project's if Interlock is
    installed in that project: the file could determine where the user's keys are sent.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    litellm = importlib.import_module("litellm")
    for setting, value in _SETTINGS.items():
        setattr(litellm, setting, value)
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm
