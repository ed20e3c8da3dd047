"""Requests that are read without the model."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.engine.gateway.protocol.framing import (
    LARGEST_ID,
    LONGEST_METHOD,
    Request,
    WireError,
    read_request,
)

MEMBERS = st.fixed_dictionaries(
    {
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]) | st.just("2.0"),
        "method": st.sampled_from(["tool.call", "", "x" * LONGEST_METHOD, "x" * (LONGEST_METHOD + 1), 1]),
        "id": st.sampled_from([1, 0, LARGEST_ID, LARGEST_ID + 1, -LARGEST_ID, True, 1.5, "a", None]),
        "params": st.sampled_from([{}, {"a": {"b": [1, 2.5, None, "x"]}}, [], None, "x"]),
    },
    optional={"more": st.just(1)},
)


class TestReadRequest:
    """The fast reader and the model agree."""

    @given(MEMBERS, st.sets(st.sampled_from(["jsonrpc", "method", "id", "params"]), max_size=1))
    def test_equals_the_models_result(self, found: dict[str, object], without: set[str]) -> None:
        """For any members, both return the same request or raise an error."""
        loaded = {name: value for name, value in found.items() if name not in without}
        try:
            expected = Request.model_validate(loaded)
        except ValidationError:
            with pytest.raises(WireError):
                read_request(orjson.dumps(loaded).decode())
        else:
            assert read_request(orjson.dumps(loaded).decode()) == expected
