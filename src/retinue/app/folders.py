"""Which folders hold agents: the project's, the user's, and those of other tools."""

from collections.abc import Callable, Iterator
from pathlib import Path

from retinue.app.settings import Settings
from retinue.app.trust import Trusted
from retinue.sources.directory import DirectorySource

FOREIGN = (
    ".claude/agents",
    ".opencode/agent",
    ".opencode/agents",
    ".gemini/agents",
    ".github/agents",
    ".cursor/agents",
    ".factory/droids",
    ".qwen/agents",
    ".kiro/agents",
    ".kodelet/agents",
)
"""Where other tools keep their agents, below a project and below the user's home."""


def project_folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Names and folders of the project; what is in them is untrusted until a person trusts it."""
    root = settings.root
    if root / ".retinue" != settings.home:
        yield "project", root / ".retinue" / "agents"
    if root != settings.home:
        yield "project:agents", root / "agents"
    for name in settings.project.settings.agent_dirs:
        folder = (root / name).resolve()
        if folder.is_relative_to(root.resolve()):  # a project can't have us read the rest of the machine
            yield f"project:{name}", folder
    if settings.foreign_dirs and root != Path.home():
        yield from ((f"project:{name}", root / name) for name in FOREIGN)


def unread(settings: Settings) -> str | None:
    """Where agents of other tools lie in the project while nobody asked for them, and how to."""
    if settings.foreign_dirs or settings.root == Path.home():
        return None
    found = [name for name in FOREIGN if (settings.root / name).is_dir()]
    return f"for the agents in {', '.join(found)}: foreign_dirs = true in retinue.toml" if found else None


def user_folders(settings: Settings, user_home: Path) -> Iterator[tuple[str, Path]]:
    """Names and folders of the user, who is trusted."""
    yield "user", settings.home / "agents"
    files = (settings.user.settings, settings.operator.settings)
    for name in (name for file in files for name in file.agent_dirs):
        yield f"user:{name}", settings.home / Path(name).expanduser()
    if any(file.foreign_dirs for file in files):
        yield from ((f"user:{name}", user_home / name) for name in FOREIGN)


def folder_sources(
    settings: Settings,
    trusted: Callable[[], Trusted],
    user_home: Path,
    progress: Callable[[str, float], None] | None = None,
) -> Iterator[DirectorySource]:
    for name, folder in project_folders(settings):
        yield DirectorySource(name, folder, kind="project", trust=_trust(trusted, folder), progress=progress)
    for name, folder in user_folders(settings, user_home):
        yield DirectorySource(name, folder, kind="user", progress=progress)


def _trust(trusted: Callable[[], Trusted], folder: Path) -> Callable[[str, str], bool]:
    """Asks at every load, because a person may trust an agent meanwhile."""
    key = str(folder.absolute())
    return lambda id, hash: bool(hash) and trusted().get(key, {}).get(id) == hash
