"""The repositories that are configured and how they fare; those that commands add are in `repositories.json`."""

from pathlib import Path

import msgspec

from retinue.app.catalog import CatalogHolder, mirror_folder
from retinue.app.files import write_whole
from retinue.app.settings import Repository, Settings
from retinue.app.settings_file import REPOSITORIES, read_fields
from retinue.schema.agent import Json
from retinue.schema.errors import UsageError
from retinue.sources.mirror import State
from retinue.sources.repository import parse_repository, shown


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


def described(settings: Settings, repository: Repository) -> dict[str, object]:
    """A repository as it is configured; without secrets, which are only ever named."""
    config, problems = parse_repository(repository.fields, origin=repository.origin)
    listed: dict[str, object] = {"origin": repository.origin, "error": None}
    if config is None:
        said = "; ".join(p.message for p in problems)
        listed |= {"name": str(repository.fields.get("name", "?")), "state": "misconfigured", "error": said}
        return listed | dict.fromkeys(("gitUrl", "branch", "prefix"), "")
    state = "ready" if (mirror_folder(settings, config.name) / "state.json").exists() else "never synced"
    if not config.is_active:
        state = "inactive"
    return listed | {
        "name": config.name,
        "gitUrl": shown(config.git_url),
        "branch": config.branch,
        "isRoot": config.is_root,
        "syncInterval": config.sync_interval,
        "authType": config.auth_type,
        "isActive": config.is_active,
        "readOnly": config.read_only,
        "prefix": "" if config.is_root else f"{config.name}/",
        "state": state if repository.trusted else "untrusted",
    }


def status_of(holder: CatalogHolder) -> list[dict[str, object]]:
    """Every configured repository, and what its last sync came to."""
    settings = holder.settings
    states = {s.config.name: s.mirror.state() for s in holder.repositories}
    rows: list[dict[str, object]] = []
    for listed in (described(settings, r) for r in settings.repositories):
        name = str(listed["name"])
        snapshot = next((s for s in holder.current.snapshots if s.name == f"git:{name}"), None)
        state = states.get(name, State())
        word = listed["state"]
        if word in ("ready", "never synced") and snapshot is not None and snapshot.error:
            word = "unavailable"
        if snapshot is not None and snapshot.stale:
            word = "stale"
        entries = snapshot.entries.values() if snapshot is not None else ()
        rows.append(
            {
                **listed,
                "state": word,
                "commit": snapshot.commit if snapshot is not None else None,
                "checked": state.checked or None,
                "agents": sum(e.definition is not None for e in entries),
                "problems": sum(len(e.problems) for e in entries),
                "error": state.error or (snapshot.error if snapshot is not None else listed["error"]),
            }
        )
    return rows


def _read(path: Path) -> dict[str, object]:
    return dict(read_fields(path)) if path.exists() else {}


def _list(data: Json) -> list[dict[str, object]]:
    return msgspec.convert(data.get("agentRepositories", []), list[dict[str, object]])


def _write(path: Path, data: Json) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n")
