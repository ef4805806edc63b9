"""The one table of frontmatter keys. A new key is a row here and a field in `schema/agent.py`.

The reference page, the JSON Schema, the formatter and the loader all read it.
Case, `_` and `-` do not matter in a key, so camelCase and kebab-case need no alias.
"""

import re
from functools import lru_cache

from retinue.definition.codes import Report
from retinue.definition.inputs import ARGUMENTS, INPUTS
from retinue.definition.node import Items, Node, Scalar
from retinue.definition.rules import PERMISSIONS, TOOL_SETTINGS
from retinue.definition.shapes import (
    AUTH,
    BUDGET,
    CARD,
    COMPACTION,
    HOOKS,
    OPENAI,
    OUTPUT,
    SERVERS,
    SIDE,
    SUBAGENT,
    SUBAGENTS,
    URL,
)
from retinue.definition.toolset import OVERRIDES, allowed, denied
from retinue.definition.values import (
    FLAG,
    MAP,
    NOT,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Bad,
    Kept,
    Key,
    Kind,
    choice,
    duration,
    folded,
    lookup,
    number,
    text_of,
    texts_of,
)

_COUNT = number(1, whole=True)
_CATEGORIES = choice("primary", "subagent", "hidden", "all")
_SLUG = re.compile(r"[a-z0-9-]+")


def _read_category(node: Node, report: Report) -> object:
    text = text_of(node, _CATEGORIES.label)
    try:
        return _CATEGORIES.read(node, report)
    except Bad:
        raise Kept("foreign-value", f"'{text}' is no category here; wanted {_CATEGORIES.label}") from None


def _read_permission_mode(node: Node, _: Report) -> object:
    text = text_of(node, "a permission mode")
    if folded(text) in ("plan", "default", "readonly"):
        return "default" if folded(text) == "default" else "plan"
    raise Kept("not-honoured", f"a file may not choose the permission mode '{text}'")


def _read_slug(node: Node, _: Report) -> object:
    if not _SLUG.fullmatch(text := text_of(node)):
        raise Bad("lowercase letters, digits and hyphens", node)
    return text


def _read_models(node: Node, _: Report) -> object:
    """One model, or a list in the order of preference."""
    if isinstance(node, Scalar):
        return text_of(node, "a model's name").strip()
    models = texts_of(node, "a model's name, or a list of them")
    if not models:
        raise Bad("a model's name", node)
    return models


def _read_providers(node: Node, _: Report) -> object:
    if isinstance(node, Items | Scalar):
        return texts_of(node, "a list of providers")
    raise Bad("a list of providers", node)


_TOOL_LIST: dict[str, object] = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "object"]}},
        {"type": ["string", "object", "null"]},
    ]
}
_CATEGORY = Kind(_CATEGORIES.label, _read_category, _CATEGORIES.schema)
_TOOLS = Kind(
    "list of tools, text with commas, map of true and false, or {mode, list, overrides}",
    lambda node, report: allowed(node, report, SUBAGENT),
    _TOOL_LIST,
)
_DENIED = Kind("list of tools, or text with commas", denied, _TOOL_LIST)
_MODELS = Kind("name of a model, or list in order of preference", _read_models, {"type": ["string", "array"]})
_EFFORT = choice("low", "medium", "high", also={"minimal": "low", "xhigh": "high", "max": "high"})

