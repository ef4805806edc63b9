"""Lists of tools, as any dialect writes them → one filter and the rules that come with it.

An allowed name that nobody knows is dropped, so a list of unknown names is an
empty list; a denied one stays as a pattern. `Bash(git diff:*)` offers bash, asks
for every command and allows that one. Nothing here looks at which tools exist
at run time: `mcp_*` names are judged when their server is known.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from retinue.definition.codes import Report
from retinue.definition.node import MAX_VALUES, Fields, Items, Node, Scalar
from retinue.definition.toolnames import canonical, unavailable
from retinue.definition.values import MAP, Bad, Key, Kind, choice, duration, flag_of, folded, number, structure
from retinue.schema.agent import Subagent, ToolOverride
from retinue.schema.permission import Rule, Verdict

READ_ONLY = ("edit", "write", "bash")
"""What a read-only agent is denied."""

_CALL = re.compile(r"([^()\s]+)\s*\((.*)\)", re.DOTALL)
_MORE = re.compile(r"[(),\s]")
_WANTED = "a list of tools, one text with commas, a map of true and false, or {mode, list, overrides}"
_EVERYTHING = 'name the tools, or write "*" in quotes for all of them'


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """What one key says. `only` None: it does not limit."""

    only: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    overrides: dict[str, ToolOverride] = {}
    subagents: tuple[Subagent, ...] = ()


class Named(msgspec.Struct, frozen=True):
    """One entry of a list: a tool, and the pattern its calls must match."""

    name: str
    pattern: str | None
    node: Node


OVERRIDE = structure(
    ToolOverride,
    (
        Key("max_output_length", number(1, whole=True), "longest output in characters"),
        Key("timeout", duration(), "longest time of one call", variants={"timeout_mins": duration(60.0)}),
        Key("default_arguments", MAP, "arguments that a call may leave out"),
    ),
    "a tool's overrides",
)
_MODES = choice("all", "all_except", "only_these", "none")


def allowed(node: Node, report: Report, subagent: Kind) -> Tools:
    """What `tools` or `allowed_tools` says."""
    match node:
        case Scalar(value=bool() | int() | float()):
            raise Bad(_WANTED, node, code="everything" if node.value is True else "bad-value", hint=_EVERYTHING)
        case Fields():
            modes = {folded(key): value for key, value in node.fields.items()}
            if isinstance(mode := modes.get("mode"), Scalar) and isinstance(mode.value, str):
                return _by_mode(node, modes, report)
            return _by_map(node, report)
        case Items():
            names = tuple(item.text for item in node.items if isinstance(item, Scalar) and isinstance(item.value, str))
            if len(names) == len(node.items) and not report.known_tools and (known := _all_known(names)) is not None:
                return known
            configured = [item for item in node.items if isinstance(item, Fields)]
            subagents = [subagent.read(item, report) for item in configured]
            listed = _allow(named(node), report)
            return msgspec.structs.replace(listed, subagents=tuple(s for s in subagents if isinstance(s, Subagent)))
        case Scalar():
            return _allow(named(node), report)


def denied(node: Node, report: Report) -> Tools:
    """What `disallowed_tools` says: tools that are not offered, and rules for `Tool(pattern)`."""
    if isinstance(node, Fields) or (isinstance(node, Scalar) and not isinstance(node.value, str)):
        raise Bad("a list of tools, or one text with commas", node)
    names: list[str] = []
    rules: list[Rule] = []
    for entry in named(node):
        tools = _known(entry, report, "kept as a pattern") or (entry.name,)
        if entry.pattern is None:
            names += tools
        else:
            rules += [r for tool in tools for r in call_rules(tool, entry, "deny", report)]
    return Tools(denied=_unique(names), rules=tuple(rules))


def named(node: Scalar | Items) -> Iterator[Named]:
    """The entries of a list or of a text with commas; maps inside a list are somebody else's."""
    if isinstance(node, Scalar):
        if node.text.count(",") > MAX_VALUES:
            raise Bad(f"at most {MAX_VALUES} tools", node)
        for part in _split(node.text if node.value is not None else ""):
            if part == "*" and not node.quoted:
                raise Bad(_WANTED, node, code="everything", hint=_EVERYTHING)
            yield _entry(part, node)
        return
    for item in node.items:
        if isinstance(item, Fields):
            continue
        if not isinstance(item, Scalar) or not isinstance(item.value, str):
            raise Bad("the name of a tool", item)
        for part in _split(item.value):
            yield _entry(part, item)


def call_rules(tool: str, entry: Named, verdict: Verdict, report: Report) -> Iterator[Rule]:
    """Rules for `Tool(pattern)`, in the words of our patterns."""
    origin = f"{report.file}:{entry.node.line}"
    for pattern in _patterns(tool, entry.pattern or "*", verdict):
        yield Rule(tool=rule_tool(tool), pattern=pattern, verdict=verdict, origin=origin)


def rule_tool(tool: str) -> str:
    """Writing and editing are one category for rules."""
    return "edit" if tool in ("write", "multi_edit") else tool


def _allow(entries: Iterable[Named], report: Report) -> Tools:
    names: list[str] = []
    bare: set[str] = set()
    rules: dict[str, list[Rule]] = {}
    for entry in entries:
        tools = _known(entry, report, "dropped")
        if tools is None:
            names += [entry.name] if report.keep_unknown else []
            continue
        names += tools
        for tool in tools:
            if entry.pattern is None:
                bare.add(rule_tool(tool))
            else:
                rules.setdefault(rule_tool(tool), []).extend(call_rules(tool, entry, "allow", report))
    asked: list[Rule] = []
    for tool, allows in rules.items():
        if tool not in bare:
            asked.append(Rule(tool=tool, verdict="ask", origin=allows[0].origin))
        asked += allows
    only = None if "*" in names else _unique(names)
    return Tools(only=only, rules=tuple(asked))


