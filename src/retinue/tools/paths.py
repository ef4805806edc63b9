"""What file tools may touch: a path becomes a target, the target is judged, the same descriptor is used.

`found` is the only way from a path to a file. The verdict comes from the
runtime (`ToolContext.judge`); what a person approved must still be exactly what
is found. The thread's own files may be read without asking.
"""

import os
import stat
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from retinue.ports.tool import Op, Target, ToolContext
from retinue.sandbox.descriptors import Located, content, locate
from retinue.sandbox.targets import target_of
from retinue.schema.errors import Denied
from retinue.tools.attempt import Failed

_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a path led to, held until the block that found it ends."""

    target: Target
    held: Located
    state: os.stat_result
    """Of something absent, the state of the folder it would be in."""

    def read(self, most: int) -> bytes:
        """The whole content, or a failure when there is more than `most`."""
        data = content(self.held, most + 1)
        if len(data) > most:
            raise Failed(f"{self.target.path} is larger than {most:,} bytes, too large for this tool.")
        return data


@contextmanager
def found(path: str, op: Op, context: ToolContext) -> Generator[Found]:
    """Resolve `path`, refusing what is malformed, is no file or folder, or can't be reached. Judges nothing."""
    asked = absolute(path, context)
    held = _reached(path, asked, context)
    try:
        yield _found(asked, op, held, context)
    finally:
        os.close(held.fd)


def absolute(path: str, context: ToolContext) -> str:
    """Spelled as it was given: `~` is a name like any other and `..` is left to the kernel."""
    if not path:
        raise Failed("The path is empty.")
    if bad := sorted({c for c in path if unicodedata.category(c) == "Cc" or c in _BIDI}):
        raise Failed(f"The path holds control characters ({', '.join(map(ascii, bad))}); no file is opened.", "denied")
    return path if path.startswith("/") else f"{context.workspace.rstrip('/')}/{path}"


def admit(target: Target, context: ToolContext) -> None:
    """Return when `target` may be touched now; fail with the reason when not."""
    if own(target, context):
        return
    decision = context.judge(target)
    if decision.verdict == "deny":
        raise Failed(f"Denied: {target.op} {target.path}: {decision.reason}", "denied")
    if context.approved and target not in context.approved:
        raise Failed(f"Refused: {target.path} is not, or no longer, what was approved. Ask again.", "denied")
    if decision.verdict == "ask" and not context.approved:
        raise Failed(f"Denied: {target.op} {target.path} needs a person's approval: {decision.reason}", "denied")


def visible(target: Target, context: ToolContext, *, root: Target) -> bool:
    """Whether a file below a folder that was admitted may show in results.

    A folder outside the workspace that a person approved is approved with what is in it, but for denied
    files; in a folder that nobody had to approve, what needs approval stays out of sight.
    """
    verdict = context.judge(target).verdict
    if verdict == "ask" and root in context.approved:
        return context.judge(root).verdict == "ask"
    return verdict == "allow" or own(target, context)


def own(target: Target, context: ToolContext) -> bool:
    """Whether this reads one of the thread's own files."""
    files = os.path.realpath(context.files)
    return target.op == "read" and (target.path == files or target.path.startswith(f"{files}/"))


def _reached(path: str, asked: str, context: ToolContext) -> Located:
    try:
        return locate(asked, context.workspace.rstrip("/"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Failed(f"{path} does not exist{_because(error)}.") from None
    except OSError as error:
        raise Failed(f"{path} can't be opened: {error.strerror}.", "denied") from None


def _found(asked: str, op: Op, held: Located, context: ToolContext) -> Found:
    try:
        target = target_of(op, asked, held, context.workspace)
        target.path.encode()
    except (Denied, UnicodeEncodeError) as error:
        raise Failed(f"Denied: {asked}: {error}", "denied") from None
    state = os.fstat(held.fd)
    if target.kind == "other":
        raise Failed(f"Denied: {held.path} is not a regular file (a pipe, a socket or a device).", "denied")
    if target.kind == "absent" and not stat.S_ISDIR(state.st_mode):
        raise Failed(f"{asked} does not exist: {held.path} is not a folder.")
    return Found(target=target, held=held, state=state)


def _because(error: OSError) -> str:
    return "" if error.strerror == os.strerror(error.errno or 0) else f" ({error.strerror})"
