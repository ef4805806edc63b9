"""What the runtime needs of a tool.

The way of a call: its arguments are checked (`CheckArguments`), it is authorised
by tool and `resource`; a tool that `Inspects` then says what its paths lead to
and shows what would change; the runtime judges those targets and asks a person
where it must; `run` looks again, on the descriptor it uses, and refuses what was
neither allowed nor approved; the result is bounded (`BoundResult`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

import msgspec

from retinue.schema.agent import AgentDefinition, SandboxMode, ToolOverride
from retinue.schema.ids import CallId, ThreadId
from retinue.schema.message import Media, OutcomeStatus
from retinue.schema.permission import Decision, Rule
from retinue.schema.tool import ToolSpec

Op = Literal["read", "write", "delete", "rename", "fetch"]
"""What is done to a file, where creating one is `write`; `fetch` is a request to a URL."""


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a path led to when it was looked at. Equal targets are the same file in the same state.

    Of a `fetch`, both paths are the URL.
    """

    op: Op
    asked: str
    """The path as it was spelled, made absolute; no link is followed and no `..` is resolved."""
    path: str
    """Absolute, every link followed; of a file that is not there, its real folder and its name."""
    kind: Literal["file", "folder", "absent", "other", "url"] = "file"
    names: tuple[str, ...] = ()
    """Other names of the same file: hard links found in the workspace."""
    more_names: bool = False
    """It has more hard links than `names` tells."""
    identity: str = ""
    """Device and inode; of a file that is not there, those of its folder."""
    content: str = ""
    """SHA-256 of the content that the preview was made from, when there was one."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool returns. An expected failure is a result with another status, not an exception."""

    text: str = ""
    status: OutcomeStatus = "ok"
    media: tuple[Media, ...] = ()
    metadata: Mapping[str, object] = {}
    taints: tuple[str, ...] = ()
    """Labels this data carries: private, untrusted."""
    labelled: bool = False
    """`taints` are all its labels: the table of tools adds none."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What a call would touch and change, seen without touching it.

    An approval holds for exactly these targets: bind it to them as to the arguments.
    """

    targets: tuple[Target, ...] = ()
    preview: str = ""
    """A unified diff for edits; what a person is shown beside the call."""
    folder: str = ""
    """Where a command runs, absolute: what its relative paths start from when it is judged."""
    failure: Result | None = None
    """Why the call can't work: once its targets are judged, settle it with this and ask nobody."""


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments that do not fit; `message` tells the model what was wrong and what is wanted."""

    message: str


class Inquiry(msgspec.Struct, frozen=True, kw_only=True):
    """Something a running call wants a person to say."""

    kind: Literal["text", "choice", "approval"]
    prompt: str
    choices: tuple[str, ...] = ()


def _undecided(target: Target) -> Decision:
    return Decision(verdict="deny", reason=f"nobody judges file access here, so {target.path} stays closed")


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a running call may know and do."""

    thread: ThreadId
    call: CallId
    agent: AgentDefinition
    workspace: str
    files: str
    """The folder of the thread's own files."""
    tenant: str = "default"
    override: ToolOverride = ToolOverride()
    sandbox: SandboxMode = "auto"
    rules: tuple[tuple[str, tuple[Rule, ...]], ...] = ()
    """Tiers that file tools consult for each path they touch."""
    judge: Callable[[Target], Decision] = _undecided
    """The verdict on what a path led to, rules, ceiling and grants included."""
    approved: tuple[Target, ...] = ()
    """Targets that a person approved. When there are any, the call touches these, unchanged, and nothing else;
    else it touches what `judge` allows, and takes `ask` for no."""
    env: Mapping[str, str] = {}
    taints: tuple[str, ...] = ()
    """Labels that the thread carries; what it saves carries them too."""
    progress: Callable[[str], None] = lambda _: None
    """Shows a line of output to whoever watches; never logged."""
    ask: Callable[[Inquiry], Awaitable[object]] | None = None
    """Puts a question to a person while the call waits, and returns the answer; None when nobody answered in time.
    The question is durable, the call is not: when the process ends meanwhile, it becomes `interrupted`."""
    notify_parent: Callable[[str], Awaitable[None]] | None = None
    set_status: Callable[[str], Awaitable[None]] | None = None


@runtime_checkable
class Tool(Protocol):
    @property
    def spec(self) -> ToolSpec: ...

    def resource(self, arguments: Mapping[str, object]) -> str:
        """What permission rules match on: the command, the path, the URL."""
        ...

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result: ...


@runtime_checkable
class Inspects(Protocol):
    """A tool that can say beforehand which files it will touch."""

    async def inspect(self, arguments: Mapping[str, object], context: ToolContext) -> Inspection:
        """Look, without any effect. What can't be looked at gives no target; `run` then tells why."""
        ...


@runtime_checkable
class Foreign(Protocol):
    """A tool of a program that others run or wrote."""

    @property
    def changed(self) -> str:
        """Why a person must be asked whatever was granted before; empty when the tool is what it always was."""
        ...

    @property
    def confined(self) -> bool:
        """Its program is in a sandbox without a network, so nothing that it is told leaves the machine."""
        ...


class CheckArguments(Protocol):
    def __call__(self, text: str, spec: ToolSpec, override: ToolOverride = ..., /) -> dict[str, object] | Rejected: ...


class BoundResult(Protocol):
    def __call__(self, result: Result, context: ToolContext, /) -> Result:
        """Cut the text to the bounds, save what is cut in the thread's files and tell its path."""
        ...


class Toolbox(Protocol):
    """Every tool an agent might have; filters and rules are applied by the runtime."""

    async def tools(self, agent: AgentDefinition, workspace: str) -> Mapping[str, Tool]: ...
