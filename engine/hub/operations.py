"""Declaration of an API's methods: the right that each needs, and how a server offers it.

A server's handlers, its clients, its documentation and read-only consoles are derived from declarations.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from ..core.rights import Rights

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


class Api(ABC):  # noqa: B024 - operations become abstract by being declared
    """Base class of APIs; a class that lacks a declared operation cannot be instantiated."""


class NotSent:
    """Annotation of a parameter that is not sent to a server; the server sets it itself."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A declared method. One without `wire_name` is not part of the protocol.

    With `may_repeat` a client sends it again if the connection is lost before the answer. A change that
    loosens something is not repeated: that could undo what somebody else has changed since. An operation
    that `waits` is answered when a model has replied. `done` is the participle for an `Outcome` that
    failed.
    """

    function: Callable[..., object]
    needs: Rights
    wire_name: str = ""
    done: str = ""
    may_repeat: bool = True
    waits: bool = False

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.function.__name__

    @property
    def changes(self) -> bool:
        """Return whether it changes something."""
        return self.needs != "look"

    @property
    def is_job(self) -> bool:
        """Return whether its answer comes in parts, from a generator."""
        return not inspect.iscoroutinefunction(self.function)

    @property
    def doc(self) -> str:
        """Description for clients: the docstring without its paragraph on exceptions."""
        paragraphs = (inspect.getdoc(self.function) or "").split("\n\n")
        return "\n\n".join(each for each in paragraphs if not each.startswith("Raises "))


def remote(
    wire_name: str,
    needs: Rights = "look",
    *,
    done: str = "",
    may_repeat: bool = True,
    waits: bool = False,
) -> Callable[[FunctionT], FunctionT]:
    """Declare an abstract method that a server offers under `wire_name`."""

    def declare(function: FunctionT) -> FunctionT:
        return _declared(function, Operation(function, needs, wire_name, done, may_repeat, waits))

    return declare


def query(function: FunctionT) -> FunctionT:
    """Declare an abstract method that changes nothing and is not part of the protocol."""
    return _declared(function, Operation(function, "look"))


def local(function: FunctionT) -> FunctionT:
    """Declare an abstract method that changes something in this process only."""
    return _declared(function, Operation(function, "administer"))


def _declared(function: FunctionT, operation: Operation) -> FunctionT:
    function.__dict__["operation"] = operation
    return abstractmethod(function)


@cache
def operations(api: type) -> Mapping[str, Operation]:
    """Return the operations that an API declares, properties included, by name."""
    found: dict[str, Operation] = {}
    for base in reversed(api.__mro__):
        for name, declared in vars(base).items():
            function = declared.fget if isinstance(declared, property) else declared
            operation = getattr(function, "operation", None)
            if isinstance(operation, Operation):
                found[name] = operation
    return found
