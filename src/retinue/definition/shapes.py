"""The maps that stand inside the frontmatter: sides, subagents, MCP servers, outputs, budgets."""

import re

import msgspec

from retinue.definition.codes import Report
from retinue.definition.node import Fields, Items, Node, Scalar, plain
from retinue.definition.values import (
    FLAG,
    MAP,
    TEXT,
    TEXT_MAP,
    TEXTS,
    Bad,
    Kept,
    Key,
    Kind,
    choice,
    duration,
    fields_of,
    flag_of,
    folded,
    free_map,
    nano_dollars,
    number,
    number_of,
    structure,
    text_of,
    texts_of,
)
from retinue.schema.agent import (
    Binding,
    Budget,
    Compaction,
    Immediate,
    McpServer,
    OpenAIEndpoint,
    OutputSpec,
    Resumable,
    Side,
    Subagent,
)

_COUNT = number(1, whole=True)


def _optional(kind: Kind) -> Kind:
    """A map, `true` for one with every default, or `false` for none."""

    def read(node: Node, report: Report) -> object:
        flag = flag_of(node)
        if flag is None:
            return kind.read(node, report)
        return kind.read(Fields({}, {}, node.line, node.column), report) if flag else None

    return Kind(f"true, false or {kind.label}", read, {"anyOf": [{"type": "boolean"}, kind.schema]})


OPENAI = structure(
    OpenAIEndpoint,
    (
        Key("base_url", TEXT, "address of an OpenAI-compatible API"),
        Key("api_key_env_var", TEXT, "environment variable that holds its key", aliases=("api_key_env",)),
    ),
    "an OpenAI-compatible endpoint",
)

_BINDING = structure(
    Binding,
    (
        Key("name", TEXT, "the tool", default="required"),
        Key("message_property", TEXT, "argument that is the message"),
        Key("attachments_property", TEXT, "argument that lists attachments"),
    ),
    "a session binding",
    short="name",
)
SIDE = structure(
    Side,
    (
        Key("prompt", TEXT, "name of the side's prompt; without it side A uses the body"),
        Key("label", TEXT, "how the side is called in logs"),
        Key("stop_on_response", FLAG, "a text without calls ends the side's turn", default="true"),
        Key("stop_tool", TEXT, "tool whose call ends the side's turn"),
        Key("stop_tool_response_property", TEXT, "argument of it that is the response"),
        Key("max_steps", _COUNT, "most steps of one turn"),
        Key("session_stop", _BINDING, "tool that ends the session well"),
        Key("session_fail", _BINDING, "tool that ends it as failed"),
        Key("session_status", _BINDING, "tool that publishes a status"),
    ),
    "a side",
)

_IMMEDIATE = structure(
    Immediate,
    (
        Key("name_env", TEXT, "variable that names the child"),
        Key("description_env", TEXT, "variable that describes it"),
        Key("scoped_env", TEXTS, "variables handed over and never shown to a model"),
    ),
    "{name_env, description_env, scoped_env}",
)
_RESUMABLE = structure(
    Resumable,
    (
        Key("receives_messages", choice("side_a", "side_b"), "which side hears later messages", default="side_a"),
        Key("max_instances", _COUNT, "most children at a time"),
        Key("parent_communication", choice("implicit", "explicit"), "who tells the parent", default="implicit"),
    ),
    "{receives_messages, max_instances, parent_communication}",
)
SUBAGENT = structure(
    Subagent,
    (
        Key("name", TEXT, "the agent", default="required"),
        Key("blocking", FLAG, "the parent waits", default="true"),
        Key("immediate", _optional(_IMMEDIATE), "runs before the first step"),
        Key("optional", TEXT, "variable that switches it on"),
        Key("resumable", _optional(_RESUMABLE), "lives on and can be messaged"),
        Key("init_user_message_property", TEXT, "argument that is the child's first message"),
        Key("init_attachments_property", TEXTS, "arguments that list attachments"),
        Key("init_agent_name_property", TEXT, "argument that names the child"),
    ),
    "a subagent",
    short="name",
)


def _read_subagents(node: Node, report: Report) -> object:
    if isinstance(node, Items):
        return tuple(SUBAGENT.read(item, report) for item in node.items)
    if isinstance(node, Scalar):
        return tuple(Subagent(name=name) for name in texts_of(node))
    return tuple(_named_subagent(name, value, report) for name, value in node.fields.items())


