"""The type of the `open_app` fixture."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from retinue.app.retinue import Retinue
from retinue.ports.tool import Tool
from retinue.runtime.deps import Tuning
from retinue.runtime.hooks import Hook
from retinue.schema.agent import AgentDefinition
from retinue.testing.harness import Scripts


class OpenApp(Protocol):
    def __call__(
        self,
        scripts: Scripts,
        *,
        agents: Iterable[AgentDefinition] = ...,
        tools: Iterable[Tool] = ...,
        hooks: Iterable[Hook] = ...,
        tuning: Tuning = ...,
        drive: bool = ...,
    ) -> AbstractAsyncContextManager[Retinue]: ...
