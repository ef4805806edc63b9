"""What tests of tools share: contexts over a real folder, free or judged by the real policy."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from retinue.policy import files as policy
from retinue.policy.rules import Tier
from retinue.ports.tool import Target, ToolContext
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId, CallId, ThreadId
from retinue.schema.permission import Decision, Rule

Judged = Callable[..., ToolContext]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def _allow(target: Target) -> Decision:
    return Decision(verdict="allow", reason=f"{target.op} is allowed here")


@pytest.fixture
def context(tmp_path: Path, workspace: Path) -> ToolContext:
    """A context in which every file is allowed."""
    files = tmp_path / "files"
    files.mkdir()
    return ToolContext(
        thread=ThreadId("11111111-1111-4111-8111-111111111111"),
        call=CallId("22222222-2222-4222-8222-222222222222"),
        agent=AgentDefinition(id=AgentId("coder"), name="coder"),
        workspace=str(workspace),
        files=str(files),
        judge=_allow,
    )


@pytest.fixture
def judged(context: ToolContext) -> Judged:
    """Makes contexts in which the shipped policy decides, with these rules; all in the workspace is allowed."""

    def make(*rules: Rule) -> ToolContext:
        workspace = os.path.realpath(context.workspace)
        place = policy.Place(workspace=workspace, own=(os.path.realpath(context.files),))
        kinds: dict[str, policy.FileKind] = {"file": "regular", "folder": "folder", "absent": "missing"}

        def judge(target: Target) -> Decision:
            if target.op == "fetch":
                return Decision(verdict="deny", reason="no network here")
            found = policy.Target(
                asked=target.asked,
                real=target.path,
                kind=kinds[target.kind],
                aliases=target.names,
                unknown_links=target.more_names,
            )
            tiers = (Tier("user", rules),)
            return policy.judge_file(target.op, found, place, tiers=tiers, fallback="allow")

        return msgspec.structs.replace(context, judge=judge)

    return make
