"""Finds the settings files, reads their text and checks it, with the place of every mistake.

Keys may be snake_case, camelCase or PascalCase, so S0's repositories and S3's
`Agents` section load as they are printed. Names that people choose (providers, models,
variables, headers) are kept as they are.
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import UnionType
from typing import NoReturn, TypeVar, Union, get_args, get_origin

import msgspec

from retinue.app.settings import Settings, SettingsFile, Tier, secret_name
from retinue.app.trust import read_trust
from retinue.registry.near import near_names
from retinue.schema.errors import SettingsError
from retinue.schema.permission import TierName

NAMES = ("retinue.toml", "retinue.yaml", "retinue.yml", "retinue.json")
REPOSITORIES = "repositories.json"
"""What `retinue repos add` writes, beside the user's own file."""
OPERATOR = "/etc/retinue"

_S = TypeVar("_S", bound=msgspec.Struct)

_ALIASES = {
    "agent_repositories": "repositories",
    "default_agent_slug": "default_agent",
    "global_prompt_variables": "variables",
    "api_key": "key",
    "mcp": "mcp_servers",
    "http_url": "url",
}
_MARKERS = (*NAMES, ".retinue", "agents")


def home_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("RETINUE_HOME") or Path.home() / ".retinue").absolute()


def project_folder(start: Path) -> Path:
    """The nearest folder up to the git root that looks like a project of ours; else where we are."""
    above: list[Path] = []
    for folder in (start, *start.parents):
        above.append(folder)
        if (folder / ".git").exists():
            break
    else:
        above = [start]
    return next((f for f in above if any((f / marker).exists() for marker in _MARKERS)), start)


def load_settings(
    start: Path | None = None, environ: Mapping[str, str] | None = None, *, is_root: bool = False
) -> Settings:
    """Read every tier.

    Args:
        start: Where to look for the project; the current folder when omitted.
        is_root: `start` is the project's folder.
    """
    environ = os.environ if environ is None else environ
    home, start = home_folder(environ), (start or Path.cwd()).absolute()
    root = start if is_root else project_folder(start)
    stamp = settings_stamp(home, root, environ)
    project = Tier(name="project", trusted=False)
    if root != home:
        project = _tier("project", root)
        hashes = read_trust(home).get(str(root), {})
        known = hashes.get(project.path.name if project.path else "")
        project = msgspec.structs.replace(project, trusted=project.path is None or known == project.hash)
    operator = _tier("operator", _operator(environ))
    return Settings(home=home, root=root, operator=operator, user=_user(home), project=project, stamp=stamp)


def settings_stamp(home: Path, root: Path, environ: Mapping[str, str]) -> tuple[tuple[str, int, int], ...]:
    """When each file that settings are read from was last written; another stamp, other settings."""
    names = [f"{folder}/{name}" for folder in (_operator(environ), home, root) for name in NAMES]
    found: list[tuple[str, int, int]] = []
    for name in (*names, f"{home}/{REPOSITORIES}", f"{home}/trust.json"):
        with suppress(OSError):
            status = os.stat(name)  # noqa: PTH116 - asked for every run, and paths cost more than the asking
            found.append((name, status.st_mtime_ns, status.st_size))
    return tuple(found) or (("", 0, 0),)


def _operator(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("RETINUE_OPERATOR") or OPERATOR)


def read_settings(path: Path) -> SettingsFile:
    """Parse one file. Raises SettingsError with file, line and key."""
    return _parse(path, _text(path))


def read_fields(path: Path) -> Mapping[str, object]:
    """A file of keys and values that is no settings file, by its extension."""
    text = _text(path)
    return _Reader(path, text).mapping(_decode(path, text), ())


def _user(home: Path) -> Tier:
    user, added = _tier("user", home), home / REPOSITORIES
    if not added.exists():
        return user
    more = read_settings(added)
    settings = msgspec.structs.replace(
        user.settings,
        repositories=user.settings.repositories + more.repositories,
        local_repositories=more.local_repositories or user.settings.local_repositories,
    )
    return msgspec.structs.replace(user, settings=settings, path=user.path or added)


def _tier(name: TierName, folder: Path) -> Tier:
    found = [path for n in NAMES if (path := folder / n).is_file()]
    if not found:
        return Tier(name=name)
    if len(found) > 1:
        raise SettingsError(f"{folder} holds {' and '.join(p.name for p in found)}", hint="keep one of them")
    from hashlib import sha256

    text = _text(found[0])
    digest = sha256(text.encode()).hexdigest()
    return Tier(name=name, path=found[0], hash=digest, settings=_parse(found[0], text))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise SettingsError(f"{path}: can't be read: {e}") from e