@lru_cache(maxsize=1024)
def _all_known(names: tuple[str, ...]) -> Tools | None:
    """What a list says that needs no rule and no warning: a whole catalog repeats a few such lists."""
    tools: list[str] = []
    for name in names:
        ours = canonical(name) if not _MORE.search(name) else None
        if ours is None:
            return None
        tools += ours
    return Tools(only=None if "*" in tools else _unique(tools))


def _by_map(node: Fields, report: Report) -> Tools:
    """opencode's map: `false` denies, tools it does not name stay; with `"*": false` only the true ones do."""
    verdicts: list[tuple[Named, bool]] = []
    for key, value in node.fields.items():
        if (verdict := flag_of(value)) is None:
            raise Bad("true or false", value, path=key)
        place = Scalar(key, key, *node.keys[key])
        verdicts.append((Named(key, None, place), verdict))
    off = [
        tool for entry, on in verdicts if not on for tool in _known(entry, report, "kept as a pattern") or (entry.name,)
    ]
    if "*" not in off:
        return Tools(denied=_unique(off))
    listed = _allow((entry for entry, on in verdicts if on), report)
    return msgspec.structs.replace(listed, denied=_unique(tool for tool in off if tool != "*"))


def _by_mode(node: Fields, parts: dict[str, Node], report: Report) -> Tools:
    """S3's ToolConfiguration."""
    unknown = set(parts) - {"mode", "list", "toollist", "tools", "overrides"}
    if unknown:
        raise Bad(_WANTED, node)
    mode = _MODES.read(parts["mode"], report)
    tools = parts.get("toollist") or parts.get("list") or parts.get("tools") or Items([])
    if isinstance(tools, Fields):
        raise Bad("a list of tools", tools, path="list")
    overrides = _overrides(parts["overrides"], report) if "overrides" in parts else {}
    if mode == "all":
        return Tools(overrides=overrides)
    if mode == "none":
        return Tools(only=(), overrides=overrides)
    said = _allow(named(tools), report) if mode == "only_these" else denied(tools, report)
    return msgspec.structs.replace(said, overrides=overrides)


def _overrides(node: Node, report: Report) -> dict[str, ToolOverride]:
    if not isinstance(node, Fields):
        raise Bad("a map of tools to their overrides", node)
    found: dict[str, ToolOverride] = {}
    for key, value in node.fields.items():
        override = OVERRIDE.read(value, report)
        names = _known(Named(key, None, Scalar(key, key, *node.keys[key])), report, "kept") or (key,)
        if isinstance(override, ToolOverride):
            found |= dict.fromkeys(names, override)
    return found


def _known(entry: Named, report: Report, fate: str) -> tuple[str, ...] | None:
    name = entry.name
    if name in report.known_tools:
        return (name,)
    if tools := canonical(name):
        return tools
    place = entry.node.line, entry.node.column
    if what := unavailable(name):
        report.add("unavailable-tool", *place, f"'{name}' is a {what} tool, which does not exist here: {fate}")
    else:
        report.add("unknown-tool", *place, f"'{name}' is no tool that is known: {fate}")
    return None


def _entry(text: str, node: Node) -> Named:
    if not (call := _CALL.fullmatch(text)):
        return Named(text, None, node)
    pattern = call[2].strip()
    return Named(call[1], None if pattern in ("", "*") else pattern, node)


def _split(text: str) -> Iterator[str]:
    """At commas outside parentheses."""
    if "(" not in text:
        yield from filter(None, map(str.strip, text.split(",")))
        return
    depth, start = 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
        elif char == "," and depth == 0:
            if part := text[start:index].strip():
                yield part
            start = index + 1
    if part := text[start:].strip():
        yield part


def _patterns(tool: str, pattern: str, verdict: Verdict) -> list[str]:
    parts = [part.strip() for part in pattern.split(",")]
    if tool == "task":
        return parts
    if tool == "bash" and all(part.endswith(":*") for part in parts):
        return [f"{part[:-2]} *" for part in parts]
    if tool == "webfetch" and pattern.startswith("domain:"):
        host = pattern.removeprefix("domain:").strip()
        return [f"https://{host}/*"] if verdict == "allow" else [f"*{host}*"]
    return path_patterns(tool, pattern.removeprefix("./"), verdict)


def path_patterns(tool: str, pattern: str, verdict: Verdict) -> list[str]:
    """A glob of paths in our patterns, where `*` crosses `/`: `**/x` is x in the top folder too.

    What allows covers exactly that; what denies may cover more.
    """
    if "**" not in pattern or rule_tool(tool) not in ("read", "edit", "glob", "grep", "list"):
        return [pattern]
    head, deep, tail = pattern.partition("**/")
    if not deep or verdict != "allow":
        return [re.sub(r"\*+", "*", pattern.replace("**/", "*"))]
    return [head + tail] if tail.startswith("*") else [head + tail, f"{head}*/{tail}"]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


OVERRIDES = Kind(
    "map of tools to their overrides",
    _overrides,
    {"type": "object", "additionalProperties": OVERRIDE.schema},
)
