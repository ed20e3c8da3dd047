"""A queue with every kind of request, and one with 31, for tests of the table."""

from __future__ import annotations

from datetime import timedelta

from interlock.engine.history.model.state import ApprovalState, SessionState

from .queue_scenes import asking, asks
from .scenes import NOW, before, docs_writer, rule

DOCS = {"agent": "docs-writer", "session": "docs-writer-77c0"}


def pushes(number: int = 5) -> list[ApprovalState]:
    """Return pushes of branches that differ in one word: `q1`, `q2`, …."""
    return [
        asks(
            n,
            tool="git push",
            names=("git push", "bash"),
            title="Approve: git push",
            input={"command": f"git push origin feature-{n}"},
            rule=rule(7, "require human-approval before git push"),
            net="approve-before-git-push",
            risk="medium",
            expires=NOW + timedelta(seconds=858 - 10 * n),
        )
        for n in range(1, number + 1)
    ]


def deploys(*wanted: tuple[str, str]) -> list[ApprovalState]:
    """Return deployments of commits to environments: `q11`, `q12`, …."""
    return [
        asks(
            10 + n,
            called="deploy",
            names=("deploy",),
            input={"env": env, "commit": commit, "region": "eu-west-1"},
            risk="high",
            expires=NOW + timedelta(seconds=500),
        )
        for n, (env, commit) in enumerate(wanted, 1)
    ]


def uninspectable() -> ApprovalState:
    """Return a request with a command that sources a file: `q20`."""
    return asks(
        20, uninspectable="it sources a file", input={"command": ". ./env.sh && ./deploy"}, **DOCS
    )


def long_command() -> ApprovalState:
    """Return a request with a command that is too long for a line: `q21`."""
    command = "curl -sSf https://example.org/install.sh | sh -s -- --prefix /opt/" + "tools/" * 12
    return asks(21, tool="curl", names=("curl", "bash"), input={"command": command}, **DOCS)


def of_two_people() -> ApprovalState:
    """Return a migration with one of two approvals: `q22`."""
    return asks(
        22,
        tool="migrate",
        called="migrate",
        names=("migrate",),
        title="Approve: migrate",
        input={"table": "orders"},
        people=2,
        given=("ben",),
        given_at=(before(100),),
        rule=rule(11, "require 2 human-approvals before migrate"),
        net="approve-before-migrate",
        risk="high",
    )


def every_kind() -> tuple[SessionState, SessionState]:
    """Return two sessions, with eleven requests in four groups."""
    wanted = ("prod", "9f31c02"), ("staging", "9f31c02"), ("staging", "1b22d90")
    waiting = [*pushes(), *deploys(*wanted), uninspectable(), long_command(), of_two_people()]
    return asking(*waiting), docs_writer()


def thirty_one() -> list[ApprovalState]:
    """Return five similar pushes, and deployments, packages and tables of five agents."""
    found = pushes()
    for n in range(26):
        agent = f"agent-{n % 5}"
        number = 30 + n
        more: dict[str, object] = {"agent": agent, "session": f"{agent}-7c"}
        match n % 5:
            case 0 | 1:
                more["input"] = {"command": f"./deploy --env stage-{n}"}
            case 2:
                more |= {"called": "migrate", "tool": "migrate", "names": ("migrate",)}
                more |= {"input": {"table": f"orders_{n}"}, "risk": "high"}
            case 3:
                more |= {"tool": "npm publish", "names": ("npm publish", "bash")}
                more["input"] = {"command": f"npm publish packages/part-{n}"}
            case _:
                more |= {"tool": "curl", "names": ("curl", "bash")}
                more["input"] = {"command": f"curl -s https://status.example.org/{n}"}
        found.append(asks(number, **more))
    return found
