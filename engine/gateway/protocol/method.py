"""A method of the protocol: its name, parameters, result, description and required kind of token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from ...core.rights import Needs
from .framing import Payload
from .tokens import Kind

ParamsT = TypeVar("ParamsT", bound=Payload)
ResultT = TypeVar("ResultT", bound=BaseModel)
ParamsT_co = TypeVar("ParamsT_co", bound=Payload, covariant=True)
ResultT_co = TypeVar("ResultT_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True, slots=True)
class Method(Generic[ParamsT_co, ResultT_co]):
    """A method of the protocol and the kind of token it `needs`. `about` describes it in the document."""

    name: str
    needs: Needs
    params: type[ParamsT_co]
    result: type[ResultT_co]
    about: str

    @property
    def kind(self) -> Kind:
        """Kind of client whose tokens may call the method."""
        return "agent" if self.needs == "agent" else "operator"


@dataclass(frozen=True, slots=True)
class NoticeType:
    """A notice sent by a server, and the kind of client that receives it."""

    name: str
    kind: Kind
    params: type[BaseModel]
    about: str
