"""Decides whether an operation on a file may happen, on what its path resolves to.

Resolving belongs to the tools, which find the file, describe it as a `Target`
and use the same descriptor afterwards. Nothing here touches the disk.
"""

import os.path
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from retinue.policy.patterns import expand_home, overlap
from retinue.policy.rules import EDIT, Tier, authorize, strictest
from retinue.ports.tool import Op, Target
from retinue.schema.permission import Decision, Rule, Verdict


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works."""

    workspace: str
    home: str = ""
    own: tuple[str, ...] = ()
    """Folders that are read without asking: the thread's own files."""
    protected: tuple[str, ...] = ()
    """Absolute paths that no agent changes, with all below them: sources of agents, settings, data."""


def _written(*lines: str) -> tuple[str, ...]:
    return tuple(name for line in lines for name in line.split())


_FOLDERS = _written(
    ".git .retinue .vscode .idea .ssh .gnupg .claude/agents .claude/commands .claude/hooks .opencode/agent",
    ".opencode/agents .gemini/agents .github/agents .cursor/agents .qwen/agents .kiro/agents .kodelet/agents",
    ".factory/droids .config/fish .config/git .config/retinue",
)
_NAMES = _written(
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout",
    ".kshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xinitrc .xsession .envrc .gitconfig .gitmodules",
    ".mcp.json retinue.toml retinue.yaml retinue.yml retinue.json .cursor/mcp.json .kiro/mcp.json",
    ".claude/settings.json .claude/settings.local.json .gemini/settings.json .gemini/settings.local.json",
    ".qwen/settings.json .qwen/settings.local.json",
)
_PROTECTED = re.compile(
    rf"(?:^|/)(?:(?:{'|'.join(map(re.escape, _FOLDERS))})(?:/|$)|(?:{'|'.join(map(re.escape, _NAMES))})$)"
)
_PROTECTED_PATTERNS = tuple(f"*/{n}" for n in (*_NAMES, *_FOLDERS, *(f"{folder}/*" for folder in _FOLDERS)))
_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(?:environ|mem|auxv)|/proc/kcore|/dev/k?mem")


def judge_file(
    target: Target,
    place: Place,
    *,
    tiers: Sequence[Tier],
    fallback: Verdict,
    tool: str | None = None,
    pattern: bool = False,
) -> Decision:
    """Return whether `target.op` may happen.

    Args:
        target: The file as it was asked for and as it was found.
        place: The workspace and what is special around it.
        tiers: Rules about `read` and `edit`; their patterns match the path within the
            workspace, or the whole path when they are written from the root.
        fallback: For a file in the workspace that no rule matches.
        tool: The tool's name in rules, when it is not `read` or `edit`.
        pattern: The path is a shell pattern and stands for every file it matches.
    """
    tool = tool or ("read" if target.op == "read" else EDIT)
    if refused := _refused(target, place, pattern=pattern):
        return Decision(verdict="deny", reason=refused)
    inside = within(target.path, place.workspace)
    if target.op != "read" and not inside and within(os.path.normpath(target.asked), place.workspace):
        return Decision(verdict="deny", reason=f"{target.asked} leads out of the workspace, to {target.path}")
    decision = _by_rules(tool, target, place, tiers, fallback)
    if decision.verdict != "allow":
        return decision
    denies = [rule for tier in tiers for rule in tier.about(tool) if rule.verdict == "deny"]
    if denies and target.more_names:
        return Decision(verdict="ask", reason=f"{target.asked} has other names, and one may be denied")
    if denies and pattern and (rule := _may_match(target.path, denies, place)):
        return Decision(verdict="ask", reason=f"{target.path} may match a file that is denied", rule=rule)
    own = target.op == "read" and any(within(target.path, folder) for folder in place.own)
    if inside or own or (decision.rule and expand_home(decision.rule.pattern, place.home).startswith("/")):
        return decision
    return Decision(verdict="ask", reason=f"{target.path} is outside the workspace")


def within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; a folder whose name merely starts alike is not."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def protected(path: str, place: Place, *, pattern: bool = False) -> bool:
    """Return whether no agent may change `path`, whether or not it exists; a pattern, whatever it may match."""
    if any(within(path, folder) for folder in place.protected):
        return True
    plain = path if path.isascii() else _folded(path)
    plain = plain.casefold()
    if _PROTECTED.search(plain):
        return True
    kept = (name for folder in place.protected for name in (folder, f"{folder}/*"))
    return pattern and any(overlap(name, plain) for name in (*_PROTECTED_PATTERNS, *kept))


def spellings(name: str, place: Place) -> tuple[str, ...]:
    """Return a path as rules may write it; `./` lets `**/x` match at the workspace's top."""
    if not within(name, place.workspace):
        return (name,)
    relative = name[len(place.workspace.rstrip("/")) + 1 :]
    return relative, f"./{relative}"


def lexical(op: Op, path: str) -> Target:
    """Return a target that nobody has resolved, for explanations and tests."""
    return Target(op=op, asked=path, path="/" + os.path.normpath(path).lstrip("/"))


def _refused(target: Target, place: Place, *, pattern: bool) -> str:
    names = (target.path, *target.names)
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in target.asked):
        return "the name holds control characters"
    if target.kind == "other":
        return f"{target.path} is not a regular file"
    if any(_PROCESS.fullmatch(name) for name in names):
        return f"{target.path} holds secrets of processes"
    if target.op == "read":
        return ""
    for name in (*names, os.path.normpath(target.asked)):
        if protected(name, place, pattern=pattern):
            return f"{name} is protected: no agent changes it"
    if target.op in ("delete", "rename") and any(within(place.workspace, name) for name in names):
        return f"{target.path} holds the workspace"
    return ""


def _by_rules(tool: str, target: Target, place: Place, tiers: Sequence[Tier], fallback: Verdict) -> Decision:
    """The strictest over the file's real names; the name it was asked by can only add a deny."""

    def judged(name: str) -> Decision:
        first, *rest = spellings(name, place)
        return authorize(tool, first, tiers, fallback=fallback, also=rest, home=place.home, rooted=name)

    asked = os.path.normpath(target.asked)
    if asked != target.path and (other := judged(asked)).verdict == "deny":
        return other
    first = judged(target.path)
    return strictest((first, *(judged(name) for name in target.names))) or first


def _may_match(path: str, rules: Sequence[Rule], place: Place) -> Rule | None:
    names = (*spellings(path, place), path)
    patterns = ((rule, expand_home(rule.pattern, place.home)) for rule in rules)
    return next((rule for rule, pattern in patterns if any(overlap(pattern, name) for name in names)), None)


def _folded(path: str) -> str:
    """Some file systems ignore format characters and compatibility forms in names."""
    return "".join(c for c in unicodedata.normalize("NFKC", path) if unicodedata.category(c) != "Cf")
