"""One agent repository as the operator configures it (S0 §5.2), and every check of its text.

Pure: whether a URL may be used, what git is asked for and which variable holds
a secret are decided here; `retinue.sources.mirror` acts on them. Secrets are
named, `env(NAME)`, and their values never pass through this module.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec

from retinue.schema.errors import GitError
from retinue.schema.problem import Problem, Severity, has_errors

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
    found: list[_Wrong] = []
    given: dict[str, object] = {}
    for key, value in fields.items():
        name = _snake(key)
        if name not in _CHECKS:
            found.append(_Wrong(f"'{key}' is not a field of a repository", "unknown-key", _did_you_mean(key)))
        elif name in given:
            found.append(_Wrong(f"'{key}' is given twice, in camelCase and in snake_case", "duplicate-key"))
        elif value is not None:
            given[name] = value
    checked: dict[str, object] = {}
    for name, value in given.items():
        try:
            checked[name] = _CHECKS[name](value)
        except _Wrong as wrong:
            found.append(_Wrong(f"{_camel(name)} {wrong.message}", wrong.code, wrong.hint))
    found += [_Wrong(f"a repository needs '{_camel(name)}'", "missing-key") for name in _REQUIRED if name not in given]
    config = None
    if not found:
        config = msgspec.convert({**_inferred(checked), **checked}, RepositoryConfig)
        found += _misfits(config)
    label = f"repository {checked['name']}" if "name" in checked else "repository"
    problems = tuple(
        Problem(code=w.code, severity=w.severity, message=f"{label}: {w.message}", file=origin, hint=w.hint)
        for w in found
    )
    return (None if has_errors(problems) else config), problems


def remote(config: RepositoryConfig, *, allow_local: bool) -> Remote:
    """The checked remote of `config`; with ssh-key an https URL becomes ssh to the same host and path.

    Plain http is for a server on this machine only, and local like a path: it
    needs `allow_local`.

    Raises:
        GitError: The URL or the branch may not be used.
    """
    if wrong := bad_branch(config.branch):
        raise GitError(f"repository {config.name}: branch {wrong}")
    parsed = _parse_url(config.git_url)
    if isinstance(parsed, str):
        raise GitError(f"repository {config.name}: gitUrl {parsed}")
    if parsed.transport in ("file", "http") and not allow_local:
        raise GitError(
            f"repository {config.name}: {shown(config.git_url)} is on this machine, and local repositories are off",
            hint="allow local repositories in the operator's configuration, or use https or ssh",
        )
    if config.auth_type == "ssh-key" and parsed.transport == "https":
        path = urlsplit(config.git_url).path.lstrip("/")
        return Remote(url=f"git@{parsed.host}:{path}", transport="ssh", host=parsed.host)
    return parsed


def bad_branch(branch: str) -> str | None:
    """Why git could not have such a branch, or None."""
    if not branch or len(branch) > 255 or _BAD_REF.search(branch):
        return f"is {branch[:80]!r}; wanted a name like 'main' or 'release/1.2'"
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


class _Wrong(Exception):
    """What is wrong with a field, without its name. Never holds a secret."""

    def __init__(
        self, message: str, code: str = "bad-value", hint: str | None = None, *, severity: Severity = "error"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.severity: Severity = severity


def _text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise _Wrong("is empty; wanted text" if value == "" else f"is of type {type(value).__name__}; wanted text")


def _name(value: object) -> str:
    name = _text(value)
    if all(_SEGMENT.fullmatch(segment) for segment in name.split("/")):
        return name
    raise _Wrong(f"is {name[:80]!r}; wanted letters, digits, _ and -, starting with a letter, segments joined by /")


def _url(value: object) -> str:
    url = _text(value)
    parsed = _parse_url(url)
    if isinstance(parsed, str):
        raise _Wrong(parsed)
    return url


def _branch(value: object) -> str:
    branch = _text(value)
    if wrong := bad_branch(branch):
        raise _Wrong(wrong)
    return branch


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _Wrong(f"is {str(value)[:80]!r}; wanted true or false")


def _interval(value: object) -> float:
    match = _DURATION.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    seconds = float(match[1]) * _SECONDS[match[2] or "s"] if match else 0.0
    if seconds >= 1:
        return seconds
    raise _Wrong(f"is {str(value)[:80]!r}; wanted a time of a second or more, like 30s, 5m or 1h")


def _auth_type(value: object) -> str:
    if value in get_args(AuthType):
        return str(value)
    raise _Wrong(f"is {str(value)[:80]!r}; wanted {', '.join(get_args(AuthType))}")


def _key_path(value: object) -> str:
    path = _text(value)
    if path.startswith(("/", "~/")) and not _CONTROL.search(path) and '"' not in path:
        return path
    raise _Wrong(f"is {path[:80]!r}; wanted an absolute path, or one that starts with ~/")


def _secret(value: object) -> str:
    if isinstance(value, str) and secret_name(value):
        return value
    raise _Wrong("holds a literal secret", "literal-secret", "put it in a variable and write env(NAME)")


_REQUIRED = ("name", "git_url")
_CHECKS: dict[str, Callable[[object], object]] = {
    "name": _name,
    "git_url": _url,
    "branch": _branch,
    "is_root": _flag,
    "sync_interval": _interval,
    "auth_type": _auth_type,
    "ssh_key_path": _key_path,
    "auth_token": _secret,
    "webhook_secret": _secret,
    "is_active": _flag,
    "read_only": _flag,
}


def _misfits(config: RepositoryConfig) -> Iterator[_Wrong]:
    """What only several fields together can get wrong."""
    parsed = _parse_url(config.git_url)
    transport = parsed.transport if isinstance(parsed, Remote) else "file"
    fits: dict[AuthType, tuple[Transport, ...]] = {
        "token": ("https", "http"),
        "ssh-key": ("ssh", "https"),
        "none": ("https", "http", "file"),
    }
    if transport not in fits[config.auth_type]:
        hint = "use authType ssh-key" if transport == "ssh" else None
        yield _Wrong(f"authType {config.auth_type} does not work over {transport}", hint=hint)
    if config.auth_type == "token" and config.auth_token is None:
        yield _Wrong("authType token needs authToken", "missing-key", "write authToken: env(NAME)")
    unused = (("token", "authToken", config.auth_token), ("ssh-key", "sshKeyPath", config.ssh_key_path))
    for auth, key, value in unused:
        if value is not None and config.auth_type != auth:
            yield _Wrong(f"{key} is not used with authType {config.auth_type}", "unused-key", severity="warning")


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
        return f"is {shown(url)!r}; a URL may not start with '-' or hold control characters"
    if _HELPER.match(url):
        return f"is {shown(url)!r}; remote helpers run programs and are refused; wanted https or ssh"
    if url.startswith("/"):
        return Remote(url=url, transport="file")
    if "://" not in url:
        scp = _SCP.fullmatch(url)
        if scp is None or "/" in url.partition(":")[0]:
            return f"is {shown(url)!r}; wanted https://host/path, ssh://user@host/path or user@host:path"
        return Remote(url=url, transport="ssh", host=scp["host"])
    return _parse_scheme(url)


def _parse_scheme(url: str) -> Remote | str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return f"is {shown(url)!r}, which is not a URL"
    if parts.scheme == "file":
        return f"{shown(url)!r} names another host" if host else Remote(url=url, transport="file")
    if parts.scheme not in ("https", "ssh", "http"):
        return f"uses {parts.scheme[:20]!r}; wanted https or ssh"
    if parts.password is not None or (parts.username and parts.scheme != "ssh"):
        return f"{shown(url)} holds a credential; use authToken: env(NAME) or sshKeyPath instead"
    if not _HOST.fullmatch(host) or not re.match(r"/+[^-/]", parts.path) or parts.query or parts.fragment:
        return f"is {shown(url)!r}; wanted {parts.scheme}://host/path"
    if parts.username is not None and not _USER.fullmatch(parts.username):
        return f"{shown(url)} has a user name that git or ssh could take for something else"
    if parts.scheme == "http" and host not in _LOOPBACK:
        return f"is {shown(url)!r}; http shows agents and tokens to the network; wanted https"
    transport: Transport = "https" if parts.scheme == "https" else "ssh" if parts.scheme == "ssh" else "http"
    return Remote(url=url, transport=transport, host=host)


def _snake(key: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda m: "_" + m[1].lower(), key)


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda m: m[1].upper(), key)


def _did_you_mean(key: str) -> str | None:
    from difflib import get_close_matches

    near = get_close_matches(_snake(key), _CHECKS, n=1)
    if not near:
        return None
    return f"did you mean '{near[0] if '_' in key else _camel(near[0])}'?"
