"""What tests of tools share: contexts over a real folder, free or judged by the real policy."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from retinue.policy.calls import Authority, judge_target
from retinue.policy.files import Place
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
        place = Place(workspace=os.path.realpath(context.workspace), own=(os.path.realpath(context.files),))
        authority = Authority(tiers=(Tier("user", rules),), fallback="allow", place=place)
        return msgspec.structs.replace(context, judge=partial(judge_target, authority))

    return make
