"""One agent repository as the operator configures it (S0 §5.2), and every check of its text.

Pure: whether a URL may be used, what git is asked for and which variable holds
a secret are decided here; `retinue.sources.mirror` acts on them. Secrets are
named, `env(NAME)`, and their values never pass through this module.
"""

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from retinue.schema.errors import GitError
from retinue.schema.problem import Problem

AuthType = Literal["ssh-key", "token", "none"]
Transport = Literal["https", "http", "ssh", "file"]

_SEGMENT = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")
_SECRET = re.compile(r"env\(([A-Za-z_][A-Za-z0-9_]*)\)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_SCP = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*):[^-].*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9a-fA-F:.]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BAD_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(?:^|/)[.]|\.lock(?:/|$)|[./]$|^[-/]")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RepositoryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """REG-03's fields. `auth_token` and `webhook_secret` stay in the form `env(NAME)`."""

    name: str
    git_url: str
    branch: str = "main"
    is_root: bool = False
    sync_interval: float = 300.0
    """Seconds."""
    auth_type: AuthType = "none"
    ssh_key_path: str | None = None
    """None with `ssh-key`: the keys ssh would use by itself."""
    auth_token: str | None = None
    webhook_secret: str | None = None
    is_active: bool = True
    read_only: bool = False


class Remote(msgspec.Struct, frozen=True, kw_only=True):
    """What git is given, after every check."""

    url: str
    transport: Transport
    host: str = ""


def parse_repository(
    fields: Mapping[str, object], *, origin: str
) -> tuple[RepositoryConfig | None, tuple[Problem, ...]]:
    """Read one repository in S0's camelCase or in snake_case; all problems at once.

    Args:
        origin: The file the fields come from, for the problems.
    """
    problems = _Problems(origin, fields.get("name"))
    values: dict[str, object] = {}
    for key, value in fields.items():
        name = _snake(key)
        if name not in _FIELDS:
            problems.error("unknown_key", f"'{key}' is not a field of a repository", _did_you_mean(key))
        elif name in values:
            problems.error("duplicate_key", f"'{key}' is given twice, in camelCase and in snake_case")
        else:
            values[name] = value
    checked = {name: problems.check(name, value) for name, value in values.items() if value is not None}
    for name in ("name", "git_url"):
        if values.get(name) is None:
            problems.error("missing_key", f"a repository needs '{_camel(name)}'")
    if problems.failed:
        return None, tuple(problems.found)
    config = msgspec.convert({**_inferred(checked), **checked}, RepositoryConfig)
    problems.combination(config)
    return (None if problems.failed else config), tuple(problems.found)


def remote(config: RepositoryConfig, *, allow_local: bool) -> Remote:
    """The checked remote of `config`; with ssh-key an https URL becomes ssh to the same host and path.

    Plain http is for a server on this machine only, and local like a path: it
    needs `allow_local`.

    Raises:
        GitError: The URL or the branch may not be used.
    """
    if wrong := bad_branch(config.branch):
        raise GitError(f"repository {config.name}: {wrong}")
    parsed = _parse_url(config.git_url)
    if isinstance(parsed, str):
        raise GitError(f"repository {config.name}: {parsed}")
    if parsed.transport in ("file", "http") and not allow_local:
        raise GitError(
            f"repository {config.name}: {shown(config.git_url)} is on this machine, and local repositories are off",
            hint="allow local repositories in the operator's configuration, or use https or ssh",
        )
    if config.auth_type == "ssh-key" and parsed.transport == "https":
        path = urlsplit(config.git_url).path.lstrip("/")
        return Remote(url=f"git@{parsed.host}:{path}", transport="ssh", host=parsed.host)
    return parsed


def bad_name(name: str) -> str | None:
    """Why `name` can't be a repository's name, or None."""
    if all(_SEGMENT.fullmatch(segment) for segment in name.split("/")):
        return None
    return f"name is {name[:80]!r}; wanted letters, digits, _ and -, starting with a letter, segments joined by /"


