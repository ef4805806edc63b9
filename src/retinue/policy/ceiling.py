"""What a child may not exceed.

The denies of operator, user, project and session, and planning's read-only,
descend the chain of callers. A caller's own rules and filters do not: a child's
power is its own, under this ceiling.
"""

from collections.abc import Sequence

from retinue.policy.rules import Tier
from retinue.schema.permission import Rule


def denies(tiers: Sequence[Tier]) -> tuple[Rule, ...]:
    """Return a ceiling as one list of rules, for the log.

    Exceptions that an author made to a deny are left out: in one list they would
    loosen the denies of others.
    """
    return tuple(dict.fromkeys(rule for tier in tiers for rule in tier.rules if rule.verdict == "deny"))
