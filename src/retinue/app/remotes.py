"""Remote A2A agents in the app: models that speak to them, what callers are told, and cancels that travel.

Nothing of the SDK is loaded before the first remote agent is asked.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from retinue.app.settings import Settings
from retinue.policy.network import same_origin
from retinue.ports.model import Candidate, Models
from retinue.runtime.state import State
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import SettingsError
from retinue.schema.events.runs import RunCompleted, RunFailed
from retinue.schema.events.union import AnyEvent
from retinue.schema.message import Turn

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import Message

    from retinue.remotes.a2a.connection import Connections
    from retinue.remotes.a2a.model import RemoteModel


class RemoteAgents:
    """Use `models` around the app's models, `tap` on its commits, and `close` at the end."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._connections: Connections | None = None
        self._models: dict[str, RemoteModel] = {}
        self._running: dict[str, Message] = {}
        self._cancels: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> "Connections":
        if self._connections is None:
            try:
                from retinue.remotes.a2a.connection import Connections
            except ImportError:
                raise SettingsError("remote agents need the A2A SDK", hint="pip install 'retinue[serve]'") from None
            self._connections = Connections(self._settings.home / "a2a", self._settings.network, self._secret)
        return self._connections

    def models(self, inner: Models) -> Models:
        return _Models(self, inner)

    def model(self, definition: AgentDefinition) -> "RemoteModel":
        from retinue.remotes.a2a.model import RemoteModel

        key = msgspec.json.encode(definition).decode()
        if key not in self._models:
            self._models[key] = RemoteModel(definition, self.connections, self._running)
        return self._models[key]

    def described(self, definition: AgentDefinition) -> AgentDefinition:
        """With the card's words and skills, once the card was read."""
        if definition.kind != "remote":
            return definition
        try:
            card = self.connections.known(definition)
        except SettingsError:
            return definition
        if card is None:
            return definition
        from retinue.remotes.a2a.connection import described

        return msgspec.structs.replace(definition, description=described(card, definition.description))

    def tap(self, state: State, events: Sequence[AnyEvent]) -> None:
        """A run that was ended from our side ends on the other side too."""
        definition = state.pin.definition
        if definition.kind != "remote":
            return
        for event in events:
            if isinstance(event, RunCompleted | RunFailed):
                sent = self._running.pop(state.last_message or "", None) or self._waiting(state)
                if sent is not None and event.completion.reason in ("aborted", "terminated", "timeout"):
                    cancel = asyncio.create_task(self.model(definition).cancel(sent))
                    self._cancels.add(cancel)
                    cancel.add_done_callback(self._cancels.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._cancels, return_exceptions=True)
        if self._connections is not None:
            await self._connections.close()

    def _waiting(self, state: State) -> "Message | None":
        """The task of an earlier process that waits for an answer."""
        from a2a.types.a2a_pb2 import Message

        from retinue.remotes.a2a.model import kept_in

        kept = kept_in([Turn(role="assistant", parts=state.answer.parts)]) if state.answer else None
        return Message(task_id=kept.task) if kept is not None and kept.open else None

    def _secret(self, name: str, url: str) -> str | None:
        pairs = [pair for file in self._settings.trusted for pair in file.remote_env.items()]
        if not any(same_origin(origin, url) and name in names for origin, names in pairs):
            raise SettingsError(
                f"${name} may not be sent to {url}: the operator has not allowed it",
                hint=f'add it to remote_env of the settings: "{_origin(url)}" = ["{name}"]',
            )
        return self._environ.get(name)


class _Models:
    def __init__(self, remotes: RemoteAgents, inner: Models) -> None:
        self._remotes, self._inner = remotes, inner

    def resolve(
        self,
        definition: AgentDefinition,
        *,
        asked: str | None = None,
        inherited: str | None = None,
        trusted: bool = True,
    ) -> Sequence[Candidate]:
        if definition.kind == "remote":
            return [Candidate(model=self._remotes.model(definition))]
        return self._inner.resolve(definition, asked=asked, inherited=inherited, trusted=trusted)


def _origin(url: str) -> str:
    return "/".join(url.split("/")[:3])