def bad_branch(branch: str) -> str | None:
    """Why git could not have such a branch, or None."""
    if not branch or len(branch) > 255 or _BAD_REF.search(branch):
        return f"{branch[:80]!r} is not a branch name; wanted a name like 'main' or 'release/1.2'"
    return None


def secret_name(value: str) -> str | None:
    """The variable that `env(NAME)` names; None for anything else."""
    match = _SECRET.fullmatch(value)
    return match[1] if match else None


def secret(config: RepositoryConfig, field: Literal["auth_token", "webhook_secret"], env: Mapping[str, str]) -> str:
    """The value behind a secret field.

    Raises:
        GitError: It is not configured, or its variable is unset or empty.
    """
    name = secret_name((config.auth_token if field == "auth_token" else config.webhook_secret) or "")
    if name is None:
        raise GitError(f"repository {config.name} has no {_camel(field)}", hint="set it to env(NAME)")
    value = env.get(name, "")
    if not value:
        raise GitError(f"repository {config.name}: {_camel(field)} is env({name}), and {name} is not set")
    return value


def shown(url: str) -> str:
    """`url` without anything that could be a credential, fit for a message."""
    return _CONTROL.sub("?", re.sub(r"//[^/]*@", "//***@", url))[:200]


class _Problems:
    """Collects what is wrong with one repository."""

    def __init__(self, origin: str, name: object) -> None:
        self.found: list[Problem] = []
        self.failed = False
        self._origin = origin
        self._label = f"repository {name}: " if isinstance(name, str) and not bad_name(name) else "repository: "

    def error(self, code: str, message: str, hint: str | None = None) -> None:
        self.failed = True
        self._add("error", code, message, hint)

    def warning(self, code: str, message: str) -> None:
        self._add("warning", code, message, None)

    def _add(self, severity: Literal["error", "warning"], code: str, message: str, hint: str | None) -> None:
        self.found.append(
            Problem(code=code, severity=severity, message=self._label + message, file=self._origin, hint=hint)
        )

    def check(self, name: str, value: object) -> object:
        """The value in its own type; what is wrong with it is noted."""
        key, kind = _camel(name), _FIELDS[name]
        match kind, value:
            case "flag", bool():
                return value
            case "duration", str() | int() | float() if not isinstance(value, bool):
                seconds = _duration(value)
                if seconds is not None:
                    return seconds
            case "secret", str():
                if secret_name(value):
                    return value
                self.error(
                    "literal_secret", f"{key} holds a literal secret", "put it in a variable and write env(NAME)"
                )
                return None
            case "text", str() if value:
                if wrong := _text_problem(name, value):
                    self.error("bad_value", wrong)
                return value
            case _:
                pass
        got = (
            repr(value)[:80]
            if kind in ("flag", "duration")
            else f"of type {type(value).__name__}"
            if value
            else "empty"
        )
        self.error("bad_value", f"{key} is {got}; wanted {_WANTED[kind]}")
        return None

    def combination(self, config: RepositoryConfig) -> None:
        """What only several fields together can get wrong."""
        parsed = _parse_url(config.git_url)
        transport = parsed.transport if isinstance(parsed, Remote) else None
        if config.auth_type == "token":
            if config.auth_token is None:
                self.error("missing_key", "authType token needs authToken", "write authToken: env(NAME)")
            if transport not in ("https", "http"):
                self.error("bad_value", "authType token works with https URLs only")
        elif config.auth_token is not None:
            self.warning("unused_key", f"authToken is not used with authType {config.auth_type}")
        if config.auth_type == "ssh-key" and transport not in ("ssh", "https"):
            self.error("bad_value", "authType ssh-key works with ssh and https URLs only")
        if config.auth_type != "ssh-key":
            if transport == "ssh":
                self.error("bad_value", f"authType {config.auth_type} can't fetch over ssh", "use authType ssh-key")
            if config.ssh_key_path is not None:
                self.warning("unused_key", f"sshKeyPath is not used with authType {config.auth_type}")


