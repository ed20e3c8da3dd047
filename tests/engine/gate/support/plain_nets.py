"""Random nets and rules, each made for the gate and for the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from interlock.engine import GateState, Rejection, SkillNet, ToolCall, Transition, define_skill_net
from interlock.rules import compile_rules

from .oracle import Arc, Called, Held, Marking, Plain

PLACES = ("p", "q", "r")
TOOLS = ("a", "b", "c")
MOODS = (*[None] * 8, "reject", "raise", "steal", "hook", "mapper")


@dataclass(frozen=True)
class Twice:
    """The same nets by key in both forms, with their tools and inputs."""

    real: dict[str, SkillNet]
    plain: dict[str, Plain]
    tools: tuple[str, ...]
    some_input: Callable[[Random], dict[str, Any]]


def validate(value: dict[str, Any], state: GateState | Held) -> str | None:
    """A validator that writes first and then decides, and rejects after three calls.

    In one mood it removes its net's tokens, which an author should not do and a gate must survive.
    """
    meta: dict[str, Any] = state.meta
    meta["n"] = meta.get("n", 0) + 1
    if value.get("mood") == "raise":
        raise OSError("gone")
    if value.get("mood") == "reject":
        return "no"
    if value.get("mood") == "steal":
        state.marking = dict.fromkeys(state.marking, 0)
    return "too often" if meta["n"] > 3 else None


def hook(value: dict[str, Any], state: GateState | Held) -> None:
    meta: dict[str, Any] = state.meta
    meta["h"] = meta.get("h", 0) + 1
    if value.get("mood") == "hook":
        raise OSError("gone")


def also_known_as(tool: str, value: dict[str, Any]) -> list[str]:
    """Return the names in the call's input and the tool's own."""
    return list(dict.fromkeys([*value.get("also", ()), tool]))


def real_names(call: ToolCall) -> list[str]:
    return also_known_as(call.tool_name, dict(call.input))


def mapped(names: dict[str, str], tool: str, value: dict[str, Any]) -> str:
    if value.get("mood") == "mapper":
        raise OSError("gone")
    return names.get(tool, tool)


def real_validator(
    call: ToolCall, _name: str, _transition: Transition, state: GateState
) -> Rejection | None:
    reason = validate(dict(call.input), state)
    return None if reason is None else Rejection(reason)


def real_hook(call: ToolCall, _name: str, _transition: Transition, state: GateState) -> None:
    hook(dict(call.input), state)


def some(random: Random, choices: Sequence[str], most: int, least: int = 0) -> tuple[str, ...]:
    return tuple(random.choices(choices, k=random.randint(least, most)))


def any_arc(random: Random, number: int) -> Arc:
    """Return any transition; a structural one adds no tokens, so every net comes to rest."""
    tools = tuple(dict.fromkeys(some(random, TOOLS, 2)))
    inputs = some(random, PLACES, 2, least=0 if tools else 1)
    return Arc(
        f"t{number}",
        inputs,
        some(random, PLACES, 3 if tools else len(inputs)),
        tools,
        manual=bool(tools) and random.random() < 0.4,
        deferred=bool(tools) and random.random() < 0.4,
        transfers=((random.choice(PLACES), random.choice(PLACES)),) if random.random() < 0.3 else (),
    )


def transition(arc: Arc) -> Transition:
    return Transition(
        arc.name,
        arc.inputs,
        arc.outputs,
        arc.tools,
        type="manual" if arc.manual else "auto",
        deferred=arc.deferred,
        transfers=arc.transfers,
    )


def hand_built(random: Random) -> Twice:
    """One to three nets of one to five transitions, some with callbacks or mappers."""
    real: dict[str, SkillNet] = {}
    plain: dict[str, Plain] = {}
    for key in [f"n{number}" for number in range(random.randint(1, 3))]:
        made = tuple(any_arc(random, number) for number in range(random.randint(1, 5)))
        start = {place: random.randint(0, 3) for place in PLACES}
        free = some(random, TOOLS, 1)
        validates, hooks = random.random() < 0.4, random.random() < 0.5
        naming = random.choice(["own", "many", "many", "mapper"])
        names = {tool: random.choice(TOOLS) for tool in some(random, TOOLS, 2)}

        def called_names(
            called: Called, naming: str = naming, names: dict[str, str] = names
        ) -> Sequence[str]:
            if naming == "mapper":
                return [mapped(names, called.tool, called.input)]
            return also_known_as(called.tool, called.input if naming == "many" else {})

        def mapper(call: ToolCall, names: dict[str, str] = names) -> str:
            return mapped(names, call.tool_name, dict(call.input))

        real[key] = define_skill_net(
            key,
            places=PLACES,
            transitions=[transition(arc) for arc in made],
            initial_marking=start,
            free_tools=free,
            tool_mapper=mapper if naming == "mapper" else None,
            call_names=real_names if naming == "many" else None,
            validate_tool_call=real_validator if validates else None,
            on_deferred_result=real_hook if hooks else None,
        )
        plain[key] = Plain(
            key,
            start,
            made,
            free,
            called_names,
            naming == "mapper",
            (lambda called, held: validate(called.input, held)) if validates else None,
            (lambda called, held: hook(called.input, held)) if hooks else None,
        )

    def some_input(random: Random) -> dict[str, Any]:
        also = dict.fromkeys(some(random, (*TOOLS, "other"), 1 if random.random() < 0.7 else 2))
        return {"mood": random.choice(MOODS), "also": [*also]}

    return Twice(real, plain, (*TOOLS, *TOOLS, "other"), some_input)


Rule = tuple[Any, ...]
RULE_TOOLS = ("a", "b", "bash", "git.push", "rm")
WORDS = ("rm", "cp", "go")


def any_rule(random: Random) -> Rule:
    one, two = random.sample(RULE_TOOLS, 2)
    match random.choice(["require", "require", "approve", "limit", "limit", "block"]):
        case "require":
            return ("require", one, two)
        case "approve":
            return ("approve", one)
        case "limit":
            return ("limit", one, random.randint(1, 3), random.choice(["session", two]))
        case _:
            return ("block", random.choice(["git.push", "rm"]))


def written(rule: Rule) -> str:
    match rule:
        case ("require", first, then):
            return f"require {first} before {then}"
        case ("approve", tool):
            return f"require human-approval before {tool}"
        case ("limit", tool, count, scope):
            return f"limit {tool} to {count} per {scope}"
        case _:
            return f"block {rule[1]}"


def table(rule: Rule) -> tuple[str, Marking, list[Arc], str]:
    """Return name, places, transitions and reason, as the specification of the language lists them."""
    ready = ("ready",)
    match rule:
        case ("require", a, b):
            do_b = Arc(f"do-{b}", ("gate",), ready, (b,))
            do_a = Arc(f"do-{a}", ready, ("gate",), (a,), deferred=True)
            again = Arc(f"again-{a}", ("gate",), ("gate",), (a,))
            reason = f"{b} requires a successful call to {a} first."
            return f"require-{a}-before-{b}", {"gate": 0}, [do_a, again, do_b], reason
        case ("approve", b):
            approve = Arc("approve", ready, ready, (b,), manual=True)
            return f"approve-before-{b}", {}, [approve], f"{b} requires human approval."
        case ("limit", a, n, "session"):
            do = Arc(f"do-{a}", ("ready", "budget"), ready, (a,))
            reason = f"{a} has reached its limit of {n} calls per session."
            return f"limit-{a}-{n}", {"budget": n}, [do], reason
        case ("limit", a, n, r):
            do = Arc(f"do-{a}", ("ready", "budget"), ("ready", "spent"), (a,))
            refill = Arc("refill", ready, ready, (r,), deferred=True, transfers=(("spent", "budget"),))
            reason = f"{a} has reached its limit of {n} calls per {r}."
            return f"limit-{a}-{n}-per-{r}", {"budget": n, "spent": 0}, [do, refill], reason
        case _:
            a = rule[1]
            do = Arc(f"do-{a}", ("locked",), ("locked",), (a,))
            return f"block-{a}", {"locked": 0}, [do], f"{a} is blocked and cannot be called."


def compiled(random: Random) -> Twice:
    """Up to six rules, possibly repeated, with up to three maps."""
    said = [any_rule(random) for _ in range(random.randint(1, 5))]
    if random.random() < 0.3:
        said.append(random.choice(said))
    looked = [
        (random.choice(["bash", "bash", "a"]), random.choice(WORDS), random.choice(["rm", "b"]))
        for _ in range(random.randint(0, 3))
    ]
    text = "\n".join(
        [*(f"map {tool}.text {word} as {name}" for tool, word, name in looked), *map(written, said)]
    )
    dotted = any("git.push" in rule for rule in said)
    plain: dict[str, Plain] = {}
    for rule in said:
        name, places, made, reason = table(rule)
        start = Arc("start", ("idle",), ("ready",))
        key, times = name, 1
        while key in plain:
            times += 1
            key = f"{name}#{times}"
        plain[key] = Plain(
            name,
            {"idle": 1, "ready": 0, **places},
            (start, *made),
            names=names_of(looked, dotted=dotted),
            says=reason,
            asks=rule,
        )

    def some_input(random: Random) -> dict[str, Any]:
        value: dict[str, Any] = {"text": " ".join(some(random, (*WORDS, "cprm"), 2))}
        return value | ({"action": random.choice(["push", "pull", 3])} if random.random() < 0.5 else {})

    tools = ("a", "a", "b", "b", "bash", "bash", "git", "rm")
    return Twice(compile_rules(text).registry, plain, tools, some_input)


def names_of(
    looked: Sequence[tuple[str, str, str]], *, dotted: bool
) -> Callable[[Called], Sequence[str]]:
    """G-50: return every name given by maps, the dotted name and the tool's own."""

    def names(called: Called) -> Sequence[str]:
        words = str(called.input.get("text", "")).split()
        found = [name for tool, word, name in looked if called.tool == tool and word in words]
        action = called.input.get("action")
        if dotted and called.tool == "git" and isinstance(action, str):
            found.append(f"git.{action}")
        return list(dict.fromkeys([*found, called.tool]))

    return names
