"""What a file says, key by key → one `AgentDefinition`: defaults, what follows from what, what is missing."""

from collections.abc import Callable
from typing import Literal

import msgspec

from retinue.definition.codes import Report
from retinue.definition.gather import Given
from retinue.definition.shapes import Servers
from retinue.definition.template import ALWAYS, placeholders
from retinue.definition.toolset import READ_ONLY, Tools
from retinue.schema.agent import AgentDefinition, InputSpec, Prompt, Side, Subagent, ToolFilter, ToolOverride
from retinue.schema.ids import AgentId
from retinue.schema.permission import Permissions, Rule

Profile = Literal["kodelet"]
PromptLookup = Callable[[str], Prompt | str | None]

TURNS = 40
"""Turns of two AI sides when nobody says how many."""

_COMPILED = {
    "allowed_tools",
    "disallowed_tools",
    "permission_mode",
    "readonly",
    "tools_settings",
    "user_invocable",
    "disable_model_invocation",
    "system_prompt",
}
"""Keys without a field of their own: they end in other fields."""

_ABOUT_REMOTE = {"kind", "agent_card_url", "agent_card_json"}
_ABOUT_SIDES = {"type", "side_a", "side_b"}
_ABOUT_TOOLS = {
    "tools",
    "allowed_tools",
    "disallowed_tools",
    "permission_mode",
    "readonly",
    "tools_settings",
    "permissions",
    "tool_overrides",
}

_MAKE: Callable[..., AgentDefinition] = AgentDefinition


class Body(msgspec.Struct, frozen=True):
    """What stands below the frontmatter, and the hash of the whole file."""

    text: str
    line: int = 1
    hash: str = ""


def assemble(
    given: Given,
    body: Body,
    id: AgentId,
    report: Report,
    *,
    prompts: PromptLookup | None = None,
    profile: Profile | None = None,
) -> AgentDefinition | None:
    """The definition, or None when the report holds an error."""
    fields = {"name": id.rpartition("/")[2], **given.values, "id": id, "extra": given.extra, "hash": body.hash}
    if not _ABOUT_TOOLS.isdisjoint(given.values):
        _set_power(given.values, fields)
    _set_model(fields)
    _set_servers(fields)
    _set_category(given, fields)
    _set_delegation(fields)
    if not _ABOUT_REMOTE.isdisjoint(fields):
        _set_remote(given, fields, report)
    _set_prompt(given, body, fields, report)
    if not _ABOUT_SIDES.isdisjoint(fields):
        _set_sides(given, fields, report, prompts)
    _check_required(given, fields, report, profile)
    if report.failed:
        return None
    for key in _COMPILED & fields.keys():
        del fields[key]
    return _MAKE(**fields)


def _set_power(said: dict[str, object], fields: dict[str, object]) -> None:
    """`tools` and `allowed_tools` intersect, `disallowed_tools` is subtracted; denying rules come last."""
    lists = [v for key in ("tools", "allowed_tools") if isinstance(v := said.get(key), Tools)]
    denies = said.get("disallowed_tools")
    permissions = own if isinstance(own := said.get("permissions"), Permissions) else Permissions()
    denied = [name for each in lists for name in each.denied]
    rules = [rule for each in lists for rule in each.rules]
    if settings := said.get("tools_settings"):
        rules += msgspec.convert(settings, tuple[Rule, ...])
    rules += permissions.rules
    if isinstance(denies, Tools):
        denied += denies.denied
        rules += denies.rules
    if said.get("readonly") is True or said.get("permission_mode") == "plan":
        denied += READ_ONLY
    only = tuple([each.only for each in lists if each.only is not None])
    fields["tools"] = ToolFilter(only=only, denied=tuple(dict.fromkeys(denied)))
    fields["permissions"] = permissions
    if rules:
        fields["permissions"] = msgspec.structs.replace(permissions, rules=_without_repeats(rules))
    overrides = {name: override for each in lists for name, override in each.overrides.items()}
    if isinstance(own := said.get("tool_overrides"), dict):
        overrides |= msgspec.convert(own, dict[str, ToolOverride])
    if overrides:
        fields["tool_overrides"] = overrides
    if listed := [subagent for each in lists for subagent in each.subagents]:
        named = said.get("subagents")
        fields["subagents"] = (*(msgspec.convert(named, tuple[Subagent, ...]) if named else ()), *listed)


def _without_repeats(rules: list[Rule]) -> tuple[Rule, ...]:
    """Of equal rules only the last can decide."""
    last = {(rule.tool, rule.pattern, rule.verdict): index for index, rule in enumerate(rules)}
    return tuple(rules[index] for index in sorted(last.values()))


def spawns_by_default(category: object, allowed_agents: object, subagents: object) -> bool:
    return category == "primary" or bool(allowed_agents) or bool(subagents)


def _set_model(fields: dict[str, object]) -> None:
    if isinstance(models := fields.get("model"), tuple):
        fields["model"], *rest = msgspec.convert(models, tuple[str, ...])
        fields["fallback_models"] = tuple(rest)


def _set_servers(fields: dict[str, object]) -> None:
    if isinstance(servers := fields.get("mcp_servers"), Servers):
        fields["mcp_servers"] = servers.names
        fields["inline_mcp_servers"] = servers.inline


