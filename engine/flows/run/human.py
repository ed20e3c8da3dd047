"""A question with choices to an operator, and the answer."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ..errors import DeserializeError


class HumanInput(BaseModel):
    """Request to choose one of `choices`; with `allow_other`, any other text is accepted, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    choices: tuple[str, ...] = ()
    allow_other: bool = False


class HumanAnswer(BaseModel):
    """Answer to a choice. `choice` is the index of the chosen text, `None` for another text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    choice: int | None = None
    text: str = ""


class _Index(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    choice: int = Field(ge=0)


class _Text(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = Field(min_length=1)


def answer_of(question: HumanInput, payload: JsonValue, node: str) -> HumanAnswer:
    """Convert `payload` to an answer: `{"choice": 1}`, `{"text": "…"}`, or just the number or the text.

    A text that equals a choice selects it. Raises `DeserializeError` that lists the choices.
    """
    if type(payload) is int:
        payload = {"choice": payload}
    elif isinstance(payload, str):
        payload = {"text": payload}
    expectation = _expected(question)
    try:
        if isinstance(payload, dict) and "choice" in payload:
            index = _Index.model_validate(payload).choice
            if index < len(question.choices):
                return HumanAnswer(choice=index, text=question.choices[index])
        else:
            text = _Text.model_validate(payload).text
            if text in question.choices:
                return HumanAnswer(choice=question.choices.index(text), text=text)
            if question.allow_other or not question.choices:
                return HumanAnswer(text=text)
    except ValidationError as error:
        raise DeserializeError(
            f"{node}: the answer is {payload!r}, expected {expectation}", node
        ) from error
    raise DeserializeError(f"{node}: the answer is {payload!r}, expected {expectation}", node)


def _expected(question: HumanInput) -> str:
    choice_list = ", ".join(f"{n} ({text})" for n, text in enumerate(question.choices))
    match bool(choice_list), question.allow_other:
        case True, True:
            return f"one of {choice_list} or another text"
        case True, False:
            return f"one of {choice_list}"
        case _:
            return "a text"
