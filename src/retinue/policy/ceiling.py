"""What a child may not exceed.

The denies of operator, user, project and session, and planning's read-only,
descend the chain of callers. A caller's own rules and filters do not: a child's
power is its own, under this ceiling.
"""

from collections.abc import Iterable, Sequence

from retinue.policy.rules import Tier, merge
from retinue.schema.permission import Rule

_DENIES = frozenset(("deny",))
_PLANNING = (
    "read glob grep list diagnostics todo question task webfetch websearch call_agent delegate_to_agent agent_* "
    "subagent_create subagent_message request_user_input load_memory complete_agent_execution complete_task"
)


def planning_tier(read_tools: Iterable[str] = ()) -> Tier:
    """Return planning's read-only as rules: what reads, asks a person or delegates, and nothing else.

    Args:
        read_tools: Names of other tools whose declared effect is read.
    """
    reason = "planning changes nothing"
    return Tier(
        "session",
        (
            Rule(tool="*", verdict="deny", reason=reason),
            *(Rule(tool=tool, verdict="allow", reason=reason) for tool in (*_PLANNING.split(), *read_tools)),
        ),
        counts=_DENIES,
    )


def ceiling(
    caller: Sequence[Tier], *, inherited: Sequence[Tier] = (), planning: Tier | None = None
) -> tuple[Tier, ...]:
    """Return the ceiling of a child: what its caller is under, and what the caller's own tiers deny.

    Args:
        caller: The caller's tiers; those of its definition are left out here.
        inherited: The ceiling that the caller is under itself.
        planning: `planning_tier(...)` when the caller plans.
    """
    own = tuple(Tier(t.name, t.rules, counts=_DENIES) for t in caller if t.name != "agent")
    return merge(inherited, own, (planning,) if planning else ())


def denies(tiers: Sequence[Tier]) -> tuple[Rule, ...]:
    """Return a ceiling as one list of rules, for the log.

    Exceptions that an author made to a deny are left out: in one list they would
    loosen the denies of others.
    """
    return tuple(dict.fromkeys(rule for tier in tiers for rule in tier.rules if rule.verdict == "deny"))
