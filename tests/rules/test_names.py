"""The names of a call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.net.net import ToolCall
from interlock.rules import RuleSet, compile_rules


def names(rules: RuleSet, tool: str, **fields: object) -> tuple[str, ...]:
    return rules.resolve(ToolCall("c", tool, fields))


class TestMappedNames:
    def test_every_matching_map_gives_a_name(self) -> None:
        """G-50: every matching map gives a name, in file order; the tool's own name comes last."""
        rules = compile_rules(
            "map bash.command rm as delete\nblock delete\nmap bash.command cp as backup\nblock backup"
        )
        assert names(rules, "bash", command="cp a b && rm -rf x") == ("delete", "backup", "bash")
        assert names(rules, "bash", command="cp a b") == ("backup", "bash")
        assert names(rules, "bash", command="ls") == ("bash",)

    def test_keep_file_order_across_fields(self) -> None:
        """G-50: the names are in the order of the maps, not of the fields."""
        rules = compile_rules(
            "map fs.path a as one\nmap fs.note b as two\nmap fs.path c as three\n"
            "block one\nblock two\nblock three"
        )
        assert names(rules, "fs", note="b", path="a c") == ("one", "two", "three", "fs")

    def test_each_name_appears_once(self) -> None:
        """A name appears once, also if several maps give it or if it is the tool's own."""
        rules = compile_rules(
            "map bash.command rm as delete\nmap bash.command unlink as delete\n"
            "map bash.command ls as bash\nblock delete\nblock bash"
        )
        assert names(rules, "bash", command="rm unlink ls") == ("delete", "bash")

    def test_apply_to_rules_before_the_map(self) -> None:
        """A map applies to the whole file, also to rules before it."""
        rules = compile_rules("block delete\nmap bash.command rm as delete")
        assert names(rules, "bash", command="rm x") == ("delete", "bash")

    def test_apply_to_one_field_of_one_tool(self) -> None:
        """A map applies to one field of one tool."""
        rules = compile_rules("map bash.command rm as delete\nblock delete")
        assert names(rules, "sh", command="rm") == ("sh",)
        assert names(rules, "bash", script="rm") == ("bash",)

    def test_read_a_dotted_field_literally(self) -> None:
        """`fs.path.name` is the field `path.name`, as in the reference, or `name` in `path` (G-65)."""
        rules = compile_rules("map fs.path.name secret as hidden\nblock hidden")
        assert names(rules, "fs", **{"path.name": "secret"}) == ("hidden", "fs")
        assert names(rules, "fs", path={"name": "secret"}) == ("hidden", "fs")
        assert names(rules, "fs", path={"name": "open"}) == ("fs",)

    def test_are_not_mapped_again(self) -> None:
        """Maps are not applied to a mapped name."""
        rules = compile_rules("map a.x rm as b\nmap b.x rm as c\nblock c\nblock b")
        assert names(rules, "a", x="rm") == ("b", "a")


class TestDottedNames:
    def test_come_from_the_action(self) -> None:
        """A rule that names `tool.action` makes `input.action` part of the name."""
        rules = compile_rules("require slack.lookup before slack.post")
        assert names(rules, "slack", action="post") == ("slack.post", "slack")
        assert names(rules, "slack", action="other") == ("slack.other", "slack")
        assert names(rules, "slack", action="") == ("slack.", "slack")
        assert names(rules, "slack", action=7) == ("slack",)
        assert names(rules, "slack") == ("slack",)
        assert names(rules, "db", action="drop") == ("db",)

    def test_are_between_mapped_and_own_names(self) -> None:
        """G-50: the order is mapped names, dotted name, own name."""
        rules = compile_rules("block db.drop\nmap db.query users as people\nblock people")
        assert names(rules, "db", action="drop", query="users") == ("people", "db.drop", "db")

    def test_split_at_the_first_dot(self) -> None:
        """`db.query.raw` is the action `query.raw` of `db`."""
        rules = compile_rules("limit x to 2 per db.query.raw")
        assert names(rules, "db", action="query.raw") == ("db.query.raw", "db")

    def test_in_a_map_alone_do_not_count(self) -> None:
        """A dotted name in a map alone does not make the tool dotted."""
        rules = compile_rules("map sql.query drop as db.drop\nblock x")
        assert names(rules, "db", action="drop") == ("db",)


class TestSharing:
    def test_one_function_serves_all_nets(self) -> None:
        """All nets of a file share one function for names."""
        rules = compile_rules("map bash.command rm as rm\nblock rm\nblock x\nlimit y to 2 per x")
        assert rules.call_names is not None
        assert all(net.call_names is rules.call_names for net in rules)

    def test_plain_files_need_none(self) -> None:
        """Without maps and dotted tools a call has only its own name."""
        rules = compile_rules("block rm\nrequire human-approval before deploy")
        assert [net.call_names for net in rules] == [None, None]
        assert names(rules, "deploy", action="x") == ("deploy",)


class TestLaw:
    @given(
        tool=st.sampled_from(["bash", "db", "rm", "", "x.y"]),
        fields=st.dictionaries(
            st.sampled_from(["command", "action", "query"]),
            st.one_of(st.none(), st.integers(), st.text("rm cp/.", max_size=8)),
        ),
    )
    def test_names_are_distinct_and_end_with_the_own(self, tool: str, fields: dict[str, object]) -> None:
        """G-50: the tool's own name always comes last, so that a rule on it applies."""
        rules = compile_rules(
            "map bash.command rm as rm\nmap bash.command /./ as any\nmap db.query cp as db.cp\n"
            "block any\nblock rm\nblock db.cp\nblock .x"
        )
        found = names(rules, tool, **fields)
        assert found[-1] == tool
        assert len(set(found)) == len(found)
