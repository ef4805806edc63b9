"""What a thread is judged by and equipped with: the settings of the project that it was started in.

Processes of several projects share a data folder, and one of them drives the threads of all. A
thread names its project in its log. Whoever drives it uses that project's rules, catalog, tools and
models, as its settings are now: they are read again when one of their files has changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import msgspec

from retinue.app.agents import CatalogAgents
from retinue.app.catalog import CatalogHolder, open_catalog
from retinue.app.mcp import Mcp
from retinue.app.models import models_of
from retinue.app.project_tools import project_tool_files
from retinue.app.remotes import RemoteAgents
from retinue.app.seal import Seal
from retinue.app.settings import LimitSettings, Settings, secret_name
from retinue.app.settings_file import load_settings, settings_stamp
from retinue.definition.code import CodeAgent
from retinue.models.provider import from_environment
from retinue.models.resolve import ProviderModels
from retinue.policy.redact import Redactor
from retinue.policy.rules import Tier
from retinue.ports.clock import Clock
from retinue.ports.model import Models
from retinue.ports.store import Store
from retinue.ports.tool import Tool
from retinue.runtime.context import ContextCache
from retinue.runtime.deps import Runtime, Tuning
from retinue.runtime.hooks import Hook, Hooks
from retinue.runtime.live import Live, Tap
from retinue.runtime.state import State
from retinue.sandbox.limits import Limits
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import SettingsError
from retinue.schema.events.union import AnyEvent
from retinue.schema.ids import ThreadId
from retinue.schema.permission import Rule
from retinue.storage.sqlite import Database
from retinue.tools import arguments, output
from retinue.tools.settings import ToolSettings
from retinue.tools.table import BuiltinTools

_READS_EVERY = 1.0
"""Seconds for which the catalog of another project is taken to be current."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a caller of `Retinue` gave in code, for threads of every project."""

    agents: tuple[AgentDefinition | CodeAgent, ...] = ()
    tools: tuple[Tool, ...] = ()
    models: Models | None = None
    hooks: tuple[Hook, ...] = ()
    environ: Mapping[str, str]
    tuning: Tuning


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What the projects of a data folder share."""

    given: Given
    data: Path
    database: Database
    store: Store
    clock: Clock
    seal: Seal
    contexts: ContextCache = field(default_factory=ContextCache)
    live: Live = field(default_factory=Live)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    settings: Settings
    catalog: CatalogHolder
    agents: CatalogAgents
    providers: ProviderModels
    mcp: Mcp
    remotes: RemoteAgents
    runtime: Runtime
    tap: Tap

    async def close(self) -> None:
        await self.mcp.close()
        await self.remotes.close()
        await self.providers.close()
        await self.catalog.close()


class Projects:
    """The projects whose threads this process has driven, each opened when it is first needed."""

    def __init__(self, common: Common) -> None:
        self._common = common
        self._open: dict[str, Project] = {}
        self._retired: list[Project] = []
        """Opened with settings that have changed since; runs under way end with them."""
        self._read_at: dict[str, float] = {}
        self._opening = asyncio.Lock()
        self._own = ""

    async def open_own(self, settings: Settings) -> Project:
        """The project of this process; threads that name none are its, too."""
        self._own = str(settings.root)
        return await self._opened(settings)

    async def runtime(self, root: str) -> Runtime:
        """What a thread of the project is driven with.

        Raises:
            SettingsError: a file of its settings can't be read. Nothing is driven without the rules it may hold.
        """
        root = root or self._own
        if (project := self._current(root)) is not None:
            return project.runtime
        async with self._opening:
            project = self._current(root) or await self._renewed(root)
            return project.runtime

    async def close(self) -> None:
        for project in (*self._open.values(), *self._retired):
            await project.close()

    def _current(self, root: str) -> Project | None:
        """The open project, unless it must be looked at again."""
        project, clock = self._open.get(root), self._common.clock
        if project is None or (root != self._own and clock.monotonic() - self._read_at[root] > _READS_EVERY):
            return None
        return project if self._is_current(project.settings) else None

    def _is_current(self, settings: Settings) -> bool:
        """Settings that were made in code have no stamp and never change."""
        environ = self._common.given.environ
        return not settings.stamp or settings.stamp == settings_stamp(settings.home, settings.root, environ)

    async def _renewed(self, root: str) -> Project:
        before = self._open.get(root)
        if before is not None and self._is_current(before.settings):
            await before.catalog.reload()
            self._read_at[root] = self._common.clock.monotonic()
            return before
        settings = load_settings(Path(root), self._common.given.environ, is_root=True)
        if before is not None:
            user = before.settings.user
            if user.path is not None and user.path.parent != settings.home:  # given in place of the user's
                settings = msgspec.structs.replace(settings, user=user)
            self._retired.append(before)
            self._common.live.taps.remove(before.tap)
        return await self._opened(settings)

    async def _opened(self, settings: Settings) -> Project:
        root = str(settings.root)
        project = await _open(self._common, settings, self.runtime, is_own=root == self._own)
        self._common.live.taps.append(project.tap)
        self._open[root] = project
        self._read_at[root] = self._common.clock.monotonic()
        return project


async def _open(
    common: Common, settings: Settings, of: Callable[[str], Awaitable[Runtime]], *, is_own: bool
) -> Project:
    given, database, root = common.given, common.database, str(settings.root)
    catalog = await open_catalog(
        settings, environ=given.environ, code=[_definition(a) for a in given.agents], records=database.records
    )
    remotes, mcp = RemoteAgents(settings, given.environ), Mcp(settings, given.environ)
    agents, providers = CatalogAgents(catalog, remotes.described), models_of(settings, given.environ)
    runtime = Runtime(
        store=common.store,
        models=remotes.models(given.models or providers),
        toolbox=mcp.toolbox(_toolbox(common, settings)),
        clock=common.clock,
        agents=agents,
        check=arguments.check,
        bound=output.bound,
        contexts=common.contexts,
        live=common.live,
        hooks=Hooks({hook.id: hook for hook in (*map(_hook, settings.hooks), *given.hooks)}),
        memory=database.memory,
        grants=database.grants,
        files=_files(common.data),
        tiers=tuple(Tier(t.name, t.settings.permissions.rules) for t in settings.tiers if t.settings.permissions.rules),
        variables=settings.variables,
        env=_filled(settings.env, given.environ),
        tenant_env={tenant: _filled(values, given.environ) for tenant, values in settings.tenant_env.items()},
        seal=common.seal.seal,
        unseal=common.seal.unseal,
        sandbox=settings.sandbox.mode,
        shell_network=settings.sandbox.network or settings.sandbox.mode == "off",
        protected=_protected(settings, common.data),
        hosts=settings.network.hosts,
        redact=Redactor(_secrets(settings, given.environ)),
        tuning=_tuned(given.tuning, settings.limits),
        project=root,
        of=of,
    )

    def tap(state: State, events: Sequence[AnyEvent]) -> None:
        if state.thread.project == root or (is_own and not state.thread.project):
            remotes.tap(state, events)

    return Project(
        settings=settings,
        catalog=catalog,
        agents=agents,
        providers=providers,
        mcp=mcp,
        remotes=remotes,
        runtime=runtime,
        tap=tap,
    )


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


def _hook(name: str) -> Hook:
    module, _, attribute = name.partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as e:
        raise SettingsError(f"the hook {name!r} can't be loaded: {e}", hint="write module:name of a Hook") from e
    if not isinstance(found, Hook):
        raise SettingsError(f"{name!r} is {type(found).__name__}, not a Hook", hint="write module:name of a Hook")
    return found


def _toolbox(common: Common, settings: Settings) -> BuiltinTools:
    agents, data = common.given.agents, common.data
    given = [
        *common.given.tools,
        *(tool for a in agents if isinstance(a, CodeAgent) for tool in a.tools if isinstance(tool, Tool)),
    ]
    sandbox = settings.sandbox
    return BuiltinTools(
        memory=common.database.memory,
        clock=common.clock,
        settings=ToolSettings(
            limits=Limits(seconds=sandbox.timeout, memory=sandbox.memory_mb * 2**20, processes=sandbox.processes),
            sandbox_network=sandbox.network,
            hidden=tuple(str(data / name) for name in (Path(settings.database).name, "secret.key")),
            protected=_protected(settings, data),
            network=settings.network,
            search_url=settings.tools.search_url,
            checkers=settings.tools.checkers,
        ),
        functions={tool.spec.name: tool for tool in given},
        project=lambda workspace: project_tool_files(settings.home, workspace),
    )


def _filled(values: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables with `env(NAME)` replaced; one that the process does not have is not there."""
    found = {name: environ.get(source) if (source := secret_name(value)) else value for name, value in values.items()}
    return {name: value for name, value in found.items() if value is not None}


def _tuned(tuning: Tuning, limits: LimitSettings) -> Tuning:
    return replace(
        tuning,
        threads_at_once=limits.threads or tuning.threads_at_once,
        children_at_once=limits.children or tuning.children_at_once,
        most_depth=limits.depth or tuning.most_depth,
        per_agent={**tuning.per_agent, **limits.agents},
    )


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
        if not path.is_dir():  # asked for every run, and making one that is there costs three times as much
            path.mkdir(parents=True, exist_ok=True)
        return path

    return folder
