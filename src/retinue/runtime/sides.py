"""A side of a thread: the definition as that side runs it, and whom it asks."""

from typing import TYPE_CHECKING

import msgspec

from retinue.ports.model import Candidate
from retinue.schema.agent import AgentDefinition
from retinue.schema.thread import SideName

if TYPE_CHECKING:
    from retinue.runtime.work import Work


def side_definition(work: "Work", side: SideName) -> AgentDefinition:
    """The agent as one side runs it: a prompt may bring a model, tools and hooks of its own."""
    definition = work.state.pin.definition
    config = definition.side_a if side == "a" else definition.side_b
    prompt = definition.prompts.get(config.prompt) if config and config.prompt else None
    if prompt is None:
        return definition
    return msgspec.structs.replace(
        definition,
        prompt=prompt.text,
        model=prompt.model or definition.model,
        provider=prompt.provider or definition.provider,
        tools=prompt.tools if prompt.tools is not None else definition.tools,
        hooks=prompt.hooks or definition.hooks,
        subagents=prompt.subagents or definition.subagents,
        variables={**definition.variables, **prompt.variables},
    )


def candidates(work: "Work", side: SideName) -> tuple[Candidate, ...]:
    """Whom to ask, best first; resolved once a run so that it stays the same."""
    if side not in work.candidates:
        state = work.state
        found = work.runtime.models.resolve(
            side_definition(work, side),
            asked=(state.segment.model if state.segment else None) or state.thread.model,
            inherited=state.thread.inherited_model,
            trusted=state.pin.trusted,
        )
        work.candidates[side] = tuple(found)
    return work.candidates[side]
