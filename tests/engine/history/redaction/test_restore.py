"""Editing a partly masked input: the masked values are restored, or the edit is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.history.redaction.redaction import MASK, Redaction
from interlock.engine.history.redaction.spans import holds_mask, mask_of
from interlock.engine.history.redaction.unmasking import StillMaskedError, unmasked

REDACTION = Redaction()
REAL = {
    "env": "staging",
    "password": "hunter2hunter2",
    "headers": {"Authorization": "Bearer abcdefgh12345678", "Accept": "text/plain"},
    "args": ["--token", "s3cr3ts3cr3t", "--verbose"],
    "command": "TOKEN=first.token ./deploy --password second.word staging",
}
SHOWN = REDACTION.fields(REAL)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "token", "password"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["x", "secret", "command"]), VALUES, max_size=3)


class TestUnmasked:
    @pytest.mark.slow
    @given(OBJECTS)
    def test_unedited_values_are_restored(self, real: dict[str, object]) -> None:
        """Unedited values are restored completely, wherever they were masked."""
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        assert unmasked(shown, shown, real) == real  # pyright: ignore[reportArgumentType]

    def test_edit_beside_masks_keeps_the_secrets(self) -> None:
        """A change beside the masks keeps the secrets, in objects, lists and commands."""
        assert holds_mask(str(SHOWN))
        assert "hunter2" not in str(SHOWN)
        edited = {
            **SHOWN,
            "env": "prod",
            "headers": {**SHOWN["headers"], "Accept": "*/*"},  # pyright: ignore
            "args": [*SHOWN["args"][:2], "--quiet"],  # pyright: ignore
            "command": str(SHOWN["command"]).replace("staging", "prod"),
        }
        assert unmasked(edited, SHOWN, REAL) == {
            **REAL,
            "env": "prod",
            "headers": {**REAL["headers"], "Accept": "*/*"},  # pyright: ignore
            "args": ["--token", "s3cr3ts3cr3t", "--quiet"],
            "command": "TOKEN=first.token ./deploy --password second.word prod",
        }

    def test_new_secret_replaces_the_masked_one(self) -> None:
        """A new secret replaces the masked one."""
        assert unmasked({**SHOWN, "password": "new"}, SHOWN, REAL)["password"] == "new"

    def test_masked_name_is_kept_when_another_is_edited(self) -> None:
        """A member with a masked name keeps its name and value when another is edited."""
        real = {"token=abc1": 1, "token=abc2": "two", "in": {"Bearer abcdefgh": [1]}, "env": "staging"}
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        assert "abc" not in str(shown)
        edited = {**shown, "env": "prod"}
        assert unmasked(edited, shown, real) == {**real, "env": "prod"}  # pyright: ignore
        gone = {label: value for label, value in shown.items() if value != 1}
        assert unmasked(gone, shown, real) == {k: v for k, v in real.items() if v != 1}  # pyright: ignore

    def test_edited_masked_name_is_refused(self) -> None:
        """An edited masked name is refused, because its original is unknown."""
        real = {"in": {"token=abc": 1}}
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        with pytest.raises(StillMaskedError, match=r"The name 'in\.tokens=.*Replace it"):
            unmasked({"in": {f"tokens={MASK}": 1}}, shown, real)  # pyright: ignore

    @pytest.mark.parametrize(
        ("edited", "where"),
        [
            ({"env": MASK}, "env"),
            ({"password": f"{mask_of('another')}!"}, "password"),
            ({"password": f"{mask_of('hunter2hunter2')}!"}, None),
            ({"other": MASK}, "other"),
            ({"other": [{"deep": MASK}]}, "other"),
            ({"args": ["--token", MASK]}, "args"),
            ({"command": f"./deploy {MASK}"}, "command"),
            ({"headers": {"X-New": MASK}}, "headers.X-New"),
        ],
    )
    def test_mask_with_unknown_original_is_refused(
        self, edited: dict[str, object], where: str | None
    ) -> None:
        """A mask whose original is unknown is refused, and its place is named."""
        if where is None:
            assert unmasked({**SHOWN, **edited}, SHOWN, REAL)["password"] == "hunter2hunter2!"  # pyright: ignore
            return
        with pytest.raises(StillMaskedError, match=f"'{where}'.*Replace (it|them)"):
            unmasked({**SHOWN, **edited}, SHOWN, REAL)  # pyright: ignore


class TestBesideAMask:
    @pytest.mark.parametrize(
        ("before", "after"),
        [(1, True), (True, 1), (1, 1.0), (0, False), ([1], [True]), ({"a": 1}, {"a": True})],
    )
    def test_another_type_is_an_edit(self, before: object, after: object) -> None:
        """`1` edited to `true` beside a mask becomes `true`: values are compared as JSON."""
        real = {"n": before, "password": "hunter2hunter2"}
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        found = unmasked({**shown, "n": after}, shown, real)["n"]  # pyright: ignore
        assert repr(found) == repr(after)

    def test_reordered_masks_are_refused(self) -> None:
        """Masks in another order are refused, because each stands for its own text."""
        real = {"command": "TOKEN=first.token ./deploy --password second-word x"}
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        first, second = "[masked: 11 characters]", "[masked: 11 characters]"
        assert str(shown["command"]).count(first) == 2
        longer = {"command": "TOKEN=first ./deploy --password second-word"}
        shown = REDACTION.fields(longer)  # pyright: ignore[reportArgumentType]
        first, second = "[masked: 5 characters]", "[masked: 11 characters]"
        edited = {"command": f"TOKEN={second} ./deploy --password {first}"}
        with pytest.raises(StillMaskedError, match="not those that were shown"):
            unmasked(edited, shown, longer)  # pyright: ignore

    def test_secret_containing_surrounding_text_is_restored(self) -> None:
        """If a secret contains the text around it, each part is still restored correctly."""
        real = {"command": "x --token aXb --token cXd"}
        shown = REDACTION.fields(real)  # pyright: ignore[reportArgumentType]
        edited = {"command": str(shown["command"]).replace("x --", "y --")}
        assert unmasked(edited, shown, real) == {"command": "y --token aXb --token cXd"}  # pyright: ignore
