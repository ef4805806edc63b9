"""Decides by rules whether a call may run.

Within a tier the last matching rule wins, so an author writes the general rule
first; across tiers the strictest verdict wins, so nobody loosens what someone
else has said. Nothing here waits: `ask` is an answer, and the runtime turns it
into a question. What a shell command hides is `retinue.policy.shell`'s subject,
what a path resolves to that of `retinue.policy.files`.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from retinue.policy.patterns import Match, expand_home, matcher
from retinue.ports.memory import Grant
from retinue.ports.tool import Target
from retinue.schema.permission import STRICTNESS, Decision, Rule, TierName, Verdict

EDIT = "edit"
_CATEGORY: dict[str, str] = dict.fromkeys(("write", "edit", "multi_edit", "multiedit", "patch", "apply_patch"), EDIT)

_Compiled = tuple[tuple[Match, Rule, bool], ...]


@dataclass(frozen=True, slots=True)
class Tier:
    """Rules of one author.

    `counts` are the verdicts that have a say: a project's allow never loosens
    anything, and of a caller's tiers only the denies reach a child.
    """

    name: TierName
    rules: tuple[Rule, ...] = ()
    counts: frozenset[Verdict] = frozenset(("allow", "ask", "deny"))
    _compiled: dict[tuple[str, str], _Compiled] = field(
        default_factory=dict[tuple[str, str], _Compiled], init=False, compare=False, repr=False
    )

    def decide(self, tool: str, names: Sequence[str], home: str = "", rooted: str = "") -> Decision | None:
        """Return what the last rule that matches any of `names` says, if this tier has a say in it.

        `rooted` is one more name, for patterns written from the root only: where a
        workspace lies says nothing about the files in it.
        """
        key = (tool, home)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = tuple(
                (matcher(rule.pattern, home), rule, expand_home(rule.pattern, home).startswith("/"))
                for rule in reversed(self.rules)
                if matcher(category(rule.tool))(category(tool))
            )
        for match, rule, absolute in compiled:
            for name in names:
                if match(name):
                    return self._counted(rule)
            if absolute and rooted and match(rooted):
                return self._counted(rule)
        return None

    def about(self, tool: str) -> tuple[Rule, ...]:
        """Return the rules for `tool`, the last first."""
        self.decide(tool, ())
        return tuple(rule for _, rule, _ in self._compiled[(tool, "")])

    def _counted(self, rule: Rule) -> Decision | None:
        if rule.verdict not in self.counts or (self.name == "project" and rule.verdict == "allow"):
            return None
        reason = rule.reason or f"the {self.name}'s rule says {rule.verdict}: {rule.tool} {rule.pattern}"
        return Decision(verdict=rule.verdict, reason=reason, tier=self.name, rule=rule)


def category(tool: str) -> str:
    """Return the tool's name in rules: write, edit and multi_edit are one, `edit`."""
    return _CATEGORY.get(tool, tool)


def authorize(
    tool: str,
    resource: str,
    tiers: Iterable[Tier],
    *,
    fallback: Verdict,
    also: Sequence[str] = (),
    home: str = "",
    rooted: str = "",
) -> Decision:
    """Return the decision for one call and the rule that made it.

    Args:
        tool: The tool's canonical name.
        resource: The command, path, URL, query or agent.
        tiers: Every tier that has a say, in any order.
        fallback: The ruleset's default, for a call that no rule matches.
        also: Other names of the same resource; a rule that matches any of them matches.
        home: What `~` means in patterns.
        rooted: See `Tier.decide`.
    """
    names = (resource, *also)
    made = [d for tier in tiers if (d := tier.decide(tool, names, home, rooted))]
    return strictest(made) or Decision(verdict=fallback, reason=f"no rule matches; the default is {fallback}")


def strictest(decisions: Iterable[Decision]) -> Decision | None:
    """Return the first of the strictest."""
    return max(decisions, key=lambda d: STRICTNESS[d.verdict], default=None)


def allowed_commands(commands: Sequence[str] | None) -> tuple[Rule, ...]:
    """Return S2's list as rules: the listed commands allow, every other asks.

    They are a tier of their own, so a deny elsewhere stays a deny. An empty
    list removes bash altogether; `retinue.policy.filters` sees to it.
    """
    if commands is None:
        return ()
    listed = (
        Rule(tool="bash", pattern=c, verdict="allow", reason=f"listed in allowed_commands: {c}") for c in commands
    )
    other = Rule(tool="bash", verdict="ask", reason="not listed in allowed_commands")
    return (other, *listed)


def call_digest(tool: str, arguments_json: str, definition_hash: str, targets: Sequence[Target] = ()) -> str:
    """Return what an approval binds to.

    One byte changed in the call, another definition, or another file behind the
    same path, and it is asked again.
    """
    parts = (category(tool).encode(), arguments_json.encode(), definition_hash.encode())
    parts += tuple(msgspec.json.encode(target) for target in targets)
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).hexdigest()


def apply_grants(
    decision: Decision,
    grants: Collection[Grant],
    *,
    tool: str,
    names: Sequence[str] = (),
    digest: str = "",
    definition_hash: str = "",
    thread: str = "",
    home: str = "",
) -> Decision:
    """Turn ask into allow where a person has said so; a deny stays, an allow needs no grant.

    Args:
        decision: What rules say.
        grants: Those of the thread and those saved for the user.
        tool: The tool that is called.
        names: The resource, resolved, in every spelling that a grant's pattern may match;
            none for a call that only an exact approval can answer.
        digest: `call_digest` of the call.
        definition_hash: The agent's; grants of another definition do not count.
        thread: The thread that calls; grants of another thread do not count.
        home: What `~` means in patterns.
    """
    if decision.verdict != "ask":
        return decision
    for grant in grants:
        if category(grant.tool) != category(tool) or grant.thread not in (None, thread):
            continue
        if grant.definition_hash and grant.definition_hash != definition_hash:
            continue
        match = matcher(grant.pattern, home)
        if (grant.exact == digest) if grant.exact else any(match(name) for name in names):
            said = "for this exact call" if grant.exact else f"for {grant.pattern}"
            rule = Rule(tool=grant.tool, pattern=grant.pattern, verdict="allow", origin=f"grant {grant.number}")
            return Decision(
                verdict="allow", reason=f"granted {said}", tier="session", rule=rule, commands=decision.commands
            )
    return decision
