"""What the loop may use: every port it needs, in one frozen value built by `app`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from retinue.policy.rules import Tier
from retinue.ports.clock import Clock
from retinue.ports.memory import Grants, Memory
from retinue.ports.model import Models
from retinue.ports.store import Store
from retinue.ports.tool import BoundResult, CheckArguments, Toolbox
from retinue.runtime.context import ContextCache
from retinue.runtime.hooks import Hooks
from retinue.runtime.live import Live
from retinue.schema.agent import SandboxMode
from retinue.schema.events.threads import Pin
from retinue.schema.ids import ThreadId


class Agents(Protocol):
    """The catalog as the loop sees it."""

    def pin(self, name: str, tenant: str = ..., /) -> Pin:
        """The agent that a tenant means by that name, ready to be pinned.

        Raises:
            AgentNotFound, AmbiguousAgent, Untrusted, DefinitionError, SourceUnavailable.
        """
        ...

    def delegates(self, tenant: str = ..., /) -> tuple[Pin, ...]:
        """Every visible agent that others may call by default (category subagent or all)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Numbers of the loop; the defaults are the product's."""

    lease: float = 30.0
    retries: int = 5
    retry_from: float = 2.0
    grace: float = 60.0
    max_depth: int = 5
    """Of a tree whose start and agents do not say; `most_depth` holds whatever they say."""
    most_depth: int | None = None
    repeated_calls: int = 3
    variables_expire: float = 24 * 3600.0
    children_at_once: int = 16
    titles: bool = True
    threads_at_once: int = 4096
    per_agent: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many threads of an agent are at work at once, by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    store: Store
    models: Models
    toolbox: Toolbox
    clock: Clock
    agents: Agents
    check: CheckArguments
    bound: BoundResult
    contexts: ContextCache
    live: Live
    hooks: Hooks
    memory: Memory
    grants: Grants
    files: Callable[[ThreadId], Path]
    """The folder of a thread's own files."""
    tiers: tuple[Tier, ...] = ()
    """Rules of operator, user and project."""
    protected: tuple[str, ...] = ()
    """Paths that no agent changes: the sources of agents, settings, data."""
    shell_network: bool = False
    """Whether commands reach the network, so that bash can send out."""
    hosts: frozenset[str] = frozenset()
    """`host:port` pairs that the operator allows although they are private."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the installation."""
    tenant_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    seal: Callable[[str], str] = lambda value: value
    """Makes a secret fit for the log; `unseal` gives it back."""
    unseal: Callable[[str], str] = lambda value: value
    sandbox: SandboxMode = "auto"
    tuning: Tuning = field(default_factory=Tuning)
    project: str = ""
    """The folder whose settings these are."""
    of: "Callable[[str], Awaitable[Runtime]] | None" = None
    """Finds what a thread of another project is driven with; None: everything is driven with this."""
    redact: Callable[[str], str] = lambda text: text
