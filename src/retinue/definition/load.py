"""Text or fields → `AgentDefinition`, with every problem located. Reads no files."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import msgspec

from retinue.schema.agent import AgentDefinition, Prompt
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

Profile = Literal["kodelet"]
PromptLookup = Callable[[str], Prompt | str | None]


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one agent: a definition unless a problem is an error; `skipped`: no frontmatter, not an agent."""

    definition: AgentDefinition | None
    problems: tuple[Problem, ...]
    skipped: bool = False


def load_text(
    text: bytes | str,
    *,
    file: str,
    id: AgentId | None = None,
    prompts: PromptLookup | None = None,
    profile: Profile | None = None,
    known_tools: Collection[str] | None = None,
) -> Loaded:
    """The first agent of a file; `load_all` gives the others of a file that lists several."""
    return load_all(text, file=file, id=id, prompts=prompts, profile=profile, known_tools=known_tools)[0]


def load_all(
    text: bytes | str,
    *,
    file: str,
    id: AgentId | None = None,
    prompts: PromptLookup | None = None,
    profile: Profile | None = None,
    known_tools: Collection[str] | None = None,
) -> tuple[Loaded, ...]:
    """Every agent of a file: one, unless the frontmatter is a list of remote agents."""
    raise NotImplementedError


def load_fields(
    fields: Mapping[str, object], *, file: str, id: AgentId | None = None, prompt: str | None = None
) -> Loaded:
    """The same keys from configuration, a database row or Python."""
    raise NotImplementedError


def load_prompt(text: bytes | str, *, file: str, name: str) -> tuple[Prompt | None, tuple[Problem, ...]]:
    """A side's prompt file; frontmatter is optional."""
    raise NotImplementedError