_FIELDS: dict[str, Literal["text", "flag", "duration", "secret"]] = {
    "name": "text",
    "git_url": "text",
    "branch": "text",
    "is_root": "flag",
    "sync_interval": "duration",
    "auth_type": "text",
    "ssh_key_path": "text",
    "auth_token": "secret",
    "webhook_secret": "secret",
    "is_active": "flag",
    "read_only": "flag",
}
_WANTED = {
    "text": "text",
    "flag": "true or false",
    "duration": "a time of a second or more, like 30s, 5m or 1h",
    "secret": "env(NAME)",
}


def _text_problem(name: str, value: str) -> str | None:
    match name:
        case "name":
            return bad_name(value)
        case "git_url":
            parsed = _parse_url(value)
            return parsed if isinstance(parsed, str) else None
        case "branch":
            return bad_branch(value)
        case "auth_type":
            return (
                None
                if value in ("ssh-key", "token", "none")
                else f"authType is {value[:80]!r}; wanted ssh-key, token or none"
            )
        case _:
            if value.startswith(("/", "~/")) and not _CONTROL.search(value) and '"' not in value:
                return None
            return f"sshKeyPath is {value[:80]!r}; wanted an absolute path, or one that starts with ~/"


def _inferred(values: Mapping[str, object]) -> dict[str, object]:
    parsed = _parse_url(str(values["git_url"]))
    if isinstance(parsed, Remote) and parsed.transport == "ssh":
        return {"auth_type": "ssh-key"}
    if "auth_token" in values:
        return {"auth_type": "token"}
    return {"auth_type": "ssh-key"} if "ssh_key_path" in values else {}


def _parse_url(url: str) -> Remote | str:
    """The remote, or why the URL may not be used."""
    if url.startswith("-") or _CONTROL.search(url) or len(url) > 2048 or not url.isprintable():
        return f"gitUrl is {shown(url)!r}; a URL may not start with '-' or hold control characters"
    if _HELPER.match(url):
        return f"gitUrl is {shown(url)!r}; remote helpers run programs and are refused; wanted https or ssh"
    if url.startswith("/"):
        return Remote(url=url, transport="file")
    if "://" not in url:
        scp = _SCP.fullmatch(url)
        if scp is None or "/" in url.partition(":")[0]:
            return f"gitUrl is {shown(url)!r}; wanted https://host/path, ssh://user@host/path or user@host:path"
        return Remote(url=url, transport="ssh", host=scp["host"])
    return _parse_scheme(url)


def _parse_scheme(url: str) -> Remote | str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return f"gitUrl is {shown(url)!r}, which is not a URL"
    if parts.scheme == "file":
        return f"gitUrl {shown(url)!r} names another host" if host else Remote(url=url, transport="file")
    if parts.scheme not in ("https", "ssh", "http"):
        return f"gitUrl uses {parts.scheme[:20]!r}; wanted https or ssh"
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        return f"gitUrl {shown(url)} holds a credential; use authToken: env(NAME) or sshKeyPath instead"
    if not _HOST.fullmatch(host) or not re.match(r"/+[^-/]", parts.path) or parts.query or parts.fragment:
        return f"gitUrl is {shown(url)!r}; wanted {parts.scheme}://host/path"
    if parts.username is not None and not _USER.fullmatch(parts.username):
        return f"gitUrl {shown(url)} has a user name that git or ssh could take for something else"
    if parts.scheme == "http" and host not in _LOOPBACK:
        return f"gitUrl is {shown(url)!r}; http shows agents and tokens to the network; wanted https"
    transport: Transport = "https" if parts.scheme == "https" else "ssh" if parts.scheme == "ssh" else "http"
    return Remote(url=url, transport=transport, host=host)


def _duration(value: str | int | float) -> float | None:
    match = _DURATION.fullmatch(str(value).strip())
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    return seconds if seconds >= 1 else None


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), key)


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), key)


def _did_you_mean(key: str) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(_snake(key), _FIELDS, n=1)
    if not near:
        return None
    return f"did you mean '{near[0] if '_' in key else _camel(near[0])}'?"
