"""`permissions`, as opencode, Claude Code, S3 and we write it → an agent's own rules.

Writing and editing are one category: a stricter word for one of them holds for
the whole category, and a looser one never undoes what `edit` says.
"""

from collections.abc import Iterator

import msgspec

from retinue.definition.codes import Report
from retinue.definition.node import Fields, Items, Node, Scalar
from retinue.definition.toolnames import canonical, unavailable
from retinue.definition.toolset import call_rules, named, path_patterns, rule_tool
from retinue.definition.values import Bad, Kind, choice, folded, number_of, text_of, texts_of
from retinue.schema.permission import Permissions, Rule, RulesetName, Verdict

_WANTED = "a map of tools to allow, ask or deny, or {ruleset, default, rules}"
_RULESETS: dict[str, RulesetName] = {
    "primary": "primary",
    "planner": "planner",
    "explorer": "explorer",
    "researcher": "researcher",
}
_VERDICTS: dict[str, Verdict] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_OURS = {"ruleset", "default", "defaultaction", "rules"}
_CLAUDE = {"allow", "ask", "deny"}
_KIRO: dict[str, Verdict] = {
    "allowedpaths": "allow",
    "allowedcommands": "allow",
    "deniedpaths": "deny",
    "deniedcommands": "deny",
}
_VERDICT_SCHEMA = choice(*_VERDICTS).schema


class _Said(msgspec.Struct, frozen=True):
    """A rule and the tool as it was named."""

    tool: str
    rule: Rule


def permissions(node: Node, report: Report) -> Permissions:
    match node:
        case Scalar():
            return _of_text(node, report)
        case Items():
            return Permissions(rules=_settled(_rule_list(node, report)))
        case Fields():
            parts = {folded(key): value for key, value in node.fields.items()}
            if parts and parts.keys() <= _OURS:
                return _ours(parts, report)
            if parts and parts.keys() <= _CLAUDE and all(isinstance(v, Items) for v in parts.values()):
                return Permissions(rules=tuple(_claude(parts, report)))
            return Permissions(rules=_settled(_map(node, report)))


def tool_settings(node: Node, report: Report) -> tuple[Rule, ...]:
    """Kiro's paths and commands by tool: what is listed is allowed, the rest is asked for, and denies come last."""
    if not isinstance(node, Fields):
        raise Bad("a map of tools to their settings", node)
    rules: list[Rule] = []
    for key, value in node.fields.items():
        tools = {rule_tool(tool) for tool in canonical(key) or (key,)}
        for name, listed in value.fields.items() if isinstance(value, Fields) else ():
            verdict = _KIRO.get(folded(name))
            if verdict is None:
                message = f"'{key}.{name}' has no meaning here, and a file may not approve for itself"
                report.add("not-honoured", listed.line, listed.column, message)
                continue
            for tool in sorted(tools):
                rules += [Rule(tool=tool, verdict="ask", origin=_origin(listed, report))] * (verdict == "allow")
                for pattern in texts_of(listed):
                    for path in path_patterns(tool, pattern.removeprefix("./"), verdict):
                        rules.append(Rule(tool=tool, pattern=path, verdict=verdict, origin=_origin(listed, report)))
    return tuple(sorted(rules, key=lambda rule: rule.verdict == "deny"))


def _of_text(node: Scalar, report: Report) -> Permissions:
    text = text_of(node, _WANTED).strip().lower()
    if ruleset := _RULESETS.get(text):
        return Permissions(ruleset=ruleset)
    if text in ("ask", "deny"):
        return Permissions(rules=(Rule(tool="*", verdict=_VERDICTS[text], origin=_origin(node, report)),))
    if text == "allow":
        raise Bad(_WANTED, node, code="everything", hint='write {"*": allow} if everything is meant')
    raise Bad(_WANTED, node)


def _ours(parts: dict[str, Node], report: Report) -> Permissions:
    ruleset: RulesetName = "primary"
    default: Verdict | None = None
    if name := parts.get("ruleset"):
        try:
            ruleset = _RULESETS[text_of(name).strip().lower()]
        except (KeyError, Bad):
            raise Bad(f"one of {', '.join(_RULESETS)}", name, path="ruleset") from None
    if fallback := parts.get("default") or parts.get("defaultaction"):
        default = _verdict(fallback)
    rules: tuple[Rule, ...] = ()
    if listed := parts.get("rules"):
        if not isinstance(listed, Items):
            raise Bad("a list of rules", listed, path="rules")
        rules = _settled(_rule_list(listed, report))
    return Permissions(ruleset=ruleset, rules=rules, default=default)


