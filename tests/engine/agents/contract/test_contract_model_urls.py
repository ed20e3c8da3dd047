"""The table of models by URL: the key of each row, and the model that an agent creates for it."""

from __future__ import annotations

import pytest

from interlock.engine.agents import Agent, LitellmModel, ModelError

CLOUD = [
    ("openai://gpt-4o", ("OPENAI_API_KEY",)),
    ("openai://gpt-4o-mini", ("OPENAI_API_KEY",)),
    ("anthropic://claude-opus-4-5", ("ANTHROPIC_API_KEY",)),
    ("anthropic://claude-sonnet-4-5", ("ANTHROPIC_API_KEY",)),
    ("gemini://gemini-2.5-flash", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    ("gemini://gemini-2.5-flash-lite", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
]
VARIABLES = {name for _, names in CLOUD for name in names}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


class TestKey:
    @pytest.mark.parametrize(("url", "variables"), CLOUD)
    def test_error_names_the_environment_variable(self, url: str, variables: tuple[str, ...]) -> None:
        """P-120: the error for a missing key names the row's environment variable."""
        with pytest.raises(ModelError) as raised:
            LitellmModel(url).check_environment()
        assert str(raised.value) == (
            f"{url} needs a key: set the environment variable {' or '.join(variables)}"
        )

    @pytest.mark.parametrize(("url", "variables"), CLOUD)
    def test_own_key_is_sufficient(
        self, url: str, variables: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """P-120: the row's own key is sufficient, and another provider's key does not count."""
        for name in VARIABLES - set(variables):
            monkeypatch.setenv(name, "k")
        with pytest.raises(ModelError, match="needs a key"):
            LitellmModel(url).check_environment()
        for name in variables:
            with monkeypatch.context() as patched:
                patched.setenv(name, "k")
                LitellmModel(url).check_environment()

    @pytest.mark.parametrize(
        "url", ["ollama://localhost:11434/qwen3:8b", "ollama://localhost:11434/llama3.2"]
    )
    def test_local_models_need_no_key(self, url: str) -> None:
        """P-120: models on one's own machine need no key."""
        LitellmModel(url).check_environment()


class TestAgent:
    @pytest.mark.parametrize("url", [*(url for url, _ in CLOUD), "ollama://localhost:11434/qwen3:8b"])
    def test_agent_accepts_each_url(self, url: str) -> None:
        """P-120: an agent accepts each row as its model, without needing the key yet."""
        model = Agent(url).model
        assert isinstance(model, LitellmModel)
        assert model.name == url
