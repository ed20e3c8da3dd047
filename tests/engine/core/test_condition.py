"""Conditions on a call's input: true, false, or unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.core.condition import (
    NOWHERE,
    And,
    Compare,
    Condition,
    Not,
    Or,
    Surroundings,
    comparisons,
    condition_text,
    holds,
    unknown_reason,
)
from interlock.engine.sessions.config import real_path
from interlock.rules.parse.patterns import compile_regex


def comparison(operator: str, value: object, path: str = "x") -> Compare:
    return Compare(tuple(path.split(".")), operator, value)


class TestComparing:
    @pytest.mark.parametrize(
        ("operator", "value", "found", "expected"),
        [
            ("=", 1, 1, True),
            ("=", 1, 1.0, True),
            ("=", 1, True, False),
            ("=", True, 1, False),
            ("=", False, 0, False),
            ("=", True, True, True),
            ("=", "1", 1, False),
            ("=", None, None, True),
            ("=", None, "", False),
            ("=", "a", ["a"], None),
            ("=", 1, {"a": 1}, None),
            ("=", None, [], False),
            ("=", 10**400, 10**400, True),
            ("!=", 1, 2, True),
            ("!=", 1, True, True),
            ("!=", "a", {}, None),
            ("!=", None, {}, True),
            ("!=", 1, float("nan"), True),
            ("<", 2, 1, True),
            ("<", 2, 1.9, True),
            ("<=", 2, 2, True),
            (">", 2, 10**400, True),
            ("<", 1e308, 10**400, False),
            (">=", "b", "a", False),
            ("<", "b", "a", True),
            (">", "Z", "a", True),
            ("<", 2, "1", None),
            ("<", "2", 1, None),
            ("<", 2, True, None),
            ("<", 2, None, None),
            ("<", 2, float("nan"), None),
            ("<", 2, [1], None),
            ("in", ("a", 1), "a", True),
            ("in", ("a", 1), True, False),
            ("in", (), "a", False),
            ("in", (None,), None, True),
            ("in", ("a",), ["a"], None),
            ("in", ("a", None), {}, None),
            ("in", (None,), [], False),
            ("contains", "b", "abc", True),
            ("contains", "", "abc", True),
            ("contains", "d", "abc", False),
            ("contains", 1, "a1", None),
            ("contains", 1, [1.0], True),
            ("contains", 1, [True], False),
            ("contains", None, [None], True),
            ("contains", "a", [["a"], "b"], None),
            ("contains", "a", [["a"], "a"], True),
            ("contains", "a", ("b", "a"), True),
            ("contains", "a", {"a": 1}, None),
            ("contains", "a", None, None),
            ("matches", compile_regex("/^b/"), "bc", True),
            ("matches", compile_regex("/^b/"), "abc", False),
            ("matches", compile_regex("/B/i"), "abc", True),
            ("matches", compile_regex("/b/"), ["b"], None),
            ("matches", compile_regex("/b/"), None, None),
            ("matches", compile_regex("/b/"), "\ud800b", True),
            ("under", "src", 3, None),
            ("under", "src", None, None),
        ],
    )
    def test_values_compare_as_in_json(
        self, operator: str, value: object, found: object, expected: bool | None
    ) -> None:
        """Values compare as in JSON: `true` is not a number, and incomparable kinds give unknown."""
        assert holds(comparison(operator, value), {"x": found}) is expected

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ({"a": {"b": 1}}, True),
            ({"a": {"b": 2}}, False),
            ({"a": {}}, None),
            ({"a": 1}, None),
            ({}, None),
        ],
    )
    def test_field_inside_a_non_object_is_missing(
        self, call: dict[str, object], expected: bool | None
    ) -> None:
        """A field of a value that is not an object is missing."""
        assert holds(comparison("=", 1, "a.b"), call) is expected

    def test_null_field_is_present(self) -> None:
        """A field with value null is present."""
        assert holds(comparison("=", None), {"x": None}) is True
        assert holds(comparison("=", None), {}) is None

    def test_conditions_with_true_and_one_differ(self) -> None:
        """Conditions differ if one has `true` and the other 1, but not if only positions differ."""
        assert comparison("=", True) != comparison("=", 1)
        assert comparison("in", (True, 0)) != comparison("in", (1, False))
        assert comparison("=", 1) == comparison("=", 1.0)
        assert len({comparison("=", True), comparison("=", 1), Compare(("x",), "=", 1, 5, 9)}) == 2


PATTERN = compile_regex("/a/")
COMPARISONS = st.one_of(
    st.builds(
        comparison,
        st.sampled_from(["=", "!="]),
        st.sampled_from([1, "a", True, None]),
        st.sampled_from("xyz"),
    ),
    st.builds(
        comparison, st.sampled_from(["<", ">="]), st.sampled_from([1, 2, "a"]), st.sampled_from("xyz")
    ),
    st.builds(comparison, st.just("in"), st.sampled_from([(), (1, "a")]), st.sampled_from("xyz")),
    st.builds(comparison, st.just("contains"), st.sampled_from(["a", 1]), st.sampled_from("xyz")),
    st.builds(comparison, st.just("matches"), st.just(PATTERN), st.sampled_from("xyz")),
    st.builds(comparison, st.just("under"), st.sampled_from(["a", "/a", "~"]), st.sampled_from("xyz")),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["", "a", "a/b", "../a", "/a", "~/x", "\0"]),
    st.lists(st.sampled_from([1, "a"]), max_size=2),
    st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=1),
)
CALLS = st.dictionaries(st.sampled_from("xyz"), VALUES)
FULL = st.fixed_dictionaries({name: st.sampled_from([1, 2]) for name in "xyz"})


class TestLaws:
    @given(CONDITIONS, CALLS)
    def test_double_negation(self, condition: Condition, call: dict[str, object]) -> None:
        """Double negation changes nothing, even for unknown results."""
        assert holds(Not(Not(condition)), call) is holds(condition, call)

    @pytest.mark.slow
    @given(st.lists(CONDITIONS, min_size=1, max_size=3).map(tuple), CALLS)
    def test_de_morgan(self, parts: tuple[Condition, ...], call: dict[str, object]) -> None:
        """The negation of "all" is "some not", and the negation of "any" is "all not"."""
        turned = tuple(Not(part) for part in parts)
        assert holds(Not(And(parts)), call) is holds(Or(turned), call)
        assert holds(Not(Or(parts)), call) is holds(And(turned), call)

    @pytest.mark.slow
    @given(CONDITIONS, CONDITIONS, CALLS)
    def test_order_does_not_matter(
        self, one: Condition, other: Condition, call: dict[str, object]
    ) -> None:
        """`a and b` is `b and a`; `a or a` is `a`."""
        assert holds(And((one, other)), call) is holds(And((other, one)), call)
        assert holds(Or((one, other)), call) is holds(Or((other, one)), call)
        assert holds(Or((one, one)), call) is holds(And((one, one)), call) is holds(one, call)

    @pytest.mark.slow
    @given(CONDITIONS)
    def test_unknown_without_any_field(self, condition: Condition) -> None:
        """Without any of the fields the result is unknown."""
        assert holds(condition, {}) is None
        assert unknown_reason(condition, {}).startswith("the call has no input.")

    @pytest.mark.slow
    @given(CONDITIONS, CALLS, CALLS)
    def test_additional_fields_keep_a_known_result(
        self, condition: Condition, call: dict[str, object], more: dict[str, object]
    ) -> None:
        """Additional fields do not change a result that is known without them."""
        told = holds(condition, call)
        assert told is None or holds(condition, {**more, **call}) is told

    @pytest.mark.slow
    @given(CONDITIONS, CALLS)
    def test_unknown_result_has_a_reason(self, condition: Condition, call: dict[str, object]) -> None:
        """There is a reason exactly if the result is unknown, and it names a field of the condition."""
        why = unknown_reason(condition, call)
        assert (why is None) is (holds(condition, call) is not None)
        if why is not None:
            assert any(part.field_name in why for part in comparisons(condition))


class TestUntold:
    @pytest.mark.parametrize(
        ("condition", "call", "why"),
        [
            (comparison("=", 1, "a.b"), {}, "the call has no input.a.b"),
            (comparison("<", 1), {"x": "a"}, "input.x cannot be compared by '<'"),
            (Not(comparison("contains", "a")), {"x": 1}, "input.x cannot be compared by 'contains'"),
            (And((comparison("=", 1, "y"), comparison("=", 1))), {"y": 1}, "the call has no input.x"),
            (
                comparison("=", 1),
                {"x": 1, "X": 2},
                "another field differs from input.x only in looks",
            ),
            (
                Not(comparison("=", 1, "a.b")),
                {"a": {"b": 2, "b\u200b": 1}},
                "another field differs from input.a.b only in looks",
            ),
            # The left side is decided despite a missing field; the reason is on the right.
            (
                And((Or((comparison("=", 1, "a"), comparison("=", 1, "y"))), comparison("=", 1))),
                {"y": 1},
                "the call has no input.x",
            ),
        ],
    )
    def test_reason_names_the_deciding_field(
        self, condition: Condition, call: dict[str, object], why: str
    ) -> None:
        """The reason names the field that decides, not another missing one."""
        assert unknown_reason(condition, call) == why

    def test_known_result_has_no_reason(self) -> None:
        """A condition with a known result has no reason."""
        assert unknown_reason(Or((comparison("=", 1, "a"), comparison("=", 1))), {"x": 1}) is None
        assert unknown_reason(And((comparison("=", 1, "a"), comparison("=", 1))), {"x": 2}) is None
        assert unknown_reason(comparison("=", 1), {"x": 2, "y": 1, "xx": 1}) is None


class TestWritten:
    def test_text_has_only_necessary_parentheses(self) -> None:
        """The text has only the necessary parentheses."""
        condition = Or(
            (
                And((comparison("=", "é\n"), Not(comparison("in", (1, True, None))))),
                Not(Or((comparison("<", 2.5), PATTERNED))),
            )
        )
        assert condition_text(condition) == (
            'input.x = "é\\n" and input.x not in [1, true, null] '
            "or not (input.x < 2.5 or input.x matches /a/)"
        )


PATTERNED = comparison("matches", PATTERN)


def is_under(path: object, folder: str, around: Surroundings = NOWHERE) -> bool | None:
    return holds(comparison("under", folder), {"x": path}, around)


class TestUnderByName:
    """Paths that are compared without following links."""

    @pytest.mark.parametrize(
        ("path", "folder", "expected"),
        [
            ("src/a.py", "src", True),
            ("src/a.py", "src/", True),
            ("src", "src/", True),
            ("src/", "src", True),
            ("./src//a.py", "src", True),
            ("src/../src/a", "src", True),
            ("src/../secrets", "src", False),
            ("src2/a", "src", False),
            ("asrc/a", "src", False),
            ("lib/src/a", "src", False),
            ("src/..", "src", False),
            ("SRC/a", "src", False),
            ("a", ".", True),
            ("../a", ".", None),
            ("../src/a", "src", None),
            ("src/../../src/a", "src", None),
            ("src/a", "../src", None),
            ("..a/b", "..a", True),
            ("/etc/passwd", "src", None),
            ("src/a", "/etc", None),
            ("/etc/passwd", "/etc", True),
            ("/etc/../home/x", "/etc", False),
            ("/etc2", "/etc", False),
            ("//etc/passwd", "/etc", True),
            ("/../etc/passwd", "/etc", True),
            ("/anything", "/", True),
            ("~/x", "src", None),
            ("~", "~", None),
            ("~root/x", "/root", None),
            ("", "src", None),
            ("src/\0/a", "src", None),
        ],
    )
    def test_compares_names(self, path: str, folder: str, expected: bool | None) -> None:
        """`..` is resolved by name; the base of a relative path is not guessed."""
        assert is_under(path, folder) is expected

    @pytest.mark.parametrize(
        ("path", "folder", "expected"),
        [
            ("src/a", "src", True),
            ("src/a", "/w/src", True),
            ("/w/src/a", "src", True),
            ("../w/src/a", "src", True),
            ("../../../../w/src/a", "src", True),
            ("../v/src/a", "src", False),
            ("/w2/src", ".", False),
            ("/w", ".", True),
            ("~/a", "~", True),
            ("~/a", "/h/o", True),
            ("/h/o/a", "~/", True),
            ("~/../x", "~", False),
            ("~", "/h", True),
            ("~x/a", "/w", None),
            ("a/~", "/w/a", True),
        ],
    )
    def test_relative_paths_and_home_are_resolved(
        self, path: str, folder: str, expected: bool | None
    ) -> None:
        """With a working directory and a home, relative paths and `~` are resolved."""
        assert is_under(path, folder, Surroundings(workdir="/w", home="/h/o")) is expected


def real(path: str) -> str:
    return os.path.realpath(path)


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """A project with links out of it and into it, and a home directory beside it."""
    for folder in ("work/src/deep", "work/secrets", "home"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "work/src/a.py").write_text("a")
    (tmp_path / "work/src/out").symlink_to("../secrets")
    (tmp_path / "work/in").symlink_to("src")
    (tmp_path / "work/src/up").symlink_to("..")
    (tmp_path / "work/src/loop").symlink_to("loop")
    (tmp_path / "home/project").symlink_to(tmp_path / "work")
    return Surroundings(str(tmp_path / "work"), str(tmp_path / "home"), real)


OWN = ["/proc/self/cwd/x", "/proc/self", "/proc/42/root/etc", "/proc/thread-self/fd/3", "/dev/fd/3"]


class TestUnderOfOneProcess:
    """Paths that depend on the process, which is another one than the judging process."""

    @pytest.mark.parametrize("path", [*OWN, "/dev/stdin", "//proc/self/cwd", "/tmp/../proc/./self/cwd"])
    @pytest.mark.parametrize("around", [NOWHERE, Surroundings("/w"), Surroundings("/w", None, real_path)])
    def test_process_paths_are_unknown(self, path: str, around: Surroundings) -> None:
        """The targets of `/proc/self` and `/dev/fd` are known only to the tool's process."""
        assert is_under(path, "/etc", around) is None
        assert is_under(path, "/", around) is None

    def test_link_to_a_process_path_is_unknown(self, tmp_path: Path) -> None:
        """A link that leads to such a path is followed and gives unknown."""
        (tmp_path / "inside").symlink_to("/proc/self/cwd")
        (tmp_path / "fd").symlink_to("/dev/fd")
        around = Surroundings(str(tmp_path), None, real_path)
        assert is_under("inside/a", ".", around) is None
        assert is_under("fd/0", ".", around) is None
        assert is_under("other", ".", around) is True

    @pytest.mark.parametrize("path", ["/proc/selfish/x", "/proc/cpuinfo", "/dev/fdx", "/dev/null"])
    def test_other_paths_are_known(self, path: str) -> None:
        """Other paths in these folders are the same for all processes."""
        assert is_under(path, "/proc") is path.startswith("/proc")

    def test_follows_links_as_the_system_does(self, tmp_path: Path) -> None:
        """Links, blanks and missing paths resolve as with `os.path.realpath`."""
        (tmp_path / "a/b").mkdir(parents=True)
        (tmp_path / "link").symlink_to("a/b/..")
        (tmp_path / "far").symlink_to(tmp_path / "link/b")
        for path in ("link", "far/../x", "far/./missing/../y", "a//b/", "..", "link/../../z"):
            whole = os.path.join(tmp_path, path)
            assert real_path(whole) == os.path.realpath(whole)
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(OSError, match="leads through more than 40 links"):
            real_path(str(tmp_path / "loop"))


