"""The hash of an event equals its definition, whichever quick path the JSON of the event allows."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.audit.canonical_json import canonical
from interlock.engine.history.audit.hash_chain import (
    CONTENT,
    SALT_BYTES,
    ChainPosition,
    content_hash,
    event_hash,
    event_hash_of_body,
    new_salts,
    time_text,
)

PLACE = ChainPosition("s1", 7, 1_790_000_000_123)
SALT, PREV = bytes(range(SALT_BYTES)), bytes(range(32))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text()
    | st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,3})?([eE][0-9])?", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(("input", "text", "tool", "cost", "n", "é")), VALUES)


def by_definition(text: str) -> bytes:
    """Compute the hash of `event_hash` by its definition: over the canonical JSON of the envelope."""
    members = json.loads(text)
    content = {name: members.pop(name) for name in sorted(CONTENT & members.keys())}
    envelope = {
        "at": time_text(PLACE.at),
        "body": members,
        "content": hashlib.sha256(SALT + canonical(content).encode()).hexdigest(),
        "prev": PREV.hex(),
        "seq": PLACE.seq,
        "session": PLACE.session,
        "v": 1,
    }
    return hashlib.sha256(canonical(envelope).encode()).digest()


class TestLink:
    @given(BODIES, st.booleans())
    def test_hash_is_of_canonical_envelope(self, body: dict[str, object], escaped: bool) -> None:
        """An event's hash is the hash of its canonical envelope, whatever its body holds."""
        text = json.dumps(body, ensure_ascii=escaped)
        assert event_hash_of_body(PLACE, text, SALT, PREV) == by_definition(text)

    @pytest.mark.parametrize(
        "number",
        [
            "0.000001",
            "1e5",
            "1E5",
            "5.0",
            "-0.0",
            "-0",
            "0.25",
            "9007199254740993",
            "1.10",
            "NaN",
            "0.05",
        ],
    )
    def test_numbers_are_hashed_as_canonical_text(self, number: str) -> None:
        """A number is hashed as its canonical text, whatever its form in the body."""
        text = f'{{"cost":{number},"input":{{"n":[{number}]}}}}'
        assert event_hash_of_body(PLACE, text, SALT, PREV) == by_definition(text)

    @pytest.mark.parametrize("escaped", [True, False])
    def test_names_are_ordered_by_utf16_code_units(self, escaped: bool) -> None:
        """Names are ordered by their UTF-16 code units, not by their UTF-8 bytes."""
        names = ["\U0001f680", "\ue000", "a"]
        for body in ({"input": dict.fromkeys(names, 1)}, dict.fromkeys(names, 1)):
            text = json.dumps(body, ensure_ascii=escaped)
            assert event_hash_of_body(PLACE, text, SALT, PREV) == by_definition(text)

    def test_content_hash_suffices_for_event_hash(self) -> None:
        """The hash of the content is sufficient to compute the hash of the event."""
        text = '{"input":{"command":"ls"},"tool":"bash"}'
        content = content_hash(text, SALT)
        assert event_hash(PLACE, text, content, PREV) == event_hash_of_body(PLACE, text, SALT, PREV)


class TestSalts:
    def test_salts_drawn_together_are_all_different(self) -> None:
        """Salts that are drawn together have the full length and are all different."""
        salts = new_salts(50)
        assert [len(salt) for salt in salts] == [SALT_BYTES] * 50
        assert len(set(salts)) == 50
        assert new_salts(0) == []