def _parse(path: Path, text: str) -> SettingsFile:
    data = _decode(path, text)
    reader = _Reader(path, text)
    settings = reader.struct({} if data is None else reader.mapping(data, ()), SettingsFile, ())
    for name, provider in settings.providers.items():
        if provider.key is not None and secret_name(provider.key) is None:
            reader.fail(("providers", name, "key"), "holds the key itself", hint='write key = "env(NAME)"')
    return settings


def _decode(path: Path, text: str) -> object:
    if path.suffix == ".toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            said, _, at = str(e).partition(" (at line ")
            line, _, column = at.rstrip(")").partition(", column ")
            raise SettingsError(f"{path}:{line or 1}:{column or 1}: not TOML: {said}") from e
    if path.suffix == ".json":
        import json

        try:
            return json.loads(text)
        except json.JSONDecodeError as e:
            raise SettingsError(f"{path}:{e.lineno}:{e.colno}: not JSON: {e.msg}") from e
    return _yaml(path, text)


class _Reader:
    """Checks values against the structs and says where one does not fit."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def struct(self, data: Mapping[str, object], kind: type[_S], at: tuple[str, ...]) -> _S:
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, object] = {}
        for key, value in data.items():
            name = _snake(key)
            if key == "$schema" or key.startswith("x-"):
                continue
            if name not in fields:
                self._unknown((*at, key), fields)
            values[name] = self._value(value, fields[name].type, (*at, key))
        for name, field in fields.items():
            if field.required and name not in values:
                self.fail(at, f"lacks {name!r}")
        return kind(**values)

    def fail(self, at: tuple[str, ...], message: str, *, hint: str | None = None) -> NoReturn:
        raise SettingsError(f"{self._path}:{_line(self._text, at)}: {'.'.join(at) or 'the file'} {message}", hint=hint)

    def _unknown(self, at: tuple[str, ...], fields: Mapping[str, object]) -> NoReturn:
        near = near_names(_snake(at[-1]), fields, limit=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(fields)}"
        self.fail(at, "is not a known key", hint=hint)

    def _value(self, value: object, kind: object, at: tuple[str, ...]) -> object:
        origin, args = get_origin(kind), get_args(kind)
        if origin in (Union, UnionType):
            if value is None:
                return None
            kind = next(a for a in args if a is not type(None))
            origin, args = get_origin(kind), get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(self.mapping(value, at), kind, at)
        if origin is Mapping and args[1] is not object:
            return {k: self._value(v, args[1], (*at, k)) for k, v in self.mapping(value, at).items()}
        if origin is tuple and args[1:] == (...,):
            if not isinstance(value, list):
                self.fail(at, f"is {_kind(value)}, wanted a list")
            items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
            return tuple(self._value(item, args[0], (*at, str(i))) for i, item in enumerate(items))
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as e:
            self.fail(at, f"does not fit: {str(e).partition(' - at')[0].replace('`', '')}")

    def mapping(self, value: object, at: tuple[str, ...]) -> Mapping[str, object]:
        try:
            return msgspec.convert(value, dict[str, object])
        except msgspec.ValidationError:
            self.fail(at, f"is {_kind(value)}, wanted keys and values")


def _yaml(path: Path, text: str) -> object:
    from retinue.definition.node import plain
    from retinue.definition.tree import Broken, read_yaml

    try:
        node = read_yaml(text, 1, lambda _: False)
    except Broken as e:
        raise SettingsError(f"{path}:{e.line}:{e.column}: not YAML: {e.message}") from e
    return None if node is None else plain(node)


def _snake(key: str) -> str:
    """`gitUrl`, `GitUrl` and `git-url` are `git_url`."""
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()
    return _ALIASES.get(name, name)


def _line(text: str, at: tuple[str, ...]) -> int:
    """The line of a key, found by walking its path through the text; lists are not counted."""
    position = 0
    for key in at:
        if key.isdigit():
            continue
        found = re.compile(rf"""(?m)(?:^|[\s{{\[,."']){re.escape(key)}["']?\s*[:=\].]""").search(text, position)
        if found:
            position = found.end() - 1
    return text.count("\n", 0, position) + 1


def _kind(value: object) -> str:
    names: dict[type, str] = {
        dict: "keys and values",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "nothing",
    }
    return names.get(type(value), "a number")
