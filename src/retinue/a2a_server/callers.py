"""Who calls, and for which agent: what every request carries from the door to the handler."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from a2a.server.context import ServerCallContext
from a2a.server.routes.common import DefaultServerCallContextBuilder
from starlette.requests import Request

from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import Tenant

SCOPE_KEY = "retinue.a2a"
"""Where the door leaves the `Call` in the ASGI scope, and the builder in the context's state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A key's name is who a caller is: their tasks stay theirs when the key is replaced."""

    tenant: Tenant
    name: str
    scopes: tuple[str, ...] = ()


Authenticate = Callable[[Request], Awaitable[Caller]]
"""Raises `retinue.web.problem.Refused` for strangers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    caller: Caller
    agent: AgentDefinition | None
    """None: the directory, where messages name the agent."""
    agents: Mapping[str, AgentDefinition]
    """All that the caller may see."""
    url: str
    """Where this was called, for cards."""


class ContextBuilder(DefaultServerCallContextBuilder):
    """Carries the `Call` from the ASGI scope into the SDK's context."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[SCOPE_KEY] = request.scope[SCOPE_KEY]
        return context


def call_of(context: ServerCallContext) -> Call:
    return context.state[SCOPE_KEY]
