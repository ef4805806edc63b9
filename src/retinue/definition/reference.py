"""The reference page of the frontmatter; made from the key table, the tool names and the codes."""

from collections.abc import Collection

from retinue.definition.codes import CODES
from retinue.definition.keys import BY_NAME, GROUPS, UNSUPPORTED
from retinue.definition.node import is_collection, is_map

_HEAD = """# Frontmatter

Made from the key table in `retinue.definition.keys`; do not edit it here.

An agent is a Markdown file that starts with YAML between two lines `---`. Case, `_` and `-` do not matter in a key:
`mcpServers`, `mcp-servers` and `mcp_servers` are one. Keys marked ● decide what an agent may do, or with which model;
they are never guessed at, and a file in which one is broken is refused. Unknown keys are kept and warned of;
`x-…`, `metadata` and `options` are free.
"""


def reference_markdown() -> str:
    lines = [_HEAD]
    for group, names in GROUPS.items():
        lines += [f"## {group}", "", "| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        for name in names:
            key = BY_NAME[name]
            others = [f"`{alias}`" for alias in (*key.aliases, *key.variants)]
            also = f" Also {', '.join(others)}." if others else ""
            mark = " ●" if key.power else ""
            lines.append(f"| `{name}`{mark} | {_cell(key.kind.label)} | {_cell(key.default)} | {key.help}.{also} |")
        lines.append("")
        for name in names:
            if inner := _properties(BY_NAME[name].kind.schema):
                lines += [f"Inside `{name}`:", "", *(f"- `{key}`: {meaning}" for key, meaning in inner.items()), ""]
    lines += ["## Keys of other tools that have no meaning here", "", "| key | instead |", "| --- | --- |"]
    lines += [f"| `{name}` | {reason} |" for name, reason in UNSUPPORTED.items()]
    lines += ["", "## Problems", "", "| code | | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{code}` | {severity} | {meaning} |" for code, (severity, meaning) in CODES.items()]
    return "\n".join(lines) + "\n"


def _properties(schema: object) -> dict[str, str]:
    """The keys that a schema describes, wherever it nests them first."""
    parts: Collection[object] = ()
    if is_collection(schema):
        parts = schema
    elif is_map(schema):
        if is_map(properties := schema.get("properties")):
            return {str(key): str(inner.get("description", "")) for key, inner in properties.items() if is_map(inner)}
        parts = [schema.get(key) for key in ("anyOf", "items", "additionalProperties")]
    for part in parts:
        if found := _properties(part):
            return found
    return {}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
