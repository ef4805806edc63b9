"""Decides whether an operation on a file may happen, on what its path resolves to.

Resolving belongs to the tools, which open the file, describe it as a `Target`
and use the same descriptor afterwards. Nothing here touches the disk.
"""

import os.path
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from retinue.policy.patterns import expand_home, overlap
from retinue.policy.rules import EDIT, Tier, authorize, strictest
from retinue.schema.permission import Decision, Verdict

FileOp = Literal["read", "write", "create", "delete", "rename"]
FileKind = Literal["regular", "folder", "missing", "special"]
"""special: a FIFO, a device or a socket."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file as it was asked for and as it was found."""

    asked: str
    """Absolute, `..` and links unresolved."""
    real: str
    """Absolute, every link followed; for a new file its parent's real path and its name."""
    kind: FileKind = "regular"
    aliases: tuple[str, ...] = ()
    """Other real paths of the same file: its hard links, as far as they are known."""
    unknown_links: bool = False
    """It has more hard links than `aliases` tells."""
    pattern: bool = False
    """The path is a shell pattern and stands for every file it matches."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an agent works."""

    workspace: str
    home: str = ""
    own: tuple[str, ...] = ()
    """Folders that are read without asking: the thread's own files."""
    protected: tuple[str, ...] = ()
    """Absolute paths that no agent changes, with all below them: sources of agents, settings, data."""


_FOLDERS = re.compile(
    r"(?:^|/)(?:\.git|\.retinue|\.vscode|\.idea|\.ssh|\.gnupg|\.claude/(?:agents|commands|hooks)|\.opencode/agents?"
    r"|\.(?:gemini|github|cursor|qwen|kiro|kodelet)/agents|\.factory/droids|\.config/(?:fish|git|retinue))(?:/|$)"
)
_NAMES = re.compile(
    r"\.(?:bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc"
    r"|cshrc|tcshrc|login|logout|inputrc|xprofile|xinitrc|xsession|envrc|gitconfig|gitmodules|mcp\.json)"
    r"|retinue\.(?:toml|ya?ml|json)"
)
_SETTINGS = re.compile(r"(?:^|/)(?:\.(?:claude|gemini|qwen)/settings(?:\.local)?|\.(?:cursor|kiro)/mcp)\.json$")
_PROCESS = re.compile(r"/proc/[^/]+(?:/task/[^/]+)?/(?:environ|mem|auxv)|/proc/kcore|/dev/k?mem")


def judge_file(
    op: FileOp,
    target: Target,
    place: Place,
    *,
    tiers: Sequence[Tier],
    fallback: Verdict,
    tool: str | None = None,
) -> Decision:
    """Return whether `op` may happen.

    Args:
        op: What happens to the file.
        target: The file.
        place: The workspace and what is special around it.
        tiers: Rules about `read` and `edit`; patterns match the path within the
            workspace, or the whole path when they are written from the root.
        fallback: For a file in the workspace that no rule matches.
        tool: The tool's name in rules, when it is not `read` or `edit`.
    """
    tool = tool or ("read" if op == "read" else EDIT)
    names = (target.real, *target.aliases)
    if refused := _refused(op, target, place, names):
        return Decision(verdict="deny", reason=refused)
    inside = within(target.real, place.workspace)
    if op != "read" and not inside and within(os.path.normpath(target.asked), place.workspace):
        return Decision(verdict="deny", reason=f"{target.asked} leads out of the workspace, to {target.real}")
    decision = _by_rules(tool, target, names, place, tiers, fallback)
    if decision.verdict != "allow":
        return decision
    if target.unknown_links and any(rule.verdict == "deny" for tier in tiers for rule in tier.about(tool)):
        return Decision(verdict="ask", reason=f"{target.asked} has other names, and one may be denied")
    own = op == "read" and any(within(target.real, folder) for folder in place.own)
    if inside or own or (decision.rule and expand_home(decision.rule.pattern, place.home).startswith("/")):
        return decision
    return Decision(verdict="ask", reason=f"{target.real} is outside the workspace")


def within(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; a folder whose name merely starts alike is not."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def protected(path: str, place: Place) -> bool:
    """Return whether no agent may change `path`, whether or not it exists."""
    if any(within(path, folder) for folder in place.protected):
        return True
    plain = path if path.isascii() else _folded(path)
    plain = plain.casefold()
    name = plain.rpartition("/")[2]
    return bool(_FOLDERS.search(plain) or _NAMES.fullmatch(name) or _SETTINGS.search(plain))


def hidden(place: Place, tiers: Sequence[Tier], tool: str = "read") -> Callable[[str], bool] | None:
    """Return a test for real paths that a listing must leave out; None when nothing is denied.

    A listing asks it for every file it finds, so it looks at rules only.
    """
    if not any(rule.verdict == "deny" for tier in tiers for rule in tier.about(tool)):
        return None

    def denied(path: str) -> bool:
        return _by_rules(tool, Target(path, path), (path,), place, tiers, "allow").verdict == "deny"

    return denied


def lexical(path: str, *, pattern: bool = False) -> Target:
    """Return a target that nobody has resolved, for explanations and tests."""
    real = os.path.normpath(path)
    return Target(asked=path, real="/" + real.lstrip("/"), pattern=pattern)


def _refused(op: FileOp, target: Target, place: Place, names: Sequence[str]) -> str:
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in target.asked):
        return "the name holds control characters"
    if target.kind == "special":
        return f"{target.real} is not a regular file"
    if any(_PROCESS.fullmatch(name) for name in names):
        return f"{target.real} holds secrets of processes"
    if op == "read":
        return ""
    for name in (*names, os.path.normpath(target.asked)):
        if protected(name, place):
            return f"{name} is protected: no agent changes it"
    if op in ("delete", "rename") and any(within(place.workspace, name) for name in names):
        return f"{target.real} holds the workspace"
    return ""


def _by_rules(
    tool: str, target: Target, names: Sequence[str], place: Place, tiers: Sequence[Tier], fallback: Verdict
) -> Decision:
    """The strictest over the file's real names; the name it was asked by can only add a deny."""

    def judged(name: str) -> Decision:
        first, *rest = _spellings(name, place)
        return authorize(tool, first, tiers, fallback=fallback, also=rest, home=place.home, rooted=name)

    decisions = [judged(name) for name in names]
    asked = os.path.normpath(target.asked)
    if asked not in names and (other := judged(asked)).verdict == "deny":
        return other
    decision = strictest(decisions) or decisions[0]
    if target.pattern and decision.verdict == "allow":
        spellings = (*_spellings(target.real, place), target.real)
        for rule in (rule for tier in tiers for rule in tier.about(tool) if rule.verdict == "deny"):
            if any(overlap(expand_home(rule.pattern, place.home), spelling) for spelling in spellings):
                return Decision(verdict="ask", reason=f"{target.real} may match a file that is denied", rule=rule)
    return decision


def _spellings(name: str, place: Place) -> tuple[str, ...]:
    """Return a path as rules may write it; `./` lets `**/x` match at the workspace's top."""
    if not within(name, place.workspace):
        return (name,)
    relative = name[len(place.workspace.rstrip("/")) + 1 :]
    return relative, f"./{relative}"


def _folded(path: str) -> str:
    """Some file systems ignore format characters and compatibility forms in names."""
    return "".join(c for c in unicodedata.normalize("NFKC", path) if unicodedata.category(c) != "Cf")
