"""Models by URL: `openai://gpt-4o`, `ollama://localhost:11434/qwen3:8b` (P-120 … P-123)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ..errors import InvalidModelUrlError

CLOUD = {"openai": "openai", "anthropic": "anthropic", "claude": "anthropic", "gemini": "gemini"}
OLLAMA_PORT = 11434

GENAI = {
    "gpt": "openai",
    "chatgpt": "openai",
    "codex": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
    "command": "cohere_chat",
    "deepseek": "deepseek",
    "grok": "xai",
}
"""Providers by the prefix of a model's name, for `genai://` URLs that name no provider."""

GENAI_NAMESPACES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "cohere": "cohere_chat",
    "deepseek": "deepseek",
    "groq": "groq",
    "xai": "xai",
}
"""Providers by their namespace in a `genai://` URL, as in `genai://groq::llama-3.3-70b`."""


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model in litellm's terms; `key_env` is the environment variable that has its key."""

    model: str
    api_base: str | None = None
    api_key: str | None = None
    key_env: str | None = None
    temperature: float | None = None


def parse_model_name(name: str) -> ModelTarget:
    """Parse a URL, or a name as used by litellm (`openai/gpt-4o`).

    Parameters of a URL: `base_url`, `api_key_env`, `temperature` and, for ollama, `wire=openai`. Raises
    `InvalidModelUrlError`, also for keys, because a secret does not belong in a name.
    """
    scheme, separator, rest = name.partition("://")
    if not separator:
        if "/" not in name.strip("/"):
            raise InvalidModelUrlError(
                f"'{name}': missing scheme; write openai://{name or 'gpt-4o'}, or provider/model"
            )
        return ModelTarget(name)
    rest, _, query = rest.partition("?")
    if "@" in rest:
        raise InvalidModelUrlError(
            f"'{scheme}://…@…': a key does not belong in a name; put it into the environment "
            "and name the variable with ?api_key_env="
        )
    options = dict(parse_qsl(query, keep_blank_values=True))
    known_options = {"base_url", "api_key_env", "temperature"} | (
        {"wire"} if scheme == "ollama" else set[str]()
    )
    for option in options:
        if option not in known_options:
            raise InvalidModelUrlError(
                f"'{scheme}://…': unknown parameter '{option}'; known: {', '.join(sorted(known_options))}"
            )
    if scheme == "ollama":
        target = _ollama(rest, options.get("wire"))
    elif scheme in CLOUD:
        target = _cloud(scheme, rest)
    elif scheme == "genai":
        target = _genai(rest)
    else:
        known_schemes = ", ".join((*CLOUD, "ollama", "genai"))
        raise InvalidModelUrlError(f"unknown provider '{scheme}'; known: {known_schemes}")
    return ModelTarget(
        model=target.model,
        api_base=options.get("base_url") or target.api_base,
        api_key=target.api_key,
        key_env=_key_env(options.get("api_key_env")),
        temperature=_temperature(options.get("temperature")),
    )


def _cloud(scheme: str, path: str) -> ModelTarget:
    model = path.removeprefix("/")
    if not model:
        raise InvalidModelUrlError(f"'{scheme}://': missing model")
    return ModelTarget(f"{CLOUD[scheme]}/{model}")


def _genai(path: str) -> ModelTarget:
    """Find the provider by the model's name. Unknown names are refused, so that nothing is guessed."""
    model = path.removeprefix("/")
    if not model:
        raise InvalidModelUrlError("'genai://': missing model")
    namespace, separator, name = model.partition("::")
    if separator and name and namespace in GENAI_NAMESPACES:
        return ModelTarget(f"{GENAI_NAMESPACES[namespace]}/{name}")
    prefix_match = re.match(r"[a-z]+\d?", model)
    prefix = prefix_match[0] if prefix_match else ""
    provider = GENAI.get(prefix) or GENAI.get(prefix.rstrip("0123456789"))
    # Names with a tag, and OpenAI's open models, are models that people run themselves.
    if ":" in model or model.startswith("gpt-oss") or provider is None:
        raise InvalidModelUrlError(
            f"'genai://{model}': its name does not say whose model it is; known beginnings: "
            f"{', '.join(GENAI)}. Write provider/model, or ollama://host:port/model"
        )
    return ModelTarget(f"{provider}/{model}")


def _ollama(path: str, wire: str | None) -> ModelTarget:
    host, _, model = path.partition("/")
    if host and not re.search(r":\d+$", host):
        host = f"{host.removesuffix(':')}:{OLLAMA_PORT}"
    if not host:
        raise InvalidModelUrlError(f"'ollama:///{model}': missing host; write ollama://host:port/model")
    if not model:
        raise InvalidModelUrlError(f"'ollama://{path}': missing model; write ollama://host:port/model")
    if wire == "openai":
        return ModelTarget(f"openai/{model}", f"http://{host}/v1", "ollama")
    if wire is not None:
        raise InvalidModelUrlError(f"unknown wire '{wire}'; known: openai")
    return ModelTarget(f"ollama_chat/{model}", f"http://{host}")


def _temperature(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidModelUrlError(f"temperature must be a number, got '{text}'") from error
    if not 0 <= value < math.inf:
        raise InvalidModelUrlError(f"temperature must be a number from 0, got '{text}'")
    return value


def _key_env(name: str | None) -> str | None:
    if name == "":
        raise InvalidModelUrlError("api_key_env is empty; name the environment variable with the key")
    return name
