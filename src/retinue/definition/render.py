"""A definition → its canonical frontmatter; what `retinue agents fmt` writes.

The body stays as it is, byte for byte. Comments in the frontmatter are lost.
"""

import re

import msgspec
import yaml

from retinue.definition.assemble import Body, assemble, spawns_by_default
from retinue.definition.codes import Report
from retinue.definition.frontmatter import UNWANTED
from retinue.definition.gather import Given, gather
from retinue.definition.keys import BY_NAME, KEYS
from retinue.definition.load import read_parts
from retinue.definition.node import Fields, Items, is_collection, is_map
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.schema.problem import Problem

_DEFAULTS = AgentDefinition(id=AgentId(""), name="")
_COMPILED = {"permission_mode", "readonly", "tools_settings", "user_invocable", "disable_model_invocation"}


def to_canonical(text: bytes, *, file: str) -> tuple[bytes, tuple[Problem, ...]]:
    """The file in canonical form, and its problems; a file with errors comes back unchanged."""
    report = Report(file, keep_unknown=True)
    parts, root = read_parts(text, report)
    if parts is None and not report.failed:
        report.add("no-frontmatter", 1, 1, "the file has no frontmatter: it is not an agent")
    if parts is None or root is None:
        return text, report.located()
    maps = root.items if isinstance(root, Items) else [root]
    written: list[dict[str, object]] = []
    body = Body("" if isinstance(root, Items) else parts.body, parts.body_line)
    for item in maps:
        if not isinstance(item, Fields):
            report.add("bad-shape", item.line, item.column, "a list in the frontmatter holds remote agents, each a map")
            continue
        given = gather(item, report)
        definition = assemble(given, body, AgentId("agent"), report)
        if definition is not None:
            written.append(canonical_fields(definition, given))
    if report.failed:
        return text, report.located()
    block = dump(written if isinstance(root, Items) else written[0])
    newline = "\r\n" if b"---\r\n" in text[: parts.body_start] else "\n"
    front = f"---\n{block}---\n".replace("\n", newline)
    return front.encode() + text[parts.body_start :], report.located()


def canonical_fields(definition: AgentDefinition, given: Given | None = None) -> dict[str, object]:
    """Keys and values that load to `definition`: those that were given, and those that differ from the defaults."""
    said = given.values if given else {}
    compiled = _compiled(definition, said)
    fields: dict[str, object] = {}
    for key in KEYS:
        if key.name in _COMPILED:
            continue
        if key.name in compiled:
            value = compiled[key.name]
        elif (value := getattr(definition, key.name)) is not None and (
            key.name in said or value != getattr(_DEFAULTS, key.name)
        ):
            value = key.kind.write(value)
        else:
            continue
        if value is not None:
            fields[key.name] = value
    return _with_extra(fields, definition)


def dump(value: object) -> str:
    """YAML that our reader reads back to the same values."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)
    return UNWANTED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _compiled(definition: AgentDefinition, said: dict[str, object]) -> dict[str, object | None]:
    """Keys whose field holds more than the key says; None leaves one out."""
    only = [list(names) for names in definition.tools.only]
    models = [m for m in (definition.model, *definition.fallback_models) if m is not None]
    inline = msgspec.to_builtins(definition.inline_mcp_servers)
    names = definition.mcp_servers
    servers: object = [*names, inline] if inline and names else inline or (list(names) if names is not None else None)
    spawns = spawns_by_default(definition.category, definition.allowed_agents, definition.subagents)
    return {
        "name": definition.name if "name" in said or definition.name != "agent" else None,
        "model": (models if len(models) > 1 else models[0]) if models else None,
        "system_prompt": definition.prompt if "system_prompt" in said else None,
        "tools": only[0] if only else None,
        "allowed_tools": only[1] if len(only) > 1 else None,
        "disallowed_tools": list(definition.tools.denied) or None,
        "mcp_servers": servers,
        "can_spawn_subagents": definition.can_spawn_subagents
        if "can_spawn_subagents" in said or definition.can_spawn_subagents != spawns
        else None,
    }


def _with_extra(fields: dict[str, object], definition: AgentDefinition) -> dict[str, object]:
    """Kept keys follow; where one has the name of ours, ours goes by another of its names."""
    kept = definition.extra
    renamed: dict[str, object] = {}
    for name, value in fields.items():
        names = (name, *BY_NAME[name].aliases, name.capitalize())
        renamed[next((n for n in names if n not in kept), name)] = value
    return {**renamed, **msgspec.to_builtins(kept)}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(_: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if UNWANTED.search(text):
        style = '"'
    elif "\n" in text and not _TRICKY.search(text):
        style = "|"
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)


_TRICKY = re.compile(r"[ \t]\n|\t|^[ \n]")


def _list(dumper: yaml.SafeDumper, items: list[object]) -> yaml.Node:
    short = not any(is_map(i) or is_collection(i) for i in items) and sum(len(str(i)) + 2 for i in items) < 100
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)
