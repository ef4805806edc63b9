"""Loads agents for Python programs: one file, or everything a folder's settings add up to."""

from collections.abc import Iterable
from pathlib import Path

from retinue.app.catalog import read_catalog
from retinue.app.settings_file import load_settings
from retinue.definition.code import CodeAgent
from retinue.definition.ids import agent_id
from retinue.definition.load import load_text
from retinue.registry.catalog import Catalog
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


def load_catalog(folder: str | Path | None = None, *, code: Iterable[CodeAgent | AgentDefinition] = ()) -> Catalog:
    """Return every agent seen from `folder`, the current one when omitted, and those given as `code`.

    Call it outside an event loop; inside one, `retinue.app.catalog.open_catalog` does the same and can be watched.
    """
    return read_catalog(load_settings(None if folder is None else Path(folder)), code=code)
