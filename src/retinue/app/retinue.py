"""The app object: everything that runs agents in this process, opened and closed together.

Every surface is a thin skin on it. `retinue.app.build` names the adapters.
"""

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict, Unpack

from retinue.app.build import Parts, build
from retinue.app.catalog import CatalogHolder
from retinue.app.projects import Given
from retinue.app.settings import Settings
from retinue.definition.code import CodeAgent
from retinue.ports.clock import Clock
from retinue.ports.model import Models
from retinue.ports.store import Store
from retinue.ports.tool import Tool
from retinue.runtime.deps import Tuning
from retinue.runtime.engine import Engine
from retinue.runtime.follow import Followed, Happened
from retinue.runtime.hooks import Hook
from retinue.schema.agent import AgentDefinition, Budget
from retinue.schema.completion import Completion
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.threads import Pin
from retinue.schema.ids import DEFAULT_TENANT, Tenant, ThreadId
from retinue.schema.message import Part
from retinue.schema.thread import People
from retinue.storage.sqlite import Database


class Wishes(TypedDict, total=False):
    """What a run takes beside its agent and message."""

    inputs: Mapping[str, object] | None
    model: str | None
    people: People
    budget: Budget | None


class Retinue:
    """Runs agents durably in this process.

    Args:
        agents: Agents defined in code, beside those of files and repositories.
        tools: Python functions that any agent may be offered.
        models: Replaces the configured providers; `ScriptedModels` for tests.
        hooks: Python hooks that definitions name.
        data_dir: Where the database and the threads' files are; the user's folder otherwise.
        settings: Read from the user's and the project's files when not given.
        workspace: The folder agents work in; the current one otherwise.
        drive: Whether this process runs threads, or only speaks to those another one runs.
        wrap_store: Puts something around the store: counting, tracing, faults.
    """

    def __init__(
        self,
        *,
        agents: Iterable[AgentDefinition | CodeAgent] = (),
        tools: Iterable[Tool] = (),
        models: Models | None = None,
        hooks: Iterable[Hook] = (),
        data_dir: str | Path | None = None,
        settings: Settings | None = None,
        workspace: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        tuning: Tuning | None = None,
        drive: bool = True,
        wrap_store: Callable[[Store], Store] = lambda store: store,
    ) -> None:
        given = Given(
            agents=tuple(agents),
            tools=tuple(tools),
            models=models,
            hooks=tuple(hooks),
            environ=dict(os.environ if environ is None else environ),
            tuning=tuning or Tuning(),
        )
        self._parts = Parts(
            given=given,
            data_dir=Path(data_dir) if data_dir is not None else None,
            settings=settings,
            clock=clock,
            drive=drive,
            wrap_store=wrap_store,
        )
        self.workspace = str(Path(workspace or ".").resolve())

    async def __aenter__(self) -> Self:
        self._built = await build(self._parts)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._built.close()

    @property
    def engine(self) -> Engine:
        """The runtime's face: start, send, answer, follow, fork, interrupt."""
        return self._built.engine

    @property
    def settings(self) -> Settings:
        return self._built.own.settings

    @property
    def catalog(self) -> CatalogHolder:
        return self._built.own.catalog

    @property
    def database(self) -> Database:
        return self._built.database

    @property
    def data(self) -> Path:
        """The folder of the database and the threads' files."""
        return self._built.database.path.parent

    @property
    def environ(self) -> Mapping[str, str]:
        """Where `env(NAME)` of settings is looked up."""
        return self._parts.given.environ

    @property
    def driven(self) -> int:
        """How many threads are being driven here at this moment."""
        return self._built.dispatcher.active

    def pin(self, agent: str, tenant: str = DEFAULT_TENANT) -> Pin:
        """The definition that a name means to a tenant now."""
        return self._built.own.agents.pin(agent, tenant)

    async def start(
        self,
        agent: str,
        message: str | Sequence[Part],
        *,
        inputs: Mapping[str, object] | None = None,
        model: str | None = None,
        workspace: str | None = None,
        people: People = "wait",
        budget: Budget | None = None,
        max_depth: int | None = None,
        env: Mapping[str, str] | None = None,
        tenant: Tenant = DEFAULT_TENANT,
        id: ThreadId | None = None,
        message_id: str | None = None,
    ) -> ThreadId:
        """Start a thread and return at once; it is durable and will run."""
        return await self.engine.start(
            self.pin(agent, tenant),
            message,
            inputs=inputs,
            model=model,
            workspace=workspace or self.workspace,
            people=people,
            budget=budget,
            max_depth=max_depth,
            env=env,
            tenant=tenant,
            id=id,
            message_id=message_id,
        )

    async def run(self, agent: str, message: str | Sequence[Part], **wishes: Unpack[Wishes]) -> Completion:
        """Start a thread and wait for its completion."""
        thread = await self.start(agent, message, **wishes)
        return await self.engine.wait(thread)

    async def stream(
        self, agent: str, message: str | Sequence[Part], **wishes: Unpack[Wishes]
    ) -> AsyncGenerator[Followed]:
        """Start a thread and yield its events and deltas until its run is over, children included."""
        thread = await self.start(agent, message, **wishes)
        async for item in self.engine.follow(thread, tree=True):
            yield item
            if (
                isinstance(item, Happened)
                and item.thread == thread
                and isinstance(item.event, RunCompleted | RunFailed)
            ):
                return

    async def idle(self, seconds: float = 5.0) -> bool:
        """Wait until nothing is being driven here any more."""
        return await self._built.dispatcher.idle(seconds)
