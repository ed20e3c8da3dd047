"""Conversion between a Python callable's arguments and the input object that nets judge.

The gate must see what will run, however it is passed: positional arguments get their names, and omitted
ones their defaults. An input that an operator edited is converted back into arguments.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias, cast

from ...net.net import Input

Arguments: TypeAlias = tuple[tuple[object, ...], dict[str, object]]

CALL_ID = "tool_call_id"

_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_KEYWORDS = inspect.Parameter.VAR_KEYWORD
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _named_reader(parameters: Sequence[inspect.Parameter]) -> Callable[..., dict[str, object]]:
    """Create a function with these parameters that returns their values by name.

    Python binds the arguments, in 0.2 µs for one of them. The generated source contains only parameter
    names, which `Parameter` has checked to be identifiers.
    """
    defaults: dict[str, object] = {}
    declared: list[str] = []
    for number, parameter in enumerate(parameters):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in declared:
            declared.append("*")
        if parameter.default is parameter.empty:
            declared.append(parameter.name)
        else:
            defaults[f"default_{number}"] = parameter.default
            declared.append(f"{parameter.name}=default_{number}")
    values = ", ".join(f"{parameter.name!r}: {parameter.name}" for parameter in parameters)
    reader = eval(f"lambda {', '.join(declared)}: {{{values}}}", defaults)
    return cast("Callable[..., dict[str, object]]", reader)


class CallableInput:
    """Reads and writes the input of one callable.

    `whole` callables take the input object itself as their first argument, like a tool object's
    `execute`; further arguments are passed on. Parameters named in `ignore` are not part of the input and
    are passed on unchanged. Raises `TypeError` for a callable whose parameters cannot be determined,
    because its calls could not be judged.
    """

    def __init__(
        self,
        tool: str,
        function: Callable[..., object],
        *,
        whole: bool,
        ignore: Collection[str] = (),
    ) -> None:
        try:
            self._signature = inspect.signature(function)
        except ValueError as unknown:
            raise TypeError(f"Tool '{tool}': the parameters of {function!r} cannot be read") from unknown
        self._tool = tool
        self._whole = whole
        parameters = self._signature.parameters.values()
        self._names = {p.name for p in parameters if p.kind not in (_POSITIONAL, _KEYWORDS)}
        self._extra = next((p.name for p in parameters if p.kind is _KEYWORDS), None)
        self._rest = next((p.name for p in parameters if p.kind is _POSITIONAL), None)
        # A tool that declares a parameter for the call's id gets it, as it would without a gate.
        self.takes_call_id = CALL_ID in self._names
        self.ignored = self._names & set(ignore)
        judged = [n for n, name in enumerate(self._signature.parameters) if name not in self.ignored]
        self.input_index = judged[0] if judged else 0
        """Position of a `whole` callable's input object."""
        # True if every parameter has a name and the input contains all of them.
        named = not whole and not self.takes_call_id and all(p.kind in _NAMED for p in parameters)
        self._by_name = _named_reader([*parameters]) if named else None
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}

    def read(self, arguments: Arguments) -> Input:
        """Input that these arguments represent. Raises `TypeError` if they do not fit the callable."""
        if self._by_name is not None:
            args, kwargs = arguments
            try:
                named = self._by_name(*args, **kwargs)
            except TypeError:
                pass  # lets `Signature` raise its own error
            else:
                return self._judged(named) if self.ignored else named
        bound = self._bind(arguments)
        if self._whole and (whole := self._whole_name(bound)) is not None:
            first: object = bound.arguments[whole]
            if first is None:
                return {}
            if isinstance(first, Mapping):
                return cast("Mapping[str, object]", first)
        bound.apply_defaults()
        given = dict(bound.arguments)
        if self._extra is not None:
            given.update(given.pop(self._extra))
        if self._rest is not None and not given[self._rest]:
            del given[self._rest]
        if self.takes_call_id:
            given.pop(CALL_ID, None)
        return self._judged(given)

    def _judged(self, named: dict[str, object]) -> Input:
        """Arguments without the ignored ones."""
        for name in self.ignored:
            named.pop(name, None)
        return named

    def _whole_name(self, bound: inspect.BoundArguments) -> str | None:
        """Parameter that has the input object: the first that is not ignored."""
        return next((name for name in bound.arguments if name not in self.ignored), None)

    def write(self, value: Input, arguments: Arguments | None = None) -> Arguments:
        """Arguments that represent the input `value`; ignored arguments are kept from `arguments`.

        Raises `TypeError` for a name that the callable does not accept.
        """
        kept: dict[str, object] = {}
        if arguments is not None:
            bound = self._bind(arguments)
            whole = self._whole_name(bound) if self._whole else None
            if whole is not None and isinstance(bound.arguments[whole], Mapping | None):
                bound.arguments[whole] = value
                return bound.args, bound.kwargs
            own = self.ignored | {CALL_ID} if self.takes_call_id else self.ignored
            kept = {name: bound.arguments[name] for name in own if name in bound.arguments}
        elif self._whole:
            return self._at_input_index(value)
        if both := sorted(self.ignored & value.keys()):
            raise TypeError(f"Tool '{self._tool}': an input cannot set '{both[0]}', which is ignored")
        named = {name: item for name, item in value.items() if name in self._names}
        more = {n: item for n, item in value.items() if n not in self._names and n != self._rest}
        if more and self._extra is None:
            raise TypeError(f"Tool '{self._tool}' takes no argument '{next(iter(more))}'")
        if self._extra is not None:
            named[self._extra] = more
        if self._rest is not None:
            named[self._rest] = value.get(self._rest, ())
        ordered = {**named, **kept}
        in_order = OrderedDict((n, ordered[n]) for n in self._signature.parameters if n in ordered)
        rebuilt = inspect.BoundArguments(self._signature, in_order)
        return rebuilt.args, rebuilt.kwargs

    def _at_input_index(self, value: Input) -> Arguments:
        """Arguments with the input object in its position, after defaults for ignored parameters."""
        before = list(self._signature.parameters)[: self.input_index]
        if missing := next((name for name in before if name not in self._defaults), None):
            raise TypeError(
                f"Tool '{self._tool}' needs '{missing}', which is not part of the input: "
                "call the tool itself"
            )
        return (*(self._defaults[name] for name in before), value), {}

    def _bind(self, arguments: Arguments) -> inspect.BoundArguments:
        args, kwargs = arguments
        return self._signature.bind(*args, **kwargs)
