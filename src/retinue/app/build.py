"""The composition root: the only place that names adapters."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from retinue.app.agents import CatalogAgents
from retinue.app.catalog import CatalogHolder, open_catalog
from retinue.app.clock import SystemClock
from retinue.app.mcp import Mcp
from retinue.app.models import models_of
from retinue.app.project_tools import project_tool_files
from retinue.app.remotes import RemoteAgents
from retinue.app.seal import Seal
from retinue.app.settings import Settings, secret_name
from retinue.app.settings_file import home_folder, load_settings
from retinue.app.trust import read_trust
from retinue.definition.code import CodeAgent
from retinue.dispatch.local import LocalDispatcher
from retinue.models.provider import from_environment
from retinue.models.resolve import ProviderModels
from retinue.net.settings import NetworkSettings
from retinue.policy.redact import Redactor
from retinue.policy.rules import Tier
from retinue.ports.clock import Clock
from retinue.ports.model import Models
from retinue.ports.store import Store
from retinue.ports.tool import Tool
from retinue.runtime.context import ContextCache
from retinue.runtime.deps import Runtime, Tuning
from retinue.runtime.engine import Engine
from retinue.runtime.hooks import Hook, Hooks
from retinue.runtime.live import Live, Tap
from retinue.sandbox.limits import Limits
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import SettingsError
from retinue.schema.ids import ThreadId
from retinue.schema.permission import Rule
from retinue.storage.lock import DriverLock
from retinue.storage.sqlite import Database, open_database
from retinue.tools import arguments, output
from retinue.tools.settings import ToolSettings
from retinue.tools.table import BuiltinTools


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a caller of `Retinue` gave; everything else comes from settings."""

    agents: tuple[AgentDefinition | CodeAgent, ...] = ()
    tools: tuple[Tool, ...] = ()
    models: Models | None = None
    hooks: tuple[Hook, ...] = ()
    data_dir: Path | None = None
    settings: Settings | None = None
    environ: Mapping[str, str]
    clock: Clock | None = None
    tuning: Tuning | None = None
    drive: bool = True
    wrap_store: Callable[[Store], Store] = lambda store: store


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    settings: Settings
    database: Database
    catalog: CatalogHolder
    agents: CatalogAgents
    engine: Engine
    dispatcher: LocalDispatcher
    lock: DriverLock
    providers: ProviderModels
    mcp: Mcp
    remotes: RemoteAgents
    takeover: asyncio.Task[None] | None

    async def idle(self, seconds: float) -> bool:
        return await self.dispatcher.idle(seconds)

    async def close(self) -> None:
        if self.takeover is not None:
            self.takeover.cancel()
        await self.dispatcher.stop()
        await self.mcp.close()
        await self.remotes.close()
        await self.providers.close()
        await self.catalog.close()
        await self.database.close()
        self.lock.release()


async def build(parts: Parts) -> Built:
    settings = parts.settings or load_settings(environ=parts.environ, trusted=read_trust(home_folder(parts.environ)))
    data = parts.data_dir or Path(settings.database).parent
    data.mkdir(parents=True, exist_ok=True)
    clock = parts.clock or SystemClock()
    database = await open_database(data / Path(settings.database).name, clock=clock)
    catalog = await open_catalog(
        settings,
        environ=parts.environ,
        code=[_definition(a) for a in parts.agents],
        records=database.records,
    )
    store, seal = parts.wrap_store(database.store), Seal(data / "secret.key")
    remotes = RemoteAgents(settings, parts.environ)
    agents, providers = CatalogAgents(catalog, remotes.described), models_of(settings, parts.environ)
    mcp = Mcp(settings, parts.environ)
    runtime = Runtime(
        store=store,
        models=remotes.models(parts.models or providers),
        toolbox=mcp.toolbox(_toolbox(parts, settings, database, clock, data)),
        clock=clock,
        agents=agents,
        check=arguments.check,
        bound=output.bound,
        contexts=ContextCache(),
        live=Live(),
        hooks=Hooks({hook.id: hook for hook in parts.hooks}),
        memory=database.memory,
        grants=database.grants,
        files=_files(data),
        tiers=tuple(Tier(t.name, t.settings.permissions.rules) for t in settings.tiers if t.settings.permissions.rules),
        variables=settings.variables,
        seal=seal.seal,
        unseal=seal.unseal,
        sandbox=settings.sandbox.mode,
        shell_network=settings.sandbox.network or settings.sandbox.mode == "off",
        protected=_protected(settings, data),
        hosts=_hosts(settings),
        redact=Redactor(_secrets(settings, parts.environ)),
        tuning=parts.tuning or Tuning(),
    )
    runtime.live.taps.append(remotes.tap)
    if settings.telemetry.enabled:
        runtime.live.taps.append(_telemetry(settings, runtime.redact))
    engine = Engine(runtime)
    engine.drives = parts.drive
    dispatcher = LocalDispatcher(
        store,
        clock,
        owner=f"{os.getpid()}-{clock.new_id()[:8]}",
        run=engine.run,
        look=engine.look,
        lease=runtime.tuning.lease,
    )
    lock = DriverLock(data / "driver.lock")
    return Built(
        settings=settings,
        database=database,
        catalog=catalog,
        agents=agents,
        engine=engine,
        dispatcher=dispatcher,
        lock=lock,
        providers=providers,
        mcp=mcp,
        remotes=remotes,
        takeover=_drive(engine, dispatcher, lock) if parts.drive else None,
    )


