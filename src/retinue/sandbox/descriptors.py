"""Finds what a path leads to and holds it by a descriptor, so that what was judged is what is used.

Linux resolves with openat2: beneath the workspace first, and only then anywhere,
never through the magic links of /proc. Elsewhere the path is walked one component
at a time without following links. Nothing is opened for reading or writing here,
so looking at a pipe or a device has no effect.
"""

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_AT_FDCWD = -100
_HOLD = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """What is at the end of a path, or how far the path got."""

    fd: int
    """Holds the thing itself; of something absent, the deepest folder that is there."""
    path: str
    """The real path of what `fd` holds."""
    missing: tuple[str, ...] = ()
    """The names that are not there, below `fd`."""

    @property
    def full(self) -> str:
        return "/".join([self.path.rstrip("/"), *self.missing]) or "/"


def locate(path: str, base: str, *, kernel: bool | None = None) -> Located:
    """Resolve the absolute `path`; `base` is the workspace. The caller closes the descriptor.

    Raises OSError when the path leads nowhere. `kernel` chooses the way, by default the best there is.
    """
    return _by_kernel(path, base) if (_kernel_can() if kernel is None else kernel) else _by_walking(path)


def readable(found: Located) -> int:
    """A new descriptor for reading the very file that `found` holds."""
    if hasattr(os, "O_PATH"):
        return os.open(f"/proc/self/fd/{found.fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.dup(found.fd)


def content(found: Located, most: int) -> bytes:
    """At most `most` bytes of the file that `found` holds."""
    fd = readable(found)
    try:
        step = min(os.fstat(fd).st_size, most) + 1
        data = os.read(fd, min(step, most))
        while len(data) < most and (more := os.read(fd, min(65_536, most - len(data)))):
            data += more
        return data
    finally:
        os.close(fd)


def folder_of(found: Located) -> int:
    """The folder that holds an existing file, reached without any link, checked to hold it still."""
    parent, name = os.path.split(found.path)
    fd = _open_plainly(parent)
    try:
        now = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not os.path.samestat(now, os.fstat(found.fd)):
            raise OSError(errno.ESTALE, "another file took its place", found.path)
    except OSError:
        os.close(fd)
        raise
    return fd


def beneath(root: Located, name: str, *, kernel: bool | None = None) -> Located | None:
    """Something below a folder that is held, by its relative name; None when a link is on the way or it is gone."""
    if not name or name.startswith("/") or ".." in name.split("/"):
        return None
    try:
        if _kernel_can() if kernel is None else kernel:
            fd = _openat2(root.fd, name, _HOLD, _BENEATH | _NO_SYMLINKS)
        else:
            fd = _stepped(os.dup(root.fd), name)
    except OSError:
        return None
    return Located(fd=fd, path=f"{root.path.rstrip('/')}/{name}")


def _open_plainly(path: str) -> int:
    if _kernel_can():
        return _openat2(_AT_FDCWD, path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, _NO_SYMLINKS)
    return _stepped(os.open("/", os.O_RDONLY | os.O_CLOEXEC), path)


def _by_kernel(path: str, base: str) -> Located:
    names: list[str] = []
    rest = path.rstrip("/") or "/"
    while True:
        try:
            fd = _open_held(rest, base)
        except FileNotFoundError:
            rest, _, name = rest.rpartition("/")
            if name in ("", ".", "..") or _is_link(rest or "/", name, base):
                raise
            names.insert(0, name)
            rest = rest.rstrip("/") or "/"
            continue
        return Located(fd=fd, path=_real(fd, rest), missing=tuple(names))


def _open_held(path: str, base: str) -> int:
    if path == base or path.startswith(f"{base}/"):
        root = os.open(base, _HOLD | os.O_DIRECTORY)
        try:
            return _openat2(root, path[len(base) :].lstrip("/") or ".", _HOLD, _BENEATH | _NO_MAGICLINKS)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        finally:
            os.close(root)
    return _openat2(_AT_FDCWD, path, _HOLD, _NO_MAGICLINKS)


def _is_link(folder: str, name: str, base: str) -> bool:
    """A link to nothing: to create through it would create somewhere else."""
    with suppress(OSError):
        fd = _open_held(folder, base)
        try:
            return stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
        finally:
            os.close(fd)
    return False


def _real(fd: int, asked: str) -> str:
    path = str(Path(f"/proc/self/fd/{fd}").readlink())
    if not path.startswith("/") or (path.endswith(" (deleted)") and os.fstat(fd).st_nlink == 0):
        os.close(fd)
        raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile", asked)
    return path


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how, code = _How(flags, 0, resolve), 0
    for _ in range(16):
        fd = _libc().syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(code, os.strerror(code), path)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _kernel_can() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        fd = _openat2(_AT_FDCWD, "/", _HOLD, _NO_MAGICLINKS)
    except OSError:
        return False
    try:
        return Path(f"/proc/self/fd/{fd}").readlink() == Path("/")
    except OSError:
        return False
    finally:
        os.close(fd)


def _by_walking(path: str) -> Located:
    """The same by hand: every link is read and its text walked in its place."""
    here = Located(fd=os.open("/", os.O_RDONLY | os.O_CLOEXEC), path="/")
    todo, links, inside_link = _names(path), 0, -1
    try:
        while todo:
            name = todo.pop()
            kind = _kind(here, name)
            if kind is None:
                if name == ".." or len(todo) >= inside_link >= 0:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                here = replace(here, missing=(*here.missing, name))
            elif stat.S_ISLNK(kind):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                text = os.readlink(name, dir_fd=here.fd)
                inside_link = len(todo) if inside_link < 0 else inside_link
                todo += _names(text)
                if text.startswith("/"):
                    here = Located(fd=_step(here.fd, "/", stat.S_IFDIR), path="/")
            else:
                here = Located(fd=_step(here.fd, name, kind), path=os.path.normpath(f"{here.path.rstrip('/')}/{name}"))
            if len(todo) < inside_link:
                inside_link = -1
    except OSError:
        os.close(here.fd)
        raise
    return here


def _names(path: str) -> list[str]:
    """The names of a path, last first."""
    return [name for name in path.split("/") if name not in ("", ".")][::-1]


def _kind(here: Located, name: str) -> int | None:
    if here.missing:
        return None
    try:
        return os.stat(name, dir_fd=here.fd, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _stepped(fd: int, path: str) -> int:
    """Go along a path that must hold no link; takes over the descriptor."""
    try:
        for name in reversed(_names(path)):
            kind = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            fd = _step(fd, name, kind)
    except OSError:
        os.close(fd)
        raise
    return fd


def _step(fd: int, name: str, kind: int) -> int:
    """Go one name further without following a link; the old descriptor is closed when that works."""
    if not hasattr(os, "O_PATH") and not (stat.S_ISDIR(kind) or stat.S_ISREG(kind)):
        raise OSError(errno.EINVAL, "not a regular file", name)
    following = os.open(name, _HOLD | os.O_NOFOLLOW | (os.O_DIRECTORY if stat.S_ISDIR(kind) else 0), dir_fd=fd)
    os.close(fd)
    return following
