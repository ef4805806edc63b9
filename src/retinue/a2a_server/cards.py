"""Which agents others may see, and the cards that describe them.

Exposure, in this order: the agent can run, it is not blocked, and its definition or the
operator's lists admit it; who asks is judged afterwards. A card tells what a caller needs
to choose an agent, never its prompt, tools or model.
"""

from collections.abc import Iterable

import msgspec
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from retinue.a2a_server.parts import INPUT_MODES, OUTPUT_MODES
from retinue.app.settings import ServeSettings
from retinue.definition.inputs import input_schema
from retinue.registry.catalog import Catalog
from retinue.schema.agent import AgentDefinition

VERSION = "1.0"
OLD_VERSION = "0.3"
_BEARER = "bearer"


def is_exposed(definition: AgentDefinition, settings: ServeSettings) -> bool:
    """Blocked wins; else the definition, the list or a prefix admits."""
    id = definition.id
    if id in settings.blocked:
        return False
    return definition.exposed or id in settings.exposed or any(id.startswith(p) for p in settings.exposed_prefixes)


def exposed(catalog: Catalog, settings: ServeSettings) -> dict[str, AgentDefinition]:
    """Every agent of a catalog that callers may see, by id. Remote ones are not passed on."""
    found = (d for d in catalog.visible() if d.kind == "local" and is_exposed(d, settings))
    return {definition.id: definition for definition in found}


def agent_card(definition: AgentDefinition, url: str, *, old: bool, extended: bool = False) -> AgentCard:
    """The card of one agent.

    Args:
        definition: Whose card.
        url: Where it is spoken to.
        old: Whether protocol 0.3 is spoken too.
        extended: For a caller with a key: also what the agent wants as input.
    """
    skills = [_skill(definition)]
    if extended and definition.inputs:
        schema = msgspec.json.encode(input_schema(definition.inputs)).decode()
        about = f"Takes these inputs, as a data part: {schema}"
        skills.append(AgentSkill(id="inputs", name="Inputs", description=about, tags=["inputs"]))
    name = definition.display_name or definition.name
    return _card(name, definition.description, definition.version or "1", url, skills, old=old)


def directory_card(agents: Iterable[AgentDefinition], url: str, *, old: bool) -> AgentCard:
    """One card for all: each agent is a skill, and `metadata.agent` of a message names the one that is meant."""
    skills = [_skill(definition) for definition in agents]
    about = "Several agents behind one address. Each skill is one; name it in `metadata.agent` of the message."
    return _card("Retinue", about, "1", url, skills, old=old)


def _skill(definition: AgentDefinition) -> AgentSkill:
    name = definition.display_name or definition.name
    return AgentSkill(
        id=definition.id,
        name=name,
        description=definition.description or name,
        tags=definition.tags or [definition.category],
        examples=definition.examples,
    )


def _card(name: str, about: str, version: str, url: str, skills: list[AgentSkill], *, old: bool) -> AgentCard:
    versions = (VERSION, OLD_VERSION) if old else (VERSION,)
    interfaces = [
        AgentInterface(url=url, protocol_binding=binding, protocol_version=spoken)
        for spoken in versions
        for binding in ("JSONRPC", "HTTP+JSON")
    ]
    scheme = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer", description="An API key"))
    return AgentCard(
        name=name,
        description=about or name,
        version=version,
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        security_schemes={_BEARER: scheme},
        security_requirements=[SecurityRequirement(schemes={_BEARER: StringList()})],
        default_input_modes=INPUT_MODES,
        default_output_modes=OUTPUT_MODES,
        skills=skills,
    )
