"""An app on a folder of its own with the scripted model: what tests of agents and of Retinue itself use."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from retinue.app.retinue import Retinue
from retinue.app.settings import Settings
from retinue.definition.code import CodeAgent
from retinue.models.scripted import AnyScript, ScriptedModel, ScriptedModels
from retinue.ports.clock import Clock
from retinue.ports.store import Store
from retinue.ports.tool import Tool
from retinue.runtime.deps import Tuning
from retinue.runtime.hooks import Hook
from retinue.schema.agent import AgentDefinition
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import ThreadId

Scripts = AnyScript | ScriptedModel | Mapping[str, AnyScript | ScriptedModel] | ScriptedModels
QUICK = Tuning(titles=False, retry_from=0.01)
"""No title requests, so that a script sees only the agent's own; retries come at once."""


@asynccontextmanager
async def scripted_app(
    folder: Path,
    scripts: Scripts,
    *,
    agents: Iterable[AgentDefinition | CodeAgent] = (),
    tools: Iterable[Tool] = (),
    hooks: Iterable[Hook] = (),
    settings: Settings | None = None,
    clock: Clock | None = None,
    tuning: Tuning = QUICK,
    drive: bool = True,
    wrap_store: Callable[[Store], Store] = lambda store: store,
) -> AsyncGenerator[Retinue]:
    """An app whose data, settings and workspace lie in `folder` and nowhere else."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir(parents=True, exist_ok=True)
    workspace.mkdir(parents=True, exist_ok=True)
    async with Retinue(
        agents=agents,
        tools=tools,
        hooks=hooks,
        models=scripts if isinstance(scripts, ScriptedModels) else ScriptedModels(scripts),
        settings=settings or Settings(home=home, root=workspace),
        data_dir=home,
        workspace=workspace,
        environ={},
        clock=clock,
        tuning=tuning,
        drive=drive,
        wrap_store=wrap_store,
    ) as app:
        yield app


async def log_of(app: Retinue, thread: str | ThreadId) -> list[AnyEvent]:
    """Every event of a thread, in order."""
    return [event for _, event in await app.engine.log(ThreadId(thread))]
