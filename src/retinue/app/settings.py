"""Settings: what people write in `retinue.toml`, `.yaml` or `.json`, as frozen values.

Three files may have a say: the operator's (`/etc/retinue`), the user's (`RETINUE_HOME`,
`~/.retinue`) and the project's. Each stays a value of its own, because a project's file
came with somebody else's code: what it says about power (providers, repositories, MCP
servers, hooks, …) counts once a person trusted that file, and its permissions may only
tighten. `retinue.app.settings_file` reads the text; `retinue.app.trust` keeps the trust.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from retinue.net.settings import NetworkSettings
from retinue.schema.agent import Json, McpServer, OpenAIEndpoint, SandboxMode
from retinue.schema.permission import Rule, TierName

DEFAULT_AGENT = "coder"
Count = Annotated[int, msgspec.Meta(ge=1)]
_STRICTNESS: tuple[SandboxMode, ...] = ("off", "auto", "require")


class _Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    pass


class Price(_Section, frozen=True, kw_only=True):
    """Dollars a million tokens, for models that the price list lacks."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelSettings(_Section, frozen=True, kw_only=True):
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None


class ProviderLimits(_Section, frozen=True, kw_only=True):
    concurrency: int | None = None
    timeout: float | None = None


class ProviderSettings(_Section, frozen=True, kw_only=True):
    """One provider of models; `format` names the wire format."""

    format: str
    base_url: str | None = None
    key: str | None = None
    """`env(NAME)`, never the key itself."""
    headers: Mapping[str, str] = {}
    models: Mapping[str, ModelSettings] = {}
    default_model: str | None = None
    limits: ProviderLimits = ProviderLimits()
    mapping: Mapping[str, str] = {}
    """Another provider's model name → ours, used when this one is the fallback."""


class PermissionSettings(_Section, frozen=True, kw_only=True):
    rules: tuple[Rule, ...] = ()


class SandboxSettings(_Section, frozen=True, kw_only=True):
    mode: SandboxMode = "auto"
    network: bool = False
    readable: tuple[str, ...] = ()
    """What MCP servers' programs may read beside their workspace."""
    timeout: float = 120.0
    """Seconds for a command that names no time of its own."""
    memory_mb: int = 8192
    """Of each process."""
    processes: int = 2048


class NetworkSection(_Section, frozen=True, kw_only=True):
    allow: tuple[str, ...] = ()
    """Hosts, `host:port`, or addresses that may be reached although they are private."""
    deny: tuple[str, ...] = ()
    """Hosts, with all below them, that no tool, server or remote agent is reached at."""


class ToolsSettings(_Section, frozen=True, kw_only=True):
    search_url: str | None = None
    """A SearXNG-compatible endpoint for websearch, `https://host/search`."""
    checkers: Mapping[str, tuple[str, ...]] = {}
    """What diagnostics runs, by file pattern; `{file}` is the file."""