class TestUnderForReal:
    """Paths that are compared by the targets of their links."""

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("src/a.py", True),
            ("src/new/file.py", True),
            ("src/out/key", False),
            ("src/out", False),
            ("src/out/../a.py", False),
            ("in/a.py", True),
            ("in", True),
            ("in/../a.py", False),
            ("src/up/src/a.py", True),
            ("src/up/secrets/key", False),
            ("src/deep/../a.py", True),
            ("~/project/src/a.py", True),
            ("~/project/secrets", False),
            ("secrets/../src/a.py", True),
            ("src/../../home/project/src", True),
            ("src2", False),
            ("", None),
            ("src/\0", None),
            ("src/\ud800", None),
        ],
    )
    def test_follows_links(self, around: Surroundings, path: str, expected: bool | None) -> None:
        """A link inside that leads outside is outside, and vice versa."""
        assert is_under(path, "src", around) is expected
        assert is_under(path, "in/", around) is expected

    def test_absolute_path_equals_relative_one(self, around: Surroundings, tmp_path: Path) -> None:
        """An absolute path is equivalent to a relative one with the same target."""
        assert is_under(str(tmp_path / "work/src/a.py"), "src", around) is True
        assert is_under("src/a.py", str(tmp_path / "home/project/src"), around) is True
        assert is_under("/etc/passwd", "src", around) is False

    def test_unresolvable_path_is_unknown(self, tmp_path: Path) -> None:
        """A path that cannot be resolved gives unknown."""

        def strict(path: str) -> str:
            return os.path.realpath(path, strict=True)

        around = Surroundings(str(tmp_path), None, strict)
        (tmp_path / "src").mkdir()
        (tmp_path / "src/loop").symlink_to("loop")
        assert is_under("src/loop/x", "src", around) is None
        assert is_under("src/missing", "src", around) is None
        assert is_under("src", "src", around) is True

    @given(
        st.lists(
            st.sampled_from(["src", "out", "in", "up", "..", ".", "deep", "new", "secrets"]), max_size=6
        )
    )
    def test_agrees_with_the_system(
        self, tmp_path_factory: pytest.TempPathFactory, parts: list[str]
    ) -> None:
        """A winding path is under `src` exactly if the file that the system opens is."""
        root = Path(os.path.realpath(tmp_path_factory.getbasetemp())) / "winding"
        if not root.exists():
            (root / "src/deep").mkdir(parents=True)
            (root / "secrets").mkdir()
            (root / "src/out").symlink_to("../secrets")
            (root / "in").symlink_to("src")
            (root / "src/up").symlink_to("..")
        path = "/".join(parts) or "."
        end = Path(os.path.realpath(root / path))
        inside = end == root / "src" or root / "src" in end.parents
        assert is_under(path, "src", Surroundings(str(root), None, real)) is inside
