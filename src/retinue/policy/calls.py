"""Decides on a whole call: the one place that knows which judge a tool's resource needs.

A shell command is parsed, files are judged by what they resolve to, a URL by
where it leads, anything else by its rules alone. Grants come last.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from retinue.policy.files import Place, judge_file, lexical, spellings
from retinue.policy.network import judge_url
from retinue.policy.rules import Tier, apply_grants, authorize, strictest
from retinue.policy.shell.judge import judge_command
from retinue.policy.shell.judgement import FileUse
from retinue.ports.memory import Grant
from retinue.ports.tool import Op, Target
from retinue.schema.permission import Decision, Verdict

Resolve = Callable[[Op, str], Target]
"""Finds what an absolute path leads to; the default follows no links."""
Expand = Callable[[str], Iterable[str]]
"""Finds the names that an absolute shell pattern matches and that need a look; the default looks at no disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Everything that has a say in a thread's calls."""

    tiers: tuple[Tier, ...]
    fallback: Verdict
    place: Place
    grants: Sequence[Grant] = ()
    thread: str = ""
    definition_hash: str = ""
    hosts: frozenset[str] = field(default_factory=frozenset[str])
    """`host:port` pairs that the operator allows."""


def judge_call(
    authority: Authority,
    tool: str,
    resource: str,
    *,
    targets: Sequence[Target] = (),
    digest: str = "",
    cwd: str = "",
    resolve: Resolve = lexical,
    expand: Expand = lambda _: (),
) -> Decision:
    """Return the decision on one call.

    Args:
        authority: Rules, grants and the workspace.
        tool: The tool's name.
        resource: What its rules match on.
        targets: The files that the tool says it will touch, or the URL.
        digest: `call_digest` of the call, for grants that bind to it.
        cwd: Where a command runs, absolute; the workspace when it is empty.
        resolve: Finds files that a command names.
        expand: Finds files that a pattern in a command matches.
    """
    names = [resource]
    if tool == "bash":
        decision, names = _shell(authority, resource, cwd or authority.place.workspace, resolve, expand), []
    elif files := [target for target in targets if target.op != "fetch"]:
        decision, names = strictest(judge_target(authority, target, tool) for target in files), []
    elif tool == "webfetch":
        decision = strictest((judge_url(resource, allow=authority.hosts), _by_rules(authority, tool, resource)))
    else:
        decision = _by_rules(authority, tool, resource)
    return _granted(authority, decision or _by_rules(authority, tool, resource), tool, names, digest)


def judge_target(authority: Authority, target: Target, tool: str = "") -> Decision:
    """Return the decision on one file that a tool has found; a reading tool is bound by `read`'s rules too."""
    place, tiers, fallback = authority.place, authority.tiers, authority.fallback
    decision = judge_file(target, place, tiers=tiers, fallback=fallback)
    if tool in ("glob", "grep", "list"):
        own = judge_file(target, place, tiers=tiers, fallback=fallback, tool=tool)
        decision = strictest((decision, own)) or decision
    names = (target.path, *spellings(target.path, place))
    return _granted(authority, decision, tool or ("read" if target.op == "read" else "edit"), names)


def _shell(authority: Authority, command: str, cwd: str, resolve: Resolve, expand: Expand) -> Decision:
    def judge(text: str) -> Decision:
        return _granted(authority, _by_rules(authority, "bash", text), "bash", [text])

    def files(use: FileUse) -> Decision:
        place, tiers = authority.place, authority.tiers
        made = judge_file(resolve(use.op, use.path), place, tiers=tiers, fallback=use.fallback, pattern=use.pattern)
        others: list[Decision] = []
        for path in expand(use.path) if use.pattern else ():
            others.append(judge_file(resolve(use.op, path), place, tiers=tiers, fallback=use.fallback))
            if use.bare and path.rpartition("/")[2].startswith("-"):
                others.append(Decision(verdict="ask", reason=f"the name of {path} looks like an option"))
        return strictest((made, *others)) or made

    return judge_command(command, judge=judge, files=files, cwd=cwd, home=authority.place.home)


def _by_rules(authority: Authority, tool: str, resource: str) -> Decision:
    return authorize(tool, resource, authority.tiers, fallback=authority.fallback, home=authority.place.home)


def _granted(authority: Authority, decision: Decision, tool: str, names: Sequence[str], digest: str = "") -> Decision:
    """Of a whole command, or of a call on files, only an exact approval counts: patterns answered its parts."""
    return apply_grants(
        decision,
        authority.grants,
        tool=tool,
        names=names,
        digest=digest,
        definition_hash=authority.definition_hash,
        thread=authority.thread,
        home=authority.place.home,
    )
