"""A decision told to a person or a program: the verdict, the rule with its place, and each command found."""

import msgspec

from retinue.schema.permission import Decision, Rule, Verdict


class ExplainedCommand(msgspec.Struct, frozen=True, kw_only=True):
    command: str
    verdict: Verdict
    reason: str
    rule: str | None = None
    origin: str | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    reason: str
    rule: str | None = None
    """`deny bash rm *`; None when a default or a fixed protection decided."""
    origin: str | None = None
    """`file:line`, or `built in`."""
    tier: str | None = None
    commands: tuple[ExplainedCommand, ...] = ()


def explain(decision: Decision) -> Explanation:
    """Return why a call got its verdict."""
    commands = tuple(
        ExplainedCommand(
            command=c.command, verdict=c.verdict, reason=c.reason, rule=_rule(c.rule), origin=_origin(c.rule)
        )
        for c in decision.commands
    )
    return Explanation(
        verdict=decision.verdict,
        reason=decision.reason,
        rule=_rule(decision.rule),
        origin=_origin(decision.rule),
        tier=decision.tier,
        commands=commands,
    )


def lines(explanation: Explanation) -> list[str]:
    """Return the explanation as text, the verdict first."""
    first = f"{explanation.verdict}: {explanation.reason}"
    where = f" ({explanation.origin})" if explanation.origin else ""
    rule = [f"  rule: {explanation.rule}{where}"] if explanation.rule else []
    found = [
        f"  {c.verdict:<5}  {c.command}" + (f"  [{c.rule}]" if c.rule else f"  [{c.reason}]")
        for c in explanation.commands
    ]
    return [first, *rule, *found]


def _rule(rule: Rule | None) -> str | None:
    return f"{rule.verdict} {rule.tool} {rule.pattern}" if rule else None


def _origin(rule: Rule | None) -> str | None:
    return (rule.origin or "built in") if rule else None
