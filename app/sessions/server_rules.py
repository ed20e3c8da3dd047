"""Rules of a server, which apply in every session that consoles start or resume there (G-67)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ...engine.core.rule import ApprovalRule, is_weaker_approval, people_to_loosen
from ...engine.gate.name_changes import takes_from
from ...engine.gate.types import Mode
from ...engine.history.model.records import AppliedRules
from ...engine.net.net import NetError, SkillNet
from ...rules import Problem, RuleError
from ..agents.builder import Prepared, prepare, shown_path
from ..agents.spec import AgentSpec, AgentSpecError
from ..config.rule_texts import RuleTexts, path_of
from ..flows.spec import FlowSpec, FlowSpecError

if TYPE_CHECKING:
    from ..flows.builder import PreparedFlow


class ServerRules:
    """Rules `files` of a server, possibly none, combined with the rules of its agents and flows.

    A session's own rules cannot remove or weaken the server's. If the server's `mode` is shadow, they
    block nothing anyway. The files are read only here; for `texts` even earlier, because agents may write
    the files that a working directory adds after these were checked. `applied` states who replaced the
    server's first rules by these.
    """

    def __init__(
        self,
        files: Sequence[str] = (),
        mode: Mode = "enforce",
        texts: RuleTexts | None = None,
        applied: AppliedRules | None = None,
    ) -> None:
        self._files = tuple(path_of(name) for name in files)
        self._mode: Mode = mode
        self._texts = (texts or RuleTexts()).with_files(self._files)
        self.applied = applied

    def replaced(self, files: Mapping[str, str]) -> ServerRules:
        """Return rules with these texts; a file replaces the one of the same name, in any folder.

        Raises `ValueError` for two files of the same name.
        """
        paths = {file.name: file for file in self._files}
        texts: dict[Path, str | Problem] = {}
        for name, text in files.items():
            path = paths.get(PurePath(name).name) or path_of(name)
            if path in texts:
                raise ValueError(f"two files are named {path.name}; give them different names")
            texts[path] = text
        rest = {path: text for path, text in self._texts.texts.items() if path not in self._files}
        return ServerRules([str(path) for path in texts], self._mode, RuleTexts({**rest, **texts}))

    def of_session(self, prepared: Prepared) -> Prepared:
        """Return a live session's agent under these rules, which replace the server rules it began with.

        The session's own files keep the texts that were read then. Raises `AgentSpecError`.
        """
        own = [path for path in prepared.spec.rules if path_of(path) not in prepared.server_files]
        kept = {path_of(path): prepared.texts.texts[path_of(path)] for path in own}
        texts = RuleTexts({**kept, **self._texts.texts})
        files = self._before(own)
        if not files:
            raise AgentSpecError(["it would be under no rules at all"])
        try:
            rules = texts.compile(*map(shown_path, files))
        except (RuleError, NetError) as error:
            raise AgentSpecError([str(error)]) from error
        self._check(rules.registry, AgentSpecError)
        return replace(
            prepared,
            spec=prepared.spec.model_copy(update={"rules": files}),
            rules=rules,
            texts=texts,
            server_files=frozenset(self._files),
            applied=self.applied,
        )

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files' paths."""
        return tuple(map(str, self._files))

    @property
    def texts(self) -> RuleTexts:
        """Return the texts of all files read so far."""
        return self._texts

    @cached_property
    def nets(self) -> Mapping[str, SkillNet]:
        """Return the nets of the server's files alone. Raises `RuleError` and `NetError`."""
        files = [shown_path(file) for file in self._files]
        return self._texts.compile(*files).registry if files else {}

    def sources(self) -> dict[str, str]:
        """Return the texts of the files, by path.

        Raises `RuleError` for a file that could not be read.
        """
        found: dict[str, str] = {}
        for file in self._files:
            match self._texts.texts[file]:
                case str(text):
                    found[str(file)] = text
                case problem:
                    raise RuleError([problem])
        return found

    def required(self) -> tuple[str, ...]:
        """Return the nets that are on in a session resumed here, unless operators switched them off."""
        return tuple(self.nets) if self._mode == "enforce" else ()

    def agent(self, spec: AgentSpec) -> Prepared:
        """Prepare an agent under these rules as well, all active. Raises `AgentSpecError`."""
        active = spec.active and tuple(dict.fromkeys((*spec.active, *self.nets)))
        first = spec.model_copy(update={"rules": self._before(spec.rules), "active": active})
        prepared = prepare(first, self._texts)
        self._check(prepared.rules.registry, AgentSpecError)
        return replace(prepared, server_files=frozenset(self._files), applied=self.applied)

    def flow(self, spec: FlowSpec) -> PreparedFlow:
        """Prepare a flow under these rules as well. Raises `FlowSpecError`."""
        # imports all of the flow code, which most servers never need
        from ..flows.builder import prepare_flow

        first = spec.model_copy(update={"rules": self._before(spec.rules)})
        prepared = prepare_flow(first, texts=self._texts)
        self._check(prepared.rules.registry, FlowSpecError)
        return replace(prepared, applied=self.applied)

    def check_mode(self, mode: Mode) -> None:
        """Raise `AgentSpecError` for shadow mode if a rule needs several people to be loosened."""
        guarded = [key for key, net in self.nets.items() if people_to_loosen(net.rule)]
        if self._mode == "enforce" and mode == "shadow" and guarded:
            raise AgentSpecError(
                [
                    f"mode: nothing is blocked in shadow mode, and {', '.join(guarded)} of this server "
                    "needs several people. Start in enforce mode; others can confirm shadow mode there"
                ]
            )

    def _before(self, rules: Sequence[Path]) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self._files, *rules)))

    def _check(
        self, every: Mapping[str, SkillNet], refused: Callable[[Sequence[str]], Exception]
    ) -> None:
        """Raise `refused` with every problem if the combined rules change or weaken the server's."""
        own = self.nets
        missing = [key for key, net in own.items() if key not in every or _is_weaker(every[key], net)]
        guarded = {key: net for key, net in own.items() if people_to_loosen(net.rule)}
        # Includes the server's own nets: a map in another file can give them more tools without adding
        # a net.
        conflicts = [
            f"{'a map' if key in own else key} (from {of})"
            for key, net in every.items()
            for of, default in guarded.items()
            if takes_from(net, default, own.values())
        ]
        problems: list[str] = []
        if missing:
            problems.append(
                f"rules: with these the server's own {', '.join(missing)} would be missing or weaker; "
                "leave them out"
            )
        if conflicts:
            named = ", ".join(dict.fromkeys(conflicts))
            problems.append(f"rules: these take calls from the server's own: {named}")
        if problems:
            raise refused(problems)


def _is_weaker(net: SkillNet, own: SkillNet) -> bool:
    """Return whether the compiled net of a server's own rule asks for less than that rule."""
    if not isinstance(own.rule, ApprovalRule):
        return False
    return not isinstance(net.rule, ApprovalRule) or is_weaker_approval(net.rule, own.rule)