def _named_subagent(name: str, node: Node, report: Report) -> object:
    if isinstance(node, Scalar) and node.value is None:
        return Subagent(name=name)
    fields = fields_of(node, "a subagent's settings")
    label = Scalar(name, name, node.line, node.column)
    keys = {"name": (node.line, node.column), **fields.keys}
    try:
        return SUBAGENT.read(Fields({"name": label, **fields.fields}, keys, node.line, node.column), report)
    except Bad as bad:
        raise bad.under(name) from None


SUBAGENTS = Kind(
    "list of agents, or of their settings",
    _read_subagents,
    {"anyOf": [{"type": "array", "items": SUBAGENT.schema}, {"type": ["object", "string"]}]},
)


def _read_budget(node: Node, report: Report) -> object:
    if isinstance(node, Scalar):
        return Budget(cost=nano_dollars(node))
    return _BUDGET.read(node, report)


def _write_budget(value: object) -> object:
    if not isinstance(value, Budget):
        raise TypeError(value)
    said: dict[str, object] = {}
    if value.cost is not None:
        said["cost"] = f"${value.cost / 1_000_000_000:.9f}".rstrip("0").rstrip(".")
    if value.tokens is not None:
        said["tokens"] = value.tokens
    return said


_MONEY = Kind("amount like $2.50", lambda node, _: nano_dollars(node), {"type": ["number", "string"]})
_BUDGET = structure(
    Budget,
    (
        Key("cost", _MONEY, "most dollars", aliases=("usd", "dollars", "max_cost")),
        Key("tokens", _COUNT, "most tokens", aliases=("max_tokens",)),
    ),
    "{cost, tokens}",
)
BUDGET = Kind(
    "amount like $2.50, or {cost, tokens}",
    _read_budget,
    {"anyOf": [{"type": ["number", "string"]}, _BUDGET.schema]},
    _write_budget,
)

_COMPACTION = structure(
    Compaction,
    (
        Key("at", number(0.05, 1), "share of the context window that starts it", default="0.5"),
        Key("keep", number(0, 0.9), "share that is kept as it is", default="0.3"),
        Key("off", FLAG, "never", default="false"),
    ),
    "{at, keep, off}",
)


def _read_compaction(node: Node, report: Report) -> object:
    flag = flag_of(node)
    if flag is not None:
        return Compaction(off=not flag)
    if isinstance(node, Scalar) and (at := number_of(node)) is not None and 0.05 <= at <= 1:
        return Compaction(at=float(at))
    return _COMPACTION.read(node, report)


COMPACTION = Kind(
    "{at, keep, off}, or false",
    _read_compaction,
    {"anyOf": [{"type": ["boolean", "number"]}, _COMPACTION.schema]},
)

_OUTPUT_KEYS = (
    Key("name", TEXT, "replaces `result` in the completion tool", aliases=("output_name",), default="result"),
    Key("description", TEXT, "what the output is"),
    Key("schema", MAP, "JSON Schema of the output", default="required"),
)
_OUTPUT = structure(OutputSpec, _OUTPUT_KEYS, "an output {name, description, schema}")


def _read_output(node: Node, report: Report) -> object:
    parts = {folded(key): value for key, value in node.fields.items()} if isinstance(node, Fields) else {}
    if isinstance(parts.get("properties"), Fields):
        return OutputSpec(schema=free_map(node))
    if "schema" not in parts:
        raise Kept("foreign-value", "there is no schema, so it says nothing here; wanted {name, description, schema}")
    return _OUTPUT.read(node, report)


OUTPUT = Kind(_OUTPUT.label.removeprefix("an output "), _read_output, _OUTPUT.schema)


# MCP servers, hooks, remote agents


class Servers(msgspec.Struct, frozen=True):
    names: tuple[str, ...] = ()
    inline: dict[str, McpServer] = {}


_SERVER = structure(
    McpServer,
    (
        Key("command", TEXT, "program of a stdio server"),
        Key("args", TEXTS, "its arguments"),
        Key("env", TEXT_MAP, "its environment"),
        Key("cwd", TEXT, "its folder"),
        Key("url", TEXT, "address of a streamable HTTP server", aliases=("http_url",)),
        Key("headers", TEXT_MAP, "headers of every request"),
        Key("timeout", duration(), "longest time of one call"),
        Key("include_tools", TEXTS, "only these tools", aliases=("tools",)),
        Key("exclude_tools", TEXTS, "never these tools"),
        Key("auth", MAP, "how to sign in"),
    ),
    "an MCP server",
)
_IGNORED = {"type", "transport", "trust", "description", "disabled", "enabled", "name"}


