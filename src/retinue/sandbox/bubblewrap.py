"""Runs a command in bubblewrap: the workspace writable, all else read-only, no network unless allowed.

Own user, process, IPC and host-name namespaces, a fresh /proc and /dev, no
capabilities, no further user namespaces, a private /tmp and /run, secrets of the
home folder out of sight. Killing the outer process ends everything inside.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from uuid import uuid4

import msgspec

from retinue.sandbox.pinned import Pins, pins

_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla", ".netrc", ".pypirc"),
    *(".npmrc", ".git-credentials", ".cargo/credentials.toml", ".cargo/credentials", ".config/gcloud", ".config/gh"),
    *(".config/git/credentials", ".config/retinue", ".local/share/retinue", ".local/share/keyrings", ".config/op"),
    *(".config/google-chrome", ".config/chromium", ".bash_history", ".zsh_history", ".python_history"),
)
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
_KEPT_RUN = ("/run/current-system", "/run/wrappers")
_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_ALWAYS = (*_NAMESPACES, "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """What a command sees and may change."""

    workspace: str
    folder: str
    """Where it starts."""
    temporary: str
    """The folder that is /tmp inside."""
    home: str = ""
    network: bool = False
    readable: tuple[str, ...] = ()
    """Shown although they lie in a place that is hidden."""
    hidden: tuple[str, ...] = ()
    """Folders and files out of sight, beside those that are always."""
    protected: tuple[str, ...] = ()
    """Paths that are not changed, beside those that never are."""


class Available(msgspec.Struct, frozen=True, kw_only=True):
    program: str = ""
    flags: tuple[str, ...] = ()
    reason: str = ""
    """Why not, when there is no program."""


@cache
def available() -> Available:
    """Whether bubblewrap works here; found out by using it once."""
    program = shutil.which("bwrap")
    if program is None:
        return Available(reason="the program bwrap is not installed")
    reason = ""
    for extra in (("--disable-userns",), ()):
        mounts = ("--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
        command = [program, *_ALWAYS, *extra, *mounts]
        try:
            done = subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            return Available(reason="bwrap did not finish in 20 s")
        if done.returncode == 0:
            return Available(program=program, flags=extra)
        reason = done.stderr.decode(errors="replace").strip() or f"bwrap ended with {done.returncode}"
    return Available(reason=f"bwrap is installed but this system refuses it: {reason}")


class Sandbox:
    """One command's sandbox: its argument list, and what to tidy up after it."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._pins = pins(box.workspace, box.home, box.protected)

    def command(self, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        found = available()
        options = [*_ALWAYS, *found.flags, *([] if self._box.network else ["--unshare-net"])]
        options += _mounts(self._box, _installed(argv, env.get("PATH", "")))
        options += [*_pinned(self._pins), *_unseen(self._box)]
        options += ["--chdir", self._box.folder, "--clearenv"]
        for name, value in env.items():
            options += ["--setenv", name, value]
        return [found.program, *options, "--", *argv]

    def __enter__(self) -> "Sandbox":
        with _lock:
            for path in self._pins.empty:
                _users[path] = _users.get(path, 0) + 1
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what bubblewrap made to mount on, unless another command still needs it; put links back."""
        for path, text in self._pins.links.items():
            _restore(Path(path), text)
        for path in self._pins.absent:
            _refuse(Path(path))
        with _lock:
            for path in self._pins.empty:
                _users[path] -= 1
                if _users[path] > 0:
                    continue
                del _users[path]
                with suppress(OSError):
                    Path(path).rmdir()


_lock = Lock()
_users: dict[str, int] = {}


def _restore(path: Path, text: str) -> None:
    if path.is_symlink() and str(path.readlink()) == text:
        return
    _refuse(path)
    path.symlink_to(text)


def _refuse(path: Path) -> None:
    """Take what should not be there out of effect, without destroying it."""
    with suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.refused-{uuid4().hex[:8]}"))


def _mounts(box: Box, shown: Sequence[str]) -> list[str]:
    # Read-only, because root's uid may write kernel settings below /proc/sys even without capabilities.
    options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc", "--tmpfs", "/run"]
    for path in _KEPT_RUN:
        options += ["--ro-bind-try", path, path]
    if box.network and (resolver := os.path.realpath("/etc/resolv.conf")).startswith("/run/"):
        options += ["--ro-bind-try", resolver, resolver]
    options += ["--bind", box.temporary, "/tmp", "--bind", box.temporary, "/var/tmp"]
    for place in shown:
        options += ["--ro-bind-try", place, place]
    return [*options, "--bind", box.workspace, box.workspace]


def _installed(argv: Sequence[str], programs: str) -> list[str]:
    """What the private /tmp would hide of the programs themselves.

    Environments of PATH with their libraries, and the folder of a program or script that is
    named outright: what it loads lies around it.
    """
    bins = [Path(folder) for folder in programs.split(":") if folder]
    found = [(folder.parent if folder.name == "bin" else folder, False) for folder in bins]
    found += [(Path(word), True) for word in argv if word.startswith("/") and Path(word).exists()]
    shown: list[str] = []
    for path, named in found:
        for place in _TEMPORARY:
            if place in path.parents:
                below = path.relative_to(place).parts
                shown.append(str(place / below[0] if named else path))
    return list(dict.fromkeys(shown))


def _unseen(box: Box) -> list[str]:
    """After the pins, which may be of the same paths."""
    options: list[str] = []
    for path in [*(f"{box.home}/{name}" for name in _SECRETS if box.home), *box.hidden]:
        real = os.path.realpath(path)
        if os.path.lexists(real) and not f"{box.workspace}/".startswith(f"{real}/"):
            options += ["--tmpfs", real] if Path(real).is_dir() else ["--ro-bind", "/dev/null", real]
    for path in box.readable:
        options += ["--ro-bind-try", path, path]
    return options


def _pinned(pinned: Pins) -> list[str]:
    options: list[str] = []
    for path in pinned.fixed:
        options += ["--bind", path, path]
    for path in pinned.read_only:
        options += ["--ro-bind", path, path]
    for path in pinned.empty:
        options += ["--tmpfs", path, "--remount-ro", path]
    return options
