"""The protocol's document and schema: up to date and complete for every method."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from interlock.engine.gateway.protocol.framing import Code, Payload, read_request, request_frame
from interlock.engine.gateway.protocol.method import Method
from interlock.engine.gateway.protocol.schema import METHODS, document, schema

from ..client.examples import EXAMPLES
from ..served import raw, served
from ..server.test_attacks_inside import ask

ROOT = Path(__file__).parents[4]


class TestTheDocument:
    def test_is_current(self) -> None:
        """docs/protocol.md equals the output of `interlock protocol`; run it again after a change."""
        assert (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8") == document()

    def test_lists_every_method_and_error(self) -> None:
        """Every method and error is listed, and every link has a target."""
        text = document()
        headings = {line[4:].lower() for line in text.splitlines() if line.startswith("### ")}
        for method in METHODS:
            assert f"`{method.name}`" in headings
        for code in Code:
            assert f"| {int(code)} |" in text
        links = {part.split(")")[0] for part in text.split("](#")[1:]}
        assert links <= headings


class TestTheSchema:
    def test_schema_is_complete(self) -> None:
        """The schema contains every method and error, and every reference has a definition."""
        found = schema()
        text = json.dumps(found)
        assert set(found["methods"]) == {"hello", *(method.name for method in METHODS)}  # type: ignore[arg-type]
        assert set(found["errors"]) == {str(int(code)) for code in Code}  # type: ignore[arg-type]
        definitions = found["$defs"]
        assert isinstance(definitions, dict)
        for part in text.split('"$ref": "#/$defs/')[1:]:
            assert part.split('"')[0] in definitions

    def test_parameters_forbid_additional_fields(self) -> None:
        """The schema of the parameters forbids additional fields."""
        definitions = schema()["$defs"]
        assert isinstance(definitions, dict)
        for method in METHODS:
            described = definitions[method.params.__name__]
            assert isinstance(described, dict)
            assert described.get("additionalProperties") is False, method.name


class TestExamples:
    def test_every_method_has_an_example(self) -> None:
        """Every method has an example."""
        assert set(EXAMPLES) == {method.name for method in METHODS}

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
    def test_round_trip(self, method: Method[Payload, BaseModel]) -> None:
        """A server reads the parameters that a client wrote."""
        for example in EXAMPLES[method.name]:
            params = method.params.model_validate(example)
            read = read_request(request_frame(method.name, params, 1).decode())
            assert read.method == method.name
            assert method.params.model_validate(read.params) == params
            assert read.params.keys() == example.keys()

    @pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
    async def test_server_answers_every_method(
        self, tmp_path: Path, method: Method[Payload, BaseModel]
    ) -> None:
        """A server answers every method with its result or with an error of the protocol."""
        async with served(tmp_path) as server:
            secret, path = (
                (server.agent, "/agent") if method.kind == "agent" else (server.ada, "/console")
            )
            async with raw(server, secret, path) as socket:
                found = await ask(socket, method.name, **EXAMPLES[method.name][0])
                if found.error is None:
                    method.result.model_validate(found.result)
                else:
                    assert found.error.code in set(Code) - {Code.INTERNAL, Code.METHOD}
                    assert found.error.code != Code.PARAMS or "rules" in found.error.message