def _drive(engine: Engine, dispatcher: LocalDispatcher, lock: DriverLock) -> asyncio.Task[None] | None:
    """Drive at once if nobody does; else take over when whoever does is gone."""
    if lock.try_acquire():
        dispatcher.start()
        return None
    engine.drives = False

    async def take_over() -> None:
        if await lock.wait():
            engine.drives = True
            dispatcher.start()

    return asyncio.create_task(take_over())


def _definition(agent: AgentDefinition | CodeAgent) -> AgentDefinition:
    """Tools that came with an agent in code are its author's word: no rule need allow them again."""
    if isinstance(agent, AgentDefinition):
        return agent
    given = tuple(
        Rule(tool=tool.spec.name, verdict="allow", reason="given with the agent in code") for tool in agent.tools
    )
    permissions = msgspec.structs.replace(
        agent.definition.permissions, rules=(*given, *agent.definition.permissions.rules)
    )
    return msgspec.structs.replace(agent.definition, permissions=permissions)


def _toolbox(parts: Parts, settings: Settings, database: Database, clock: Clock, data: Path) -> BuiltinTools:
    given = [
        *parts.tools,
        *(tool for a in parts.agents if isinstance(a, CodeAgent) for tool in a.tools if isinstance(tool, Tool)),
    ]
    sandbox = settings.sandbox
    limits = Limits(seconds=sandbox.timeout or 120.0)
    return BuiltinTools(
        memory=database.memory,
        clock=clock,
        settings=ToolSettings(
            limits=limits,
            sandbox_network=sandbox.network,
            hidden=tuple(str(data / name) for name in (Path(settings.database).name, "secret.key")),
            protected=_protected(settings, data),
            network=NetworkSettings(hosts=_hosts(settings)),
            search_url=settings.tools.search_url,
            checkers=settings.tools.checkers,
        ),
        functions={tool.spec.name: tool for tool in given},
        project=lambda workspace: project_tool_files(settings.home, workspace),
    )


def _hosts(settings: Settings) -> frozenset[str]:
    return frozenset(host for file in settings.trusted for host in file.network.allow)


def _telemetry(settings: Settings, redact: Callable[[str], str]) -> Tap:
    try:
        from retinue.app.telemetry import telemetry
    except ImportError as error:
        hint = "pip install 'retinue[telemetry]', and the SDK that exports"
        raise SettingsError(f"telemetry is on and {error.name} is not installed", hint=hint) from error
    return telemetry(content=settings.telemetry.content, redact=redact)


def _protected(settings: Settings, data: Path) -> tuple[str, ...]:
    """What decides over agents, and their data: none of it is theirs to change."""
    home = ("agents", "tools", "mirrors", "trust.json", "repositories.json")
    own = (Path(settings.database).name, "secret.key", "driver.lock")
    return tuple(str(path) for path in (*(settings.home / n for n in home), *(data / n for n in own)))


def _secrets(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Values of every variable that settings or well-known providers name as a secret."""
    named = {config.key for config in from_environment(environ) if isinstance(config.key, str)}
    named |= {name for p in settings.providers.values() if p.key and (name := secret_name(p.key))}
    texts = (text for r in settings.repositories for text in r.fields.values() if isinstance(text, str))
    named |= {name for text in texts if (name := secret_name(text))}
    return {name: environ[name] for name in named if environ.get(name)}


def _files(data: Path) -> Callable[[ThreadId], Path]:
    def folder(thread: ThreadId) -> Path:
        path = data / "threads" / thread
        path.mkdir(parents=True, exist_ok=True)
        return path

    return folder
