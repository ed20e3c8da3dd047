"""Models by name and by URL."""

from __future__ import annotations

import importlib

import pytest

from interlock.engine.agents import InvalidModelUrlError, LitellmModel, ModelError
from interlock.engine.agents.models.model_url import ModelTarget, parse_model_name


class TestReadable:
    @pytest.mark.parametrize(
        ("name", "target"),
        [
            ("openai://gpt-4o", ModelTarget("openai/gpt-4o")),
            ("openai:///gpt-4o", ModelTarget("openai/gpt-4o")),
            ("anthropic://claude-opus-4-5", ModelTarget("anthropic/claude-opus-4-5")),
            ("claude://claude-sonnet-4-5", ModelTarget("anthropic/claude-sonnet-4-5")),
            ("gemini://gemini-2.5-flash", ModelTarget("gemini/gemini-2.5-flash")),
            (
                "ollama://localhost:11434/qwen3:8b",
                ModelTarget("ollama_chat/qwen3:8b", "http://localhost:11434"),
            ),
            ("ollama://box/a/b", ModelTarget("ollama_chat/a/b", "http://box:11434")),
            (
                "ollama://box:1/m?wire=openai",
                ModelTarget("openai/m", "http://box:1/v1", "ollama"),
            ),
            (
                "openai://m?base_url=http://x/v1&api_key_env=MY_KEY&temperature=0.5",
                ModelTarget("openai/m", "http://x/v1", key_env="MY_KEY", temperature=0.5),
            ),
            ("openrouter/meta/llama", ModelTarget("openrouter/meta/llama")),
        ],
    )
    def test_target(self, name: str, target: ModelTarget) -> None:
        """P-120, P-122: each URL gives litellm's model, base and key."""
        assert parse_model_name(name) == target


@pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")
class TestTable:
    @pytest.mark.parametrize(
        ("url", "model", "base"),
        [
            ("openai://gpt-4o", "openai/gpt-4o", None),
            ("openai://gpt-4o-mini", "openai/gpt-4o-mini", None),
            ("anthropic://claude-opus-4-5", "anthropic/claude-opus-4-5", None),
            ("anthropic://claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", None),
            ("gemini://gemini-2.5-flash", "gemini/gemini-2.5-flash", None),
            ("gemini://gemini-2.5-flash-lite", "gemini/gemini-2.5-flash-lite", None),
            ("ollama://localhost:11434/qwen3:8b", "ollama_chat/qwen3:8b", "http://localhost:11434"),
            ("ollama://localhost:11434/llama3.2", "ollama_chat/llama3.2", "http://localhost:11434"),
        ],
    )
    def test_row(self, url: str, model: str, base: str | None) -> None:
        """P-120: litellm sends each row of the table to the provider that it names."""
        target = parse_model_name(url)
        assert (target.model, target.api_base) == (model, base)
        litellm = importlib.import_module("litellm")
        provider, name = model.split("/", 1)
        found = litellm.get_llm_provider(target.model, api_base=target.api_base)
        assert (found[0], found[1]) == (name, provider)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:litellm")
class TestGenai:
    @pytest.mark.parametrize(
        ("url", "model"),
        [
            ("genai://gpt-4o", "openai/gpt-4o"),
            ("genai:///gpt-4o", "openai/gpt-4o"),
            ("genai://o3-mini", "openai/o3-mini"),
            ("genai://claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
            ("genai://gemini-2.5-flash", "gemini/gemini-2.5-flash"),
            ("genai://command-r-plus", "cohere_chat/command-r-plus"),
            ("genai://deepseek-chat", "deepseek/deepseek-chat"),
            ("genai://grok-3", "xai/grok-3"),
            ("genai://groq::llama-3.3-70b-versatile", "groq/llama-3.3-70b-versatile"),
            ("genai://openai::my-own", "openai/my-own"),
        ],
    )
    def test_provider(self, url: str, model: str) -> None:
        """P-120: for the scheme without a provider, the model's name determines the provider."""
        target = parse_model_name(f"{url}?temperature=0.5")
        assert target == ModelTarget(model, temperature=0.5)
        provider, name = model.split("/", 1)
        assert importlib.import_module("litellm").get_llm_provider(model)[:2] == (name, provider)

    @pytest.mark.parametrize(
        "model",
        ["qwen3:8b", "gpt-oss:20b", "gpt-oss-20b", "deepseek-r1:8b", "ollama::x", "groq::", "optimus"],
    )
    def test_no_guess(self, model: str) -> None:
        """P-123: an ambiguous model name is refused, with the form to use instead."""
        with pytest.raises(InvalidModelUrlError, match="does not say whose model it is") as raised:
            parse_model_name(f"genai://{model}")
        assert "Write provider/model, or ollama://host:port/model" in str(raised.value)

    def test_no_model(self) -> None:
        """P-123: a URL without a model is refused."""
        with pytest.raises(InvalidModelUrlError, match="'genai://': missing model"):
            parse_model_name("genai://")

    def test_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """P-123: a missing key is reported before anything is sent."""
        for name in ("COHERE_API_KEY", "CO_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        model = LitellmModel("genai://command-r")
        with pytest.raises(ModelError, match="COHERE_API_KEY or CO_API_KEY"):
            model.check_environment()
        monkeypatch.setenv("CO_API_KEY", "k")
        model.check_environment()


class TestUnreadable:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("gpt-4o", "missing scheme"),
            ("", "missing scheme"),
            ("foo://m", "unknown provider 'foo'"),
            ("openai://", "missing model"),
            ("openai:///", "missing model"),
            ("ollama://localhost:11434", "missing model"),
            ("ollama://localhost:11434/", "missing model"),
            ("ollama:///m", "missing host"),
            ("openai://m?colour=red", "unknown parameter 'colour'"),
            ("openai://m?wire=openai", "unknown parameter 'wire'"),
            ("ollama://h/m?wire=x", "unknown wire 'x'"),
            ("openai://m?temperature=hot", "temperature must be a number, got 'hot'"),
        ],
    )
    def test_message(self, name: str, message: str) -> None:
        """P-123: the error names the fault."""
        with pytest.raises(InvalidModelUrlError, match=message):
            parse_model_name(name)

    @pytest.mark.parametrize("name", ["openai://sk-secret@gpt-4o", "ollama://sk-secret@box/m"])
    def test_key_in_the_name(self, name: str) -> None:
        """P-122: a key in a name is refused and not repeated in the error."""
        with pytest.raises(InvalidModelUrlError, match="a key does not belong in a name") as raised:
            parse_model_name(name)
        assert "sk-secret" not in str(raised.value)


class TestParameters:
    @pytest.mark.parametrize("text", ["nan", "inf", "-1", "-inf"])
    def test_no_temperature(self, text: str) -> None:
        """P-122: a temperature must be a number that a provider accepts."""
        with pytest.raises(InvalidModelUrlError, match="number from 0"):
            parse_model_name(f"openai://gpt-4o?temperature={text}")

    def test_no_variable(self) -> None:
        """P-122: an empty `api_key_env` is refused."""
        with pytest.raises(InvalidModelUrlError, match="name the environment variable"):
            parse_model_name("openai://gpt-4o?api_key_env=")

    def test_ollama_without_port(self) -> None:
        """P-120: a host without a port gets Ollama's default port."""
        assert parse_model_name("ollama://box/m").api_base == "http://box:11434"
        assert parse_model_name("ollama://box:80/m").api_base == "http://box:80"