class ServeSettings(_Section, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8420
    hosts: tuple[str, ...] = ()
    """Names that requests may come for, beside loopback's and `host`."""
    origins: tuple[str, ...] = ()
    """Web pages of other origins that may call: `https://tools.example.com`."""
    max_body: int = 4_000_000
    rate: float = 50.0
    """Requests a second that a key may make in the long run; `burst` of them at once."""
    burst: int = 200
    request_seconds: float = 30.0
    """How long nothing may come of a request that has begun."""
    heartbeat: float = 15.0
    stream_seconds: float = 3600.0
    """How long a stream may last before its reader must come again."""
    workspaces: tuple[str, ...] = ()
    """Folders that a request may name. One with `{tenant}` in it is each tenant's own, others are `default`'s."""
    exposed: tuple[str, ...] = ()
    exposed_prefixes: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    a2a_03: bool = True
    """Whether A2A callers of protocol 0.3 are understood too."""


class LimitSettings(_Section, frozen=True, kw_only=True):
    """What may go on at once, and how deep; the rest waits, the longest first. None: the product's own."""

    threads: Count | None = None
    """At work in this process; those that wait for something do not count."""
    children: Count | None = None
    """Of one caller."""
    depth: Count | None = None
    """Of a tree of callers."""
    agents: Mapping[str, Count] = {}
    """Threads of an agent, by id."""


class TelemetrySettings(_Section, frozen=True, kw_only=True):
    """Spans and metrics go to the OpenTelemetry SDK that this process was started with."""

    enabled: bool = False
    content: bool = False
    """Also what was said: prompts, answers, arguments and outcomes."""


class AgentsSettings(_Section, frozen=True, kw_only=True):
    """S3's section: `Agents {DefaultAgentSlug, GlobalPromptVariables, Custom[]}`."""

    default_agent: str | None = None
    variables: Mapping[str, str] = {}
    custom: tuple[Json, ...] = ()


class SettingsFile(_Section, frozen=True, kw_only=True):
    """One file, as written. None means the file does not say."""

    default_agent: str | None = None
    variables: Mapping[str, str] = {}
    agents: AgentsSettings = AgentsSettings()
    agent_dirs: tuple[str, ...] = ()
    foreign_dirs: bool | None = None
    """Read the folders of other tools."""
    repositories: tuple[Json, ...] = ()
    local_repositories: bool | None = None
    """Let repositories be paths of this machine."""
    remote_agents: tuple[Json, ...] = ()
    """Definitions with `kind: remote`: A2A agents that no file describes."""
    remote_env: Mapping[str, tuple[str, ...]] = {}
    """Origin of a remote agent, `https://host` → variables that its `auth` may name as `$NAME`."""
    providers: Mapping[str, ProviderSettings] = {}
    default_model: str | None = None
    model_aliases: Mapping[str, str] = {}
    endpoints: tuple[OpenAIEndpoint, ...] = ()
    """Pairs of base_url and api_key_env_var that a definition may name."""
    permissions: PermissionSettings = PermissionSettings()
    mcp_servers: Mapping[str, McpServer] = {}
    sandbox: SandboxSettings | None = None
    network: NetworkSection = NetworkSection()
    tools: ToolsSettings | None = None
    hooks: tuple[str, ...] = ()
    """Python hooks that definitions may name, each as `module:name` of a `Hook`."""
    serve: ServeSettings | None = None
    telemetry: TelemetrySettings | None = None
    limits: LimitSettings = LimitSettings()
    env: Mapping[str, str] = {}
    """Variables of the installation, for tools and never for a model; `env(NAME)` takes the value from the process."""
    tenant_env: Mapping[str, Mapping[str, str]] = {}
    """Variables of a tenant, before those of the installation."""
    database: str | None = None
    """A path, or a `postgresql://` URL; `$RETINUE_HOME/retinue.db` when nobody says."""


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """One settings file in its place. `path` is None when there is no file."""

    name: TierName
    path: Path | None = None
    hash: str = ""
    trusted: bool = True
    settings: SettingsFile = SettingsFile()


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A configured repository, not parsed yet, and who configured it."""

    fields: Json
    origin: str
    trusted: bool


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All tiers together; the strongest comes last."""

    home: Path
    root: Path
    """The project's folder."""
    operator: Tier = Tier(name="operator")
    user: Tier = Tier(name="user")
    project: Tier = Tier(name="project", trusted=False)
    stamp: tuple[tuple[str, int, int], ...] = ()
    """Which files they were read from, and when those were written; nothing when they were made in code."""

    @property
    def tiers(self) -> tuple[Tier, Tier, Tier]:
        return (self.operator, self.user, self.project)

    @property
    def trusted(self) -> tuple[SettingsFile, ...]:
        """The files that may give power, weakest first."""
        return tuple(tier.settings for tier in self.tiers if tier.trusted)

    @property
    def default_agent(self) -> str:
        said = [tier.settings.default_agent or tier.settings.agents.default_agent for tier in self.tiers]
        return next((name for name in reversed(said) if name), DEFAULT_AGENT)

    @property
    def variables(self) -> Mapping[str, str]:
        merged: dict[str, str] = {}
        for tier in self.tiers:
            merged |= tier.settings.agents.variables
            merged |= tier.settings.variables
        return merged

    @property
    def providers(self) -> Mapping[str, ProviderSettings]:
        return {name: p for file in self.trusted for name, p in file.providers.items()}

    @property
    def model_aliases(self) -> Mapping[str, str]:
        return {name.lower(): model for file in self.trusted for name, model in file.model_aliases.items()}

    @property
    def default_model(self) -> str | None:
        return next((file.default_model for file in reversed(self.trusted) if file.default_model), None)

    @property
    def mcp_servers(self) -> Mapping[str, McpServer]:
        return {name: server for file in self.trusted for name, server in file.mcp_servers.items()}

    @property
    def hooks(self) -> tuple[str, ...]:
        return tuple(hook for file in self.trusted for hook in file.hooks)

    @property
    def sandbox(self) -> SandboxSettings:
        """What the strongest trusted file says; operator and project, trusted or not, may ask for a stricter mode."""
        chosen = next((file.sandbox for file in reversed(self.trusted) if file.sandbox), SandboxSettings())
        said = [tier.settings.sandbox for tier in (self.operator, self.project)]
        modes = [chosen.mode, *(s.mode for s in said if s is not None)]
        return msgspec.structs.replace(chosen, mode=max(modes, key=_STRICTNESS.index))

    @property
    def network(self) -> NetworkSettings:
        """Trusted files open hosts; any file closes them."""
        return NetworkSettings(
            hosts=frozenset(host for file in self.trusted for host in file.network.allow),
            denied=frozenset(host for tier in self.tiers for host in tier.settings.network.deny),
        )

    @property
    def endpoints(self) -> tuple[OpenAIEndpoint, ...]:
        return tuple(pair for file in self.trusted for pair in file.endpoints)

    @property
    def tools(self) -> ToolsSettings:
        return next((file.tools for file in reversed(self.trusted) if file.tools), ToolsSettings())

    @property
    def serve(self) -> ServeSettings:
        return next((file.serve for file in reversed(self.trusted) if file.serve), ServeSettings())

    @property
    def telemetry(self) -> TelemetrySettings:
        return next((file.telemetry for file in reversed(self.trusted) if file.telemetry), TelemetrySettings())

    @property
    def env(self) -> Mapping[str, str]:
        return {name: value for file in self.trusted for name, value in file.env.items()}

    @property
    def tenant_env(self) -> Mapping[str, Mapping[str, str]]:
        merged: dict[str, dict[str, str]] = {}
        for file in self.trusted:
            for tenant, values in file.tenant_env.items():
                merged.setdefault(tenant, {}).update(values)
        return merged

    @property
    def limits(self) -> LimitSettings:
        """The tightest of what all files say."""
        said = [tier.settings.limits for tier in self.tiers]
        agents: dict[str, int] = {}
        for limits in said:
            agents |= {id: min(most, agents.get(id, most)) for id, most in limits.agents.items()}
        return LimitSettings(
            threads=min((each.threads for each in said if each.threads), default=None),
            children=min((each.children for each in said if each.children), default=None),
            depth=min((each.depth for each in said if each.depth), default=None),
            agents=agents,
        )

    @property
    def foreign_dirs(self) -> bool:
        said = [tier.settings.foreign_dirs for tier in self.tiers]
        return next((on for on in reversed(said) if on is not None), False)

    @property
    def local_repositories(self) -> bool:
        said = [file.local_repositories for file in self.trusted]
        return next((on for on in reversed(said) if on is not None), False)

    @property
    def database(self) -> str:
        said = [file.database for file in self.trusted]
        return next((path for path in reversed(said) if path), str(self.home / "retinue.db"))

    @property
    def repositories(self) -> tuple[Repository, ...]:
        """Every configured repository; one the project's untrusted file names is listed and not used."""
        return tuple(
            Repository(fields=fields, origin=str(tier.path), trusted=tier.trusted)
            for tier in self.tiers
            for fields in tier.settings.repositories
        )


def secret_name(value: str) -> str | None:
    """The variable that `env(NAME)` names; None when `value` has another form."""
    found = re.fullmatch(r"env\(([A-Za-z_][A-Za-z0-9_]*)\)", value)
    return found.group(1) if found else None