def _servers(fields: Fields, report: Report) -> dict[str, McpServer]:
    found = {name: _server(name, value, report) for name, value in fields.fields.items()}
    return {name: server for name, server in found.items() if server is not None}


def _server(name: str, node: Node, report: Report) -> McpServer | None:
    fields = fields_of(node, "an MCP server")
    switches = {folded(key): flag_of(value) for key, value in fields.fields.items()}
    if switches.get("disabled") or switches.get("enabled") is False:
        return None
    kept = {k: v for k, v in fields.fields.items() if folded(k) not in _IGNORED}
    args = kept.get("args")
    if args is not None and not isinstance(args, Items):
        raise Bad("a list of texts", args, path=f"{name}.args")
    try:
        server = _SERVER.read(Fields(kept, fields.keys, node.line, node.column), report)
    except Bad as bad:
        raise bad.under(name) from None
    if not isinstance(server, McpServer) or (server.command is None) == (server.url is None):
        raise Bad("either a 'command' or a 'url'", node, path=name)
    if server.include_tools is not None and "*" in server.include_tools:
        server = msgspec.structs.replace(server, include_tools=None)
    return server


def _read_servers(node: Node, report: Report) -> object:
    """A list names servers that the operator configured; a map defines them here."""
    match node:
        case Scalar():
            return Servers(texts_of(node, "a list of configured servers"))
        case Fields():
            return Servers((), _servers(node, report))
        case Items():
            names: list[str] = []
            inline: dict[str, McpServer] = {}
            for item in node.items:
                if isinstance(item, Fields) and isinstance(name := item.fields.get("name"), Scalar):
                    inline |= _servers(Fields({name.text: item}, {}, item.line, item.column), report)
                elif isinstance(item, Fields):
                    inline |= _servers(item, report)
                else:
                    names.append(text_of(item, "the name of a server").strip())
            return Servers(tuple(names), inline)


SERVERS = Kind(
    "list of configured servers, or map of servers defined here",
    _read_servers,
    {
        "anyOf": [
            {"type": ["string", "null"]},
            {"type": "array", "items": {"type": ["string", "object"]}},
            {"type": "object", "additionalProperties": _SERVER.schema},
        ]
    },
)


def _read_hooks(node: Node, _: Report) -> object:
    if isinstance(node, Fields) or (isinstance(node, Items) and any(isinstance(i, Fields) for i in node.items)):
        raise Kept("not-honoured", "hooks of a file that run commands are never run; Python hooks are named in a list")
    return texts_of(node, "a list of the ids of Python hooks")


HOOKS = Kind("list of the ids of Python hooks", _read_hooks, {"type": ["array", "object", "string", "null"]})

_URL = re.compile(r"https?://[^\s/]+\S*")


def _read_url(node: Node, _: Report) -> object:
    text = text_of(node).strip()
    if not _URL.fullmatch(text):
        raise Bad("an http or https URL", node)
    return text


URL = Kind("URL", _read_url, {"type": "string", "format": "uri"})


def _read_card(node: Node, _: Report) -> object:
    if isinstance(node, Fields):
        return msgspec.json.encode(plain(node)).decode()
    text = text_of(node, "an agent card as JSON")
    try:
        card: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise Bad("an agent card as JSON", node) from None
    if not isinstance(card, dict):
        raise Bad("an agent card as a JSON object", node)
    return text


CARD = Kind("agent card as JSON", _read_card, {"type": ["string", "object"]})

_AUTH_TYPES = {
    "apikey": "apiKey",
    "http": "http",
    "oauth": "oauth",
    "oauth2": "oauth",
    "googlecredentials": "google-credentials",
}


def _read_auth(node: Node, _: Report) -> object:
    auth = free_map(node, "a map with 'type'")
    wanted = "apiKey, http, oauth or google-credentials"
    given = fields_of(node, wanted).fields.get("type")
    if given is None:
        raise Bad(f"a map with 'type': {wanted}", node)
    kind = _AUTH_TYPES.get(folded(text_of(given, wanted)))
    if kind is None:
        raise Bad(wanted, given, path="type")
    return {**auth, "type": kind}


AUTH = Kind(
    "{type: apiKey | http | oauth | google-credentials, …}", _read_auth, {"type": "object", "required": ["type"]}
)