_GROUPS: dict[str, tuple[Key, ...]] = {
    "Identity": (
        Key("name", TEXT, "label and alias", default="the last segment of its id", lenient=True, rescue=True),
        Key("slug", Kind("slug", _read_slug, {"type": "string", "pattern": "^[a-z0-9-]+$"}), "short name for URLs"),
        Key("description", TEXT, "when to call this agent", lenient=True, rescue=True),
        Key("display_name", TEXT, "name shown to people", aliases=("title",), lenient=True, rescue=True),
        Key("version", TEXT, "version of the definition", lenient=True, rescue=True),
        Key("tags", TEXTS, "words to find it by", lenient=True),
        Key("examples", TEXTS, "tasks it is good at", lenient=True),
        Key("icon", TEXT, "emoji", aliases=("icon_emoji", "emoji"), lenient=True, rescue=True),
        Key("color", TEXT, "colour name or quoted hex", aliases=("colour",), lenient=True, rescue=True),
        Key("order", number(whole=True), "place in lists", aliases=("display_order",), default="0", lenient=True),
        Key("category", _CATEGORY, "who starts it", aliases=("mode",), default="all", power=True),
        Key("hidden", FLAG, "left out", aliases=("disable", "disabled"), variants={"is_visible": NOT}, default="false"),
        Key("exposed", FLAG, "reachable over A2A", default="false", power=True),
        Key("kind", choice("local", "remote"), "where it runs", default="local", lenient=True),
    ),
    "Model": (
        Key("model", _MODELS, "`provider/model`, an alias, or inherit", aliases=("model_id",), power=True),
        Key("provider", TEXT, "provider of the model", aliases=("provider_id",), power=True),
        Key(
            "providers",
            Kind(TEXTS.label, _read_providers, TEXTS.schema),
            "providers in order of preference",
            power=True,
        ),
        Key("temperature", number(0, 2), "sampling temperature", aliases=("temp",)),
        Key("top_p", number(0, 1), "nucleus sampling"),
        Key("max_tokens", _COUNT, "most tokens of one answer", aliases=("max_output_tokens",)),
        Key("reasoning_effort", _EFFORT, "how long a model thinks", aliases=("effort", "thinking"), lenient=True),
        Key("thinking_budget", number(0, whole=True), "most tokens of thinking"),
        Key("openai", OPENAI, "an OpenAI-compatible endpoint of its own", power=True),
        Key("options", MAP, "free values for the provider's adapter", lenient=True),
    ),
    "Prompt": (
        Key("system_prompt", TEXT, "the prompt; the body is then documentation"),
        Key("query", TEXT, "template of the first user message", default="{{prompt}}"),
        Key("inputs", INPUTS, "typed inputs", aliases=("input_schema",), variants={"arguments": ARGUMENTS}),
        Key("variables", TEXT_MAP, "values for `{{name}}`", aliases=("prompt_variables",), lenient=True),
        Key(
            "use_default_prefix", FLAG, "time and folder first", aliases=("use_default_system_prefix",), default="true"
        ),
    ),
    "Execution": (
        Key(
            "execution_mode",
            choice("agentic", "single_shot", "streaming", "planning"),
            "how a run goes",
            default="agentic",
        ),
        Key("max_steps", _COUNT, "most steps of a run", aliases=("max_turns", "max_iterations", "steps"), default="30"),
        Key(
            "timeout",
            duration(),
            "longest time of a run",
            aliases=("timeout_seconds",),
            variants=dict.fromkeys(
                ("timeout_mins", "timeout_minutes", "max_execution_minutes", "max_time_minutes"), duration(60.0)
            ),
            default="30m",
        ),
        Key(
            "completion",
            choice("explicit", "response", "binding"),
            "how a run ends",
            default="explicit when called, binding for dual_ai, else response",
        ),
        Key("output", OUTPUT, "structured result", aliases=("output_config",)),
        Key("context_scope", choice("FULL", "NONE", "SPECIFIC"), "what a caller may share at most", default="FULL"),
        Key("parallel_tool_calls", FLAG, "several calls in one step", default="true"),
        Key("budget", BUDGET, "most a run may cost"),
        Key("compaction", COMPACTION, "when a long thread is summarised", lenient=True),
    ),
    "Tools": (
        Key("tools", _TOOLS, "the tools it is offered", default="all", power=True),
        Key("allowed_tools", _TOOLS, "a second list; both must name a tool", default="all", power=True),
        Key("disallowed_tools", _DENIED, "tools it is never offered", aliases=("denied_tools",), power=True),
        Key("tool_overrides", OVERRIDES, "limits and default arguments of one tool", power=True),
        Key("allowed_commands", TEXTS, "commands bash may run without asking; [] removes bash", power=True),
        Key("mcp_servers", SERVERS, "MCP servers; [] is none", default="those that tools admits", power=True),
        Key("permissions", PERMISSIONS, "rules of its own", aliases=("permission",), default="primary", power=True),
        Key(
            "permission_mode",
            Kind("plan", _read_permission_mode, {"type": "string"}),
            "plan denies changes",
            power=True,
        ),
        Key("tools_settings", TOOL_SETTINGS, "Kiro's allowed and denied paths and commands", power=True),
        Key("readonly", FLAG, "denies edit, write and bash", aliases=("read_only",), power=True),
        Key("sandbox", choice("off", "auto", "require"), "isolation of bash", default="auto", power=True),
        Key("taint", MAP, "policy of the taint gate", power=True),
        Key("memory_namespace", TEXT, "memory shared with agents of the same namespace", power=True),
    ),
    "Composition": (
        Key(
            "allowed_agents",
            TEXTS,
            "agents it may call; [] is none",
            aliases=("allowed_subagent_types", "agents"),
            power=True,
        ),
        Key("can_spawn_subagents", FLAG, "may call agents", default="with a list, or when primary", power=True),
        Key("subagents", SUBAGENTS, "agents as tools, with settings", power=True),
        Key("expose_as_tool", FLAG, "callable, or a handoff for ai_human", default="false", power=True),
        Key("tool_description", TEXT, "description as a tool", rescue=True),
        Key("max_instances", _COUNT, "most at a time"),
        Key("max_depth", number(0, whole=True), "deepest chain of calls below it"),
        Key("user_invocable", FLAG, "false: only other agents start it", aliases=("user_invokable",), lenient=True),
        Key("disable_model_invocation", FLAG, "true: only people start it", lenient=True),
    ),
    "Two sides": (
        Key("type", choice("ai_human", "dual_ai"), "who talks", default="ai_human", lenient=True),
        Key("side_a", SIDE, "side A"),
        Key("side_b", SIDE, "side B; dual_ai needs it"),
        Key("max_session_turns", _COUNT, "most turns of both sides", default="40 for dual_ai"),
    ),
    "Environment": (
        Key("env", TEXT_MAP, "values of variables, secret by default", power=True),
        Key("hooks", HOOKS, "Python hooks by id", power=True),
    ),
    "Packaging": (
        Key("package_name", TEXT, "name of the package", lenient=True, rescue=True),
        Key("author", TEXT, "who wrote it", lenient=True, rescue=True),
        Key("license", TEXT, "its licence", aliases=("licence",), lenient=True, rescue=True),
    ),
    "Remote": (
        Key("agent_card_url", URL, "address of a remote agent's card", power=True),
        Key("agent_card_json", CARD, "or the card itself", power=True),
        Key("auth", AUTH, "how to sign in to it", power=True),
    ),
}
KEYS: tuple[Key, ...] = tuple(key for keys in _GROUPS.values() for key in keys)
GROUPS = {group: tuple(key.name for key in keys) for group, keys in _GROUPS.items()}
BY_NAME = {key.name: key for key in KEYS}

