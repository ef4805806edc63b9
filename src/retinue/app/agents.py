"""The catalog as the runtime wants it: definitions ready to be pinned."""

from collections.abc import Callable

import msgspec

from retinue.app.catalog import CatalogHolder
from retinue.registry.catalog import Catalog, Resolved
from retinue.schema.agent import AgentDefinition, OutputSpec
from retinue.schema.events.threads import Pin
from retinue.schema.ids import DEFAULT_TENANT

PLAN = OutputSpec(
    name="result",
    description="The plan",
    schema={
        "type": "object",
        "properties": {
            "goal": {"type": "string", "minLength": 1},
            "steps": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "what": {"type": "string"},
                        "files": {"type": "array", "items": {"type": "string"}},
                        "depends_on": {"type": "array", "items": {"type": "string"}},
                    },
                    "required": ["id", "what"],
                },
            },
            "risks": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["goal", "steps"],
    },
)
"""What a planning agent must complete with, unless it declares an output of its own."""


class CatalogAgents:
    def __init__(
        self,
        holder: CatalogHolder,
        describe: Callable[[AgentDefinition], AgentDefinition] = lambda definition: definition,
    ) -> None:
        """
        Args:
            holder: Of the catalog.
            describe: Adds what is known of an agent from elsewhere, a remote one's card.
        """
        self._holder = holder
        self._describe = describe
        self._delegates: tuple[Catalog, tuple[Pin, ...]] | None = None

    def pin(self, name: str, tenant: str = DEFAULT_TENANT) -> Pin:
        return self._described(pin_of(self._holder.of(tenant).resolve(name)))

    def delegates(self, tenant: str = DEFAULT_TENANT) -> tuple[Pin, ...]:
        catalog = self._holder.of(tenant)
        if self._delegates is None or self._delegates[0] is not catalog:
            found = (d for d in catalog.visible() if d.category in ("subagent", "all"))
            self._delegates = (catalog, tuple(self._described(pin_of(catalog.resolve(d.id))) for d in found))
        return self._delegates[1]

    def _described(self, pin: Pin) -> Pin:
        definition = self._describe(pin.definition)
        return pin if definition is pin.definition else msgspec.structs.replace(pin, definition=definition)


def pin_of(resolved: Resolved) -> Pin:
    return Pin(
        definition=_complete(resolved.definition),
        source=resolved.source,
        repository=resolved.repository,
        commit=resolved.commit,
        trusted=resolved.source not in ("git", "package", "database", "a2a"),
    )


def _complete(definition: AgentDefinition) -> AgentDefinition:
    if definition.execution_mode != "planning" or definition.output is not None:
        return definition
    return msgspec.structs.replace(definition, output=PLAN)
