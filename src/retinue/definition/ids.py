"""Which path of a source is which agent (S0 §5.4): pure text, no file is looked at."""

import re

from retinue.schema.ids import AgentId

_SUFFIXES = (".agent", ".chatmode")
_FOLDER_FILES = {"prompt.md": 0, "agent.md": 1}
_BAD = re.compile(r"(?:^|/)(?:\.{0,2}(?:/|$)|\s)|\s(?:/|$)|[\x00-\x1f\x7f\\:]")
"""Segments that are empty, `.`, `..` or start or end with a space, and characters no segment may hold."""


def agent_id(path: str) -> AgentId | None:
    """The id of a relative POSIX path, or None when no agent can be there.

    `a/b/prompt.md`, `a/b/agent.md` and `a/b.md` are all `a/b`; when several exist, `precedence` decides.
    """
    *folders, file = path.split("/")
    if file.startswith("_") or not file.lower().endswith(".md") or "prompts" in folders:
        return None
    stem = file[:-3]
    id = "/".join(folders if file in _FOLDER_FILES and folders else [*folders, _without_suffix(stem)])
    return None if _BAD.search(id) else AgentId(id)


def precedence(path: str) -> int:
    """Of two files with one id, the lower number wins."""
    folder, _, file = path.rpartition("/")
    return _FOLDER_FILES.get(file, 2) if folder else 2


def fold(id: str) -> str:
    """Case and `_`/`-` do not tell names apart when nothing matches exactly."""
    return id.lower().replace("_", "-")


def _without_suffix(stem: str) -> str:
    for suffix in _SUFFIXES:
        if stem.endswith(suffix) and stem != suffix:
            return stem[: -len(suffix)]
    return stem
