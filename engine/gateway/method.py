"""What a method is: its name, what it takes and gives, and what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from .tokens import Kind
from .wire import Payload

ParamsT = TypeVar("ParamsT", bound=Payload)
ResultT = TypeVar("ResultT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Method(Generic[ParamsT, ResultT]):
    """A method of the protocol. `about` is its description in the document."""

    name: str
    kind: Kind
    params: type[ParamsT]
    result: type[ResultT]
    about: str


@dataclass(frozen=True, slots=True)
class Said:
    """Something a server says by itself, and to whom."""

    name: str
    kind: Kind
    params: type[BaseModel]
    about: str
