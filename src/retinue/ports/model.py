"""What the runtime needs of a model: turns encoded once, requests sent, deltas as they come.

A request is a head (system, tools, settings), turns that are only ever
appended, and a volatile tail. The runtime keeps the encoded fragments and their
hash chain; the model joins and sends them.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from retinue.schema.agent import AgentDefinition, ReasoningEffort
from retinue.schema.completion import Usage
from retinue.schema.message import Part, Turn
from retinue.schema.tool import ToolSpec

Finish = Literal["stop", "calls", "length", "refusal", "filtered", "other"]


class Fragment(msgspec.Struct, frozen=True):
    """One encoded wire turn; `mark` is where a cache hint may be spliced in, or -1."""

    data: bytes
    mark: int = -1


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same from step to step."""

    system: str
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    reasoning_effort: ReasoningEffort | None = None
    thinking_budget: int | None = None
    parallel_tool_calls: bool = True
    tool_choice: Literal["auto", "none", "required"] = "auto"
    output_schema: bytes | None = None
    options: bytes = b"{}"
    """JSON object merged into the request's top level."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    head: Fragment
    turns: Sequence[Fragment]
    tail: str = ""
    """Volatile text for the model (child registry, reminders), never cached."""
    message_id: str | None = None
    """The id of the newest message from outside; the scripted model can see it."""
    stream: bool = True


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text or thinking, or news of a call being written."""

    kind: Literal["text", "thinking", "call"]
    text: str
    index: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`parts` hold calls with an empty id: the runtime numbers them when it records them."""

    parts: tuple[Part, ...]
    finish: Finish
    usage: Usage
    raw_finish: str = ""


OnDelta = Callable[[Delta], None]


class Model(Protocol):
    """One model of one provider. Cancelling `ask` closes its connection at once."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    def format(self) -> str: ...

    @property
    def window(self) -> int:
        """Tokens of context."""
        ...

    @property
    def max_output(self) -> int: ...

    def encode_head(self, head: Head) -> Fragment: ...

    def encode_turn(self, turn: Turn) -> Fragment: ...

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        """Send and read to the end. Raises `ModelError`, `ContextOverflow`."""
        ...

    def price(self, usage: Usage) -> int | None:
        """Nano-dollars, or None when no price is known."""
        ...


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One place to ask, in order of preference; `note` says why when it is not the first wish."""

    model: Model
    note: str | None = None


class Models(Protocol):
    def resolve(
        self,
        definition: AgentDefinition,
        *,
        asked: str | None = None,
        inherited: str | None = None,
        trusted: bool = True,
    ) -> Sequence[Candidate]:
        """The candidates for an agent, best first.

        Raises:
            ModelError: nothing is configured that fits; the text lists what is.
        """
        ...