def _set_category(given: Given, fields: dict[str, object]) -> None:
    """Copilot says who may start an agent with two flags. People only is primary, without primary's delegation."""
    if "category" in fields:
        return
    by_people = given.values.get("user_invocable") is not False
    by_agents = given.values.get("disable_model_invocation") is not True
    if not by_people:
        fields["category"] = "subagent" if by_agents else "hidden"
    elif not by_agents:
        fields["category"] = "primary"
        fields.setdefault("can_spawn_subagents", bool(fields.get("allowed_agents") or fields.get("subagents")))


def _set_delegation(fields: dict[str, object]) -> None:
    if fields.get("allowed_agents") == ("*",):
        del fields["allowed_agents"]
        fields.setdefault("can_spawn_subagents", True)
    spawns = spawns_by_default(fields.get("category"), fields.get("allowed_agents"), fields.get("subagents"))
    fields.setdefault("can_spawn_subagents", spawns)


def _set_remote(given: Given, fields: dict[str, object], report: Report) -> None:
    cards = [key for key in ("agent_card_url", "agent_card_json") if key in fields]
    if cards and given.values.get("kind") != "local":
        fields["kind"] = "remote"
    if len(cards) == 2:
        report.add(
            "bad-value", *given.places[cards[1]], "a remote agent has agent_card_url or agent_card_json, not both"
        )
    elif cards and fields["kind"] == "local":
        report.add("bad-value", *given.places["kind"], f"'kind' is local, and '{cards[0]}' makes the agent remote")
    elif fields.get("kind") == "remote" and not cards:
        report.add("missing-key", *given.places["kind"], "a remote agent needs agent_card_url or agent_card_json")


def _set_prompt(given: Given, body: Body, fields: dict[str, object], report: Report) -> None:
    text = body.text.strip()
    system = given.text("system_prompt")
    if system is not None:
        fields["prompt"], fields["documentation"] = system.strip(), text
    else:
        fields["prompt"] = text
    side = fields.get("side_a")
    has_prompt = bool(fields["prompt"]) or (isinstance(side, Side) and side.prompt is not None)
    if not has_prompt and fields.get("kind") != "remote":
        message = "the agent has no system prompt: write it below the frontmatter, or as system_prompt"
        report.add("missing-prompt", body.line, 1, message)
    prompt = body if system is None else Body(system, given.places["system_prompt"][0])
    if "{{" in prompt.text:
        _check_placeholders(prompt, fields, report)


def _check_placeholders(body: Body, fields: dict[str, object], report: Report) -> None:
    unknown = [(name, start) for name, start in placeholders(body.text) if name not in ALWAYS]
    if not unknown:
        return
    inputs = msgspec.convert(fields.get("inputs", ()), tuple[InputSpec, ...])
    declared = {spec.name for spec in inputs}
    if isinstance(variables := fields.get("variables"), dict):
        declared |= msgspec.convert(variables, dict[str, str]).keys()
    unknown = [(name, start) for name, start in unknown if name not in declared]
    if not unknown:
        return
    start = unknown[0][1]
    before = body.text[:start]
    found = ", ".join(f"{{{{{name}}}}}" for name in list(dict(unknown))[:5])
    report.add(
        "unknown-placeholder",
        body.line + before.count("\n"),
        start - before.rfind("\n"),
        f"{found}: neither an input nor a variable of this file",
        "declare it under inputs or variables",
    )


def _set_sides(given: Given, fields: dict[str, object], report: Report, prompts: PromptLookup | None) -> None:
    sides = [(key, side) for key in ("side_a", "side_b") if isinstance(side := fields.get(key), Side)]
    if fields.get("type") == "dual_ai":
        if "side_b" not in fields:
            report.add("missing-key", *given.places["type"], "dual_ai needs 'side_b'")
        if "max_session_turns" not in fields:
            fields["max_session_turns"] = TURNS
            report.add("no-turn-limit", *given.places["type"], f"dual_ai without max_session_turns: {TURNS} is used")
        for key, side in sides:
            if key == "side_b" and side.prompt is None:
                report.add("missing-key", *given.places[key], "'side_b' needs a 'prompt'")
    elif "type" not in fields and "side_b" in fields:
        report.add("missing-key", *given.places["side_b"], "'side_b' needs 'type: dual_ai'")
    if prompts is None:
        return
    found: dict[str, Prompt] = {}
    for key, side in sides:
        if side.prompt is None:
            continue
        prompt = prompts(side.prompt)
        if prompt is None:
            message = (
                f"'{key}.prompt' names '{side.prompt}', which is neither beside the agent, in prompts/, nor an agent"
            )
            report.add("dangling-prompt", *given.places[key], message)
        else:
            found[side.prompt] = Prompt(name=side.prompt, text=prompt) if isinstance(prompt, str) else prompt
    if found:
        fields["prompts"] = found


def _check_required(given: Given, fields: dict[str, object], report: Report, profile: Profile | None) -> None:
    if not given.text("description"):
        report.add("missing-description", 1, 1, "there is no description: nobody knows when to call this agent")
    if profile == "kodelet":
        for key in ("provider", "model", "max_tokens"):
            if not fields.get(key):
                report.add("missing-key", 1, 1, f"'{key}' is required by kodelet")
