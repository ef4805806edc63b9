"""An app on the test's own folder."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from retinue.app.retinue import Retinue
from retinue.ports.tool import Tool
from retinue.runtime.deps import Tuning
from retinue.runtime.hooks import Hook
from retinue.schema.agent import AgentDefinition
from retinue.testing.harness import QUICK, Scripts, scripted_app
from support.opening import OpenApp


@pytest.fixture
def open_app(tmp_path: Path) -> OpenApp:
    """Opens an app; opening it again is a restart."""

    def opened(
        scripts: Scripts,
        *,
        agents: Iterable[AgentDefinition] = (),
        tools: Iterable[Tool] = (),
        hooks: Iterable[Hook] = (),
        tuning: Tuning = QUICK,
        drive: bool = True,
    ) -> AbstractAsyncContextManager[Retinue]:
        return scripted_app(tmp_path, scripts, agents=agents, tools=tools, hooks=hooks, tuning=tuning, drive=drive)

    return opened
