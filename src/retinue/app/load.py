"""Loads one agent file for Python programs."""

from pathlib import Path

from retinue.definition.ids import agent_id
from retinue.definition.load import load_text
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import DefinitionError
from retinue.sources.directory import folder_prompts


def load_agent(path: str | Path) -> AgentDefinition:
    """Return the agent that a Markdown file defines.

    Raises:
        DefinitionError: The file can't be an agent; `problems` say why, each with its line.
    """
    file = Path(path)
    try:
        text = file.read_bytes()
    except OSError as e:
        raise DefinitionError(f"{file}: can't be read: {e.strerror}") from e
    parts = file.absolute().parts
    id = agent_id("/".join(parts[-2:] if file.name in ("prompt.md", "agent.md") else parts[-1:]))
    loaded = load_text(text, file=str(file), id=id, prompts=folder_prompts(file.parent, file.name))
    if loaded.definition is not None:
        return loaded.definition
    why = "; ".join(p.message for p in loaded.problems if p.severity == "error") or "has no frontmatter"
    raise DefinitionError(f"{file} is not an agent: {why}", loaded.problems)
