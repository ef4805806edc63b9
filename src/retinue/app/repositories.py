"""The repositories that commands add: kept in `repositories.json` beside the user's own settings."""

from pathlib import Path

import msgspec

from retinue.app.files import write_whole
from retinue.app.settings import Settings
from retinue.app.settings_file import REPOSITORIES, read_fields
from retinue.schema.agent import Json
from retinue.schema.errors import UsageError


def add_repository(settings: Settings, fields: Json, *, local: bool) -> Path:
    """Write one more repository, in S0's spelling.

    Args:
        local: It is a path of this machine, so such are allowed from now on.
    """
    name = fields.get("name")
    for known in settings.repositories:
        if known.fields.get("name") == name:
            raise UsageError(f"there is a repository {name!r} already, in {known.origin}", hint="choose another --name")
    path = settings.home / REPOSITORIES
    data = _read(path)
    data["agentRepositories"] = [*_list(data), dict(fields)]
    if local:
        data["localRepositories"] = True
    _write(path, data)
    return path


def remove_repository(settings: Settings, name: str) -> Path:
    """Take a repository out of the file that `add_repository` writes; others' files are left alone."""
    path = settings.home / REPOSITORIES
    data = _read(path)
    kept = [r for r in _list(data) if r.get("name") != name]
    if len(kept) == len(_list(data)):
        others = [r.origin for r in settings.repositories if r.fields.get("name") == name]
        if others:
            raise UsageError(f"{name!r} is configured in {others[0]}", hint="remove it there")
        known = ", ".join(str(r.fields.get("name")) for r in settings.repositories) or "none"
        raise UsageError(f"there is no repository {name!r}; there are: {known}")
    data["agentRepositories"] = kept
    _write(path, data)
    return path


def _read(path: Path) -> dict[str, object]:
    return dict(read_fields(path)) if path.exists() else {}


def _list(data: Json) -> list[dict[str, object]]:
    return msgspec.convert(data.get("agentRepositories", []), list[dict[str, object]])


def _write(path: Path, data: Json) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n")
