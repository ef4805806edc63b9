"""Runs a command for a call, in the sandbox that the thread asks for; shared by bash and diagnostics."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from retinue.ports.tool import ToolContext
from retinue.sandbox.bubblewrap import Box, Sandbox, available
from retinue.sandbox.limits import limited
from retinue.sandbox.process import Finished, run
from retinue.tools.attempt import Failed
from retinue.tools.settings import ToolSettings

_KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "SHELL", "VIRTUAL_ENV"),
    *("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NVM_DIR", "NODE_PATH", "DOTNET_ROOT"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
_SET = {
    **{"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"},
    # Files that an agent may write can make up a bare repository, whose configuration runs programs.
    **{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository", "GIT_CONFIG_VALUE_0": "explicit"},
}
_IN_SANDBOX = {"TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache", "npm_config_cache": "/tmp/.npm"}


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    finished: Finished
    isolation: str
    """`bubblewrap` or `none`."""


async def run_command(
    argv: Sequence[str],
    context: ToolContext,
    settings: ToolSettings,
    *,
    folder: str,
    seconds: float,
    output: Callable[[bytes], None],
    descriptors: tuple[int, ...] = (),
) -> Ran:
    boxed = sandboxed(context)
    env = {name: os.environ[name] for name in _KEPT if name in os.environ} | _SET
    command = limited(argv, settings.limits, sandboxed=boxed)
    with ExitStack() as held:
        if boxed:
            sandbox = held.enter_context(Sandbox(_box(context, settings, folder)))
            env |= _IN_SANDBOX
            command = sandbox.command(command, env)
        finished = await run(
            command,
            folder="/" if boxed else folder,
            env=env,
            seconds=seconds,
            output=output,
            processes=settings.limits.processes if boxed and os.geteuid() == 0 else 0,
            descriptors=descriptors,
        )
    return Ran(finished=finished, isolation="bubblewrap" if boxed else "none")


def sandboxed(context: ToolContext) -> bool:
    """Whether the command will be confined; fails when it must be and can't."""
    if context.sandbox == "off":
        return False
    found = available()
    if not found.program and context.sandbox == "require":
        raise Failed(
            f"Refused: the sandbox is required here, and {found.reason}. An operator can install bubblewrap or relax "
            "`sandbox`.",
            "denied",
        )
    return bool(found.program)


def _box(context: ToolContext, settings: ToolSettings, folder: str) -> Box:
    temporary = Path(context.files) / ".tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return Box(
        workspace=os.path.realpath(context.workspace),
        folder=folder,
        temporary=str(temporary.resolve()),
        home=os.environ.get("HOME", ""),
        network=settings.sandbox_network,
        readable=(os.path.realpath(context.files),),
        hidden=settings.hidden,
        protected=settings.protected,
    )