UNSUPPORTED: dict[str, str] = {
    "skills": "skills are not loaded; put what the agent needs into its prompt or a tool",
    "memory": "see memory_namespace",
    "handoffs": "list the agents in allowed_agents; exposed ones can take over",
    "background": "whoever calls it decides",
    "is_background": "whoever calls it decides",
    "isolation": "see sandbox",
    "workflow": "an agent runs the same way everywhere",
    "argument_hint": "declare inputs",
    "allowed_directories": "write rules in permissions",
    "system_prompt_mode": "see use_default_prefix",
    "inherit_project_context": "a thread starts with its own prompt only",
    "inherit_skills": "skills are not loaded",
    "target": "an agent runs the same way everywhere",
}
"""Keys of other tools whose meaning we know and do not have."""

NESTED = {"inputconfig", "promptconfig", "modelconfig", "runconfig", "toolconfig"}
"""S1's groups: their keys are read as if they stood at the top."""

FREE = ("metadata",)
_TABLE = lookup(KEYS)
_UNSUPPORTED = {folded(key): reason for key, reason in UNSUPPORTED.items()}


@lru_cache(maxsize=1024)
def find(key: str) -> tuple[Key, Kind] | None:
    """The row of a key under any of its names, and how this name's value is read."""
    return _TABLE.get(folded(key))


def canonical_name(key: str) -> str:
    """The one name of a known key; an unknown one stays."""
    row = find(key)
    return row[0].name if row else key


def unsupported(key: str) -> str | None:
    return _UNSUPPORTED.get(folded(key))


def is_free(key: str) -> bool:
    return key in FREE or key.lower().startswith("x-")


def grants_power(key: str) -> bool:
    row = find(key)
    return row is not None and row[0].power


def is_text(key: str) -> bool:
    """Its value may be read as plain text where it is not YAML."""
    return is_known_text(key) or (find(key) is None and folded(key) not in NESTED)


def is_known_text(key: str) -> bool:
    row = find(key)
    return row is not None and row[0].rescue


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Every spelling that is listed, for did-you-mean."""
    return tuple(name for key in KEYS for name in (key.name, *key.aliases, *key.variants))
