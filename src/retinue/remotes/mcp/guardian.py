"""Runs a server that is not in a sandbox, and takes it along when Retinue ends, however it ends.

A program of its own, started as `python -I -S guardian.py PARENT COMMAND…`: it imports nothing
of Retinue. It is told of its parent's death by the kernel (elsewhere than on Linux it looks),
adopts what the server leaves behind, and kills all of it before it goes itself. In
bubblewrap none of this is needed: the process namespace ends with its first process.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PARENT_DEATH, _SUBREAPER = 1, 36
_GRACE = 1.5


class _Stop(Exception):
    pass


def main() -> int:
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc:
        libc.prctl(_SUBREAPER, 1)
    try:
        server = subprocess.Popen(argv)
    except OSError as error:
        print(f"{argv[0]} can't be started: {error.strerror}", file=sys.stderr)
        return 127
    _let_go()
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _stop)
        if libc:
            libc.prctl(_PARENT_DEATH, signal.SIGTERM)
        while server.poll() is None and os.getppid() == parent:
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(None if libc else 1.0)
    except _Stop:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        if server.poll() is None:
            os.killpg(0, signal.SIGTERM)
        server.wait(_GRACE)
    _kill_all()
    return server.poll() or 0


def _stop(*_: object) -> None:
    raise _Stop


def _let_go() -> None:
    """The pipes are the server's alone: their ends must close with it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def _kill_all() -> None:
    """Kill descendants until none is left; whoever loses a parent becomes our child."""
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        found = children.read_text(encoding="ascii").split() if children.exists() else []
        if not found:
            return
        for child in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


if __name__ == "__main__":
    sys.exit(main())
