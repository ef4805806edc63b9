"""bash: runs a command in the workspace, in a working directory that the thread keeps.

The shell is the one whose grammar `retinue.policy` parses, started without any
profile. The command's folder is reported on a descriptor of its own when it ends.
"""

import codecs
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from retinue.ports.tool import Inspection, Result, ToolContext
from retinue.schema.message import OutcomeStatus
from retinue.tools.attempt import Failed, declare, taken
from retinue.tools.commands import Ran, run_command
from retinue.tools.output import FOLDER, Bounds, cut, within
from retinue.tools.settings import ToolSettings

_SCRIPT = 'trap "pwd -P >&{fd}" EXIT; RETINUE_COMMAND=$1; shift; eval "$RETINUE_COMMAND"'
_MOST_KEPT = 50_000_000
"""Bytes of output that are saved; what comes after is dropped."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: Annotated[str, msgspec.Meta(min_length=1, description="What to run.")]
    timeout: Annotated[float, msgspec.Meta(gt=0, description="Seconds after which it is killed.")] | None = None
    description: Annotated[str, msgspec.Meta(description="What it is for, in a few words, for people who watch.")] = ""


class Bash:
    spec = declare(
        "bash",
        "Runs a command with bash in the workspace. The working directory is kept between calls; variables are not. "
        "There is no input, and background processes end with the call. Use read, edit, grep and glob for files.",
        Arguments,
        "write",
    )

    def __init__(self, settings: ToolSettings) -> None:
        self._settings = settings

    def resource(self, arguments: Mapping[str, object]) -> str:
        return str(arguments.get("command", ""))

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        del arguments
        return Inspection(folder=_folder(context))

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        try:
            return await self._run(taken(Arguments, arguments), context)
        except Failed as failed:
            return failed.result

    async def _run(self, arguments: Arguments, context: ToolContext) -> Result:
        limits = self._settings.limits
        seconds = min(arguments.timeout or context.override.timeout or limits.seconds, limits.most_seconds)
        folder = _folder(context)
        output = _Output(context)
        reading, writing = os.pipe()
        try:
            argv = ["bash", "--noprofile", "--norc", "-c", _SCRIPT.format(fd=writing), "bash", arguments.command]
            ran = await run_command(
                argv, context, self._settings, folder=folder, seconds=seconds, output=output.add, descriptors=(writing,)
            )
            os.set_blocking(reading, False)
            with suppress(BlockingIOError):
                _keep_folder(context, os.read(reading, 65_536).decode(errors="replace").rstrip("\n"))
        finally:
            os.close(reading)
            os.close(writing)
            text, saved = output.done()
        return self._told(text, saved, ran, seconds, context)

    def _told(self, text: str, saved: str, ran: Ran, seconds: float, context: ToolContext) -> Result:
        finished = ran.finished
        status: OutcomeStatus = "ok" if finished.code == 0 else "error"
        note = "" if finished.code == 0 else f"[exit status {finished.code}]"
        if finished.ended == "time":
            status, note = "timed_out", f"[killed after {seconds:g} s]"
        elif finished.ended == "processes":
            status, note = "error", f"[killed: more than {self._settings.limits.processes} processes]"
        metadata: dict[str, object] = {
            "exit_status": finished.code,
            "sandbox": ran.isolation,
            "network": ran.isolation == "none" or self._settings.sandbox_network,
            "folder": _folder(context),
        }
        shown = "\n".join(filter(None, (text.rstrip("\n"), note))) or "[no output]"
        # Said here, because a command that fails has shown what it read all the same.
        taints = ("private", "untrusted") if metadata["network"] else ("private",)
        return Result(text=shown, status=status, metadata=metadata | ({"saved": saved} if saved else {}), taints=taints)


def _folder(context: ToolContext) -> str:
    """Where the last command left off, as long as that is a folder of the workspace."""
    workspace = os.path.realpath(context.workspace)
    with suppress(OSError):
        kept = (Path(context.files) / ".folder").read_text(encoding="utf-8")
        if os.path.realpath(kept) == kept and f"{kept}/".startswith(f"{workspace}/") and Path(kept).is_dir():
            return kept
    return workspace


def _keep_folder(context: ToolContext, reported: str) -> None:
    if reported.startswith("/"):
        (Path(context.files) / ".folder").write_text(reported, encoding="utf-8", errors="replace")


class _Output:
    """Shows output as it comes; holds what fits the bounds and saves the rest in a file."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._bounds = Bounds.of(context.override)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = bytearray()
        self._size = 0
        self._file: BinaryIO | None = None
        self._path = Path(context.files) / FOLDER / f"{context.call}.txt"

    def add(self, piece: bytes) -> None:
        self._context.progress(self._decoder.decode(piece))
        self._size += len(piece)
        if self._file is None and self._size <= 4 * self._bounds.bytes:
            self._held += piece
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
            self._file.write(self._held)
        if self._size <= _MOST_KEPT:
            self._file.write(piece)

    def done(self) -> tuple[str, str]:
        """The text to show, and the path of the whole when something is left out."""
        if self._file is not None:
            self._file.close()
            self._held = bytearray(self._path.read_bytes())
        text = self._held.decode(errors="replace").replace("\r\n", "\n")
        if within(text, self._bounds):
            return text, ""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(self._held)
        dropped = f", without the last {self._size - _MOST_KEPT:,} bytes" if self._size > _MOST_KEPT else ""
        return cut(text, self._bounds, f"saved as {self._path}{dropped}; read it with offset and limit"), str(
            self._path
        )
