"""Which tools an agent is offered: filters, the lists of S2, and tools that rules deny outright.

Delegation tools follow who may call whom and are not decided here.
"""

from collections.abc import Iterable, Sequence

from retinue.policy.patterns import matches
from retinue.policy.rules import Tier
from retinue.schema.agent import ToolFilter
from retinue.schema.permission import Verdict

ALWAYS = frozenset(("complete_agent_execution", "complete_task"))
"""Exempt from filters and rules."""
SYSTEM = frozenset(("request_user_input", "save_memory", "load_memory"))
"""On unless denied by name."""


def offered(
    filter: ToolFilter,
    names: Iterable[str],
    *,
    allowed_commands: Sequence[str] | None = None,
    tiers: Sequence[Tier] = (),
    fallback: Verdict = "ask",
) -> set[str]:
    """Return those of `names` that the model gets to see."""
    return {
        name
        for name in names
        if name in ALWAYS
        or (
            _admitted(filter, name)
            and not (name == "bash" and allowed_commands is not None and not allowed_commands)
            and not (tiers and denied_outright(name, tiers, fallback))
        )
    }


def denied_outright(tool: str, tiers: Sequence[Tier], fallback: Verdict) -> bool:
    """Return whether no call of `tool` could be anything but denied."""
    spoken = False
    for tier in tiers:
        for rule in tier.about(tool):
            counted = rule.verdict in tier.counts and not (tier.name == "project" and rule.verdict == "allow")
            if rule.verdict != "deny":
                spoken = spoken or counted
                break
            if rule.pattern in ("*", "**"):
                return True
    return fallback == "deny" and not spoken and tool not in SYSTEM


def _admitted(filter: ToolFilter, name: str) -> bool:
    if name in SYSTEM:
        return not any(_names(pattern, name) for pattern in filter.denied if pattern != "*")
    return all(any(_names(p, name) for p in only) for only in filter.only) and not any(
        _names(pattern, name) for pattern in filter.denied
    )


def _names(pattern: str, name: str) -> bool:
    """`edit` stands for multi_edit too: no dialect tells them apart."""
    return matches(pattern, name) or (name == "multi_edit" and matches(pattern, "edit"))
