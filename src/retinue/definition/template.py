"""Prompt templates: `{{name}}`, and `${name}` for declared inputs, filled in one pass.

A value that holds `{{…}}` stays text, and so does a name that nobody declared.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

ALWAYS = (
    "prompt",
    "agent_name",
    "agent_description",
    "allowed_agents",
    "available_tools",
    "current_time",
    "working_directory",
)
"""Names that every template may use."""

_MOST_BRACES = 1000
_PLACEHOLDER = re.compile(r"\{\{[ \t]*([A-Za-z_][\w.-]*)[ \t]*\}\}|\$\{([A-Za-z_][\w-]*)\}")


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as another agent's prompt shows it."""

    name: str
    description: str = ""
    examples: tuple[str, ...] = ()
    external: bool = False


def render(template: str, values: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    """Fill a template. An input hides a value of the same name, except `prompt`, which is the run's first message."""
    if "{{" not in template and "${" not in template:
        return template

    def fill(match: re.Match[str]) -> str:
        if match[2] is not None:
            return inputs.get(match[2], match[0])
        name = match[1]
        if name == "prompt" and name in values:
            return values[name]
        found = inputs.get(name)
        return found if found is not None else values.get(name, match[0])

    return _PLACEHOLDER.sub(fill, template)


def placeholders(text: str) -> Iterator[tuple[str, int]]:
    """Each `{{name}}` and where it starts; a text of thousands of braces is not read to its end."""
    at = text.find("{{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            return
        match = _PLACEHOLDER.match(text, at)
        if match is not None:
            yield match[1], at
        at = text.find("{{", match.end() if match is not None else at + 1)


def agent_list(agents: Iterable[Listed]) -> str:
    """What `{{allowed_agents}}` becomes (S0)."""
    lines: list[str] = []
    for agent in agents:
        name = f"{agent.name} (external)" if agent.external else agent.name
        lines.append(f"- **{name}**: {agent.description}" if agent.description else f"- **{name}**")
        if agent.examples:
            lines.append(f"  Examples: {', '.join(agent.examples)}")
    return "\n".join(lines)
