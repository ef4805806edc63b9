"""Permission words: rule, ruleset, verdict, decision. `retinue.policy` judges with them."""

from typing import Literal

import msgspec

Verdict = Literal["allow", "ask", "deny"]
STRICTNESS: dict[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}

TierName = Literal["operator", "user", "project", "agent", "session"]
RulesetName = Literal["primary", "planner", "explorer", "researcher"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`verdict` for calls of `tool` whose resource matches `pattern`.

    The resource is the command of bash, the path of file tools, the URL of
    webfetch, the query of websearch, the agent of delegation. `*` crosses `/`,
    `?` is one character, and a trailing ` *` also matches no arguments.
    """

    tool: str
    pattern: str = "*"
    verdict: Verdict
    reason: str = ""
    origin: str = ""
    """Where it was written, `file:line`."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent's own tier: a shipped ruleset and rules after it."""

    ruleset: RulesetName = "primary"
    rules: tuple[Rule, ...] = ()
    default: Verdict | None = None
    """Replaces the ruleset's default when given."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A verdict and why: the rule that made it, or the ruleset's default."""

    verdict: Verdict
    reason: str
    tier: TierName | None = None
    rule: Rule | None = None
    commands: tuple["CommandDecision", ...] = ()
    """For bash: every command that was found, with its own decision."""


class CommandDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    command: str
    verdict: Verdict
    reason: str
    rule: Rule | None = None