def _rule_list(node: Items, report: Report) -> list[_Said]:
    """`{tool, pattern, verdict, reason}`, or S3's `{pattern: "tool:resource", action, reason, priority}`."""
    ranked: list[tuple[float, list[_Said]]] = []
    for item in node.items:
        if not isinstance(item, Fields):
            raise Bad("a rule {tool, pattern, verdict}", item)
        parts = {folded(key): value for key, value in item.fields.items()}
        verdict = parts.get("verdict") or parts.get("action")
        tool, pattern = parts.get("tool"), parts.get("pattern")
        if verdict is None or (tool is None and pattern is None):
            raise Bad("a rule {tool, pattern, verdict}", item)
        if unknown := parts.keys() - {"tool", "pattern", "verdict", "action", "reason", "priority", "origin"}:
            raise Bad(f"a rule {{tool, pattern, verdict, reason}} without '{min(unknown)}'", item)
        resource = text_of(pattern).strip() if pattern is not None else "*"
        if tool is None:
            name, _, resource = resource.partition(":")
        else:
            name = text_of(tool).strip()
        rule = Rule(
            tool=name,
            pattern=resource or "*",
            verdict=_verdict(verdict),
            reason=text_of(parts["reason"]) if "reason" in parts else "",
            origin=_origin(item, report),
        )
        rank = number_of(parts["priority"]) if "priority" in parts else 0
        ranked.append((rank or 0, list(_named_rules(rule, item, report))))
    ranked.sort(key=lambda pair: pair[0])
    return [said for _, rules in ranked for said in rules]


def _map(node: Fields, report: Report) -> list[_Said]:
    """opencode: tool → verdict, or tool → {pattern: verdict}; the order of keys is the order of rules."""
    rules: list[_Said] = []
    for key, value in node.fields.items():
        place = Scalar(key, key, *node.keys[key])
        patterns = value.fields if isinstance(value, Fields) else {"*": value}
        for pattern, inner in patterns.items():
            try:
                verdict = _verdict(inner)
            except Bad as bad:
                raise bad.under(key) from None
            ours = canonical(key.strip()) or ("",)
            for path in path_patterns(ours[0], pattern, verdict):
                rule = Rule(tool=key.strip(), pattern=path, verdict=verdict, origin=_origin(inner, report))
                rules += _named_rules(rule, place, report, told=pattern != next(iter(patterns)))
    return rules


def _claude(parts: dict[str, Node], report: Report) -> Iterator[Rule]:
    for verdict in _VERDICTS.values():
        listed = parts.get(verdict)
        if not isinstance(listed, Items):
            continue
        for entry in named(listed):
            for tool in canonical(entry.name) or (entry.name,):
                yield from call_rules(tool, entry, verdict, report)


def _named_rules(rule: Rule, node: Node, report: Report, *, told: bool = False) -> Iterator[_Said]:
    """The rule under our names of its tool; `told`: the same name was warned of already."""
    name = rule.tool
    if name in report.known_tools or name == "*":
        yield _Said(name, rule)
        return
    if tools := canonical(name):
        for tool in tools:
            yield _Said(tool, msgspec.structs.replace(rule, tool=rule_tool(tool)))
        return
    if " " in name:
        # a command where a tool's name belongs: its author meant bash, and we follow only where that tightens
        fate = "dropped" if rule.verdict == "allow" else "read as a command of bash"
        report.add("unknown-tool", node.line, node.column, f"'{name}' is a command and no tool: {fate}")
        if rule.verdict != "allow":
            yield _Said("bash", msgspec.structs.replace(rule, tool="bash", pattern=name))
        return
    if not told:
        code = "unavailable-tool" if unavailable(name) else "unknown-tool"
        report.add(code, node.line, node.column, f"'{name}' is no tool here: its rule is kept and waits for one")
    yield _Said(name, rule)


def _settled(said: list[_Said]) -> tuple[Rule, ...]:
    """One order for the category `edit` in which nothing that was denied comes back."""
    edits = any(s.tool == "edit" for s in said)
    ordered: list[Rule] = []
    last: list[Rule] = []
    for s in said:
        if s.rule.tool != "edit" or s.tool == "edit":
            ordered.append(s.rule)
        elif s.rule.verdict != "allow" and edits:
            last.append(s.rule)
        elif not edits:
            ordered.append(s.rule)
    return (*ordered, *last)


def _verdict(node: Node) -> Verdict:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        verdict = _VERDICTS.get(node.value.strip().lower())
        if verdict is not None:
            return verdict
    raise Bad("allow, ask or deny", node)


def _origin(node: Node, report: Report) -> str:
    return f"{report.file}:{node.line}"


def _write(value: object) -> object:
    if not isinstance(value, Permissions):
        raise TypeError(value)
    return msgspec.to_builtins(
        msgspec.structs.replace(value, rules=tuple(msgspec.structs.replace(r, origin="") for r in value.rules))
    )


TOOL_SETTINGS = Kind("map of tools to allowed and denied paths and commands", tool_settings, {"type": "object"})
PERMISSIONS = Kind(
    "map of tools to allow, ask or deny, or {ruleset, default, rules}",
    permissions,
    {
        "anyOf": [
            {"type": "string", "enum": [*_RULESETS, "ask", "deny"]},
            {"type": "array", "items": {"type": "object"}},
            {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [_VERDICT_SCHEMA, {"type": ["object", "array", "string"]}],
                },
            },
        ]
    },
    _write,
)
