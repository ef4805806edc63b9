"""A model without a provider: answers, calls and faults from a list, a function or a file.

It ships with the product for tests, demos and users' own agent tests. It keeps no
state that a crash could lose: the position in a list is the number of assistant
turns in the request, so a restarted process goes on with the answer that is due.
Only which faults were already raised lives in memory: a fault is raised again after a
restart. A compacted thread has fewer assistant turns; script it with rules or a function.

What a script may say, and how files are read, is in `retinue.models.script`.
"""

import asyncio
import copy
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from retinue.models import neutral
from retinue.models.script import Fault, FaultKind, Item, Say, Script, ScriptedRequest, as_say, script_from_file
from retinue.ports.clock import Clock
from retinue.ports.model import Answer, Candidate, Delta, Finish, OnDelta, Request
from retinue.schema.agent import AgentDefinition
from retinue.schema.completion import Usage
from retinue.schema.errors import ContextOverflow, ModelError
from retinue.schema.ids import CallId
from retinue.schema.message import Call, Part, Text, Thinking

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Function = Callable[[ScriptedRequest], Item | Awaitable[Item]]
AnyScript = Script | Function | Sequence[Item] | Path
_BYTES_PER_TOKEN = 4
_SENTENCES: Mapping[FaultKind, str] = {
    "rate_limit": "rate limit reached",
    "overloaded": "overloaded",
    "overflow": "the prompt is longer than the window",
    "cut": "the stream ended in the middle of an answer",
    "refuse": "I can't help with that.",
    "error": "the provider failed",
    "hang": "no answer comes",
}


class ScriptedModel:
    """One scripted model.

    Args:
        script: A list of answers used in order, a function of the request, a YAML
            or JSON file, or what `script_from_file` returned.
        prices: Nano-dollars per input and output token.
        agent: The id that `when: {agent: …}` sees; `ScriptedModels` sets it.
    """

    def __init__(
        self,
        script: AnyScript,
        *,
        name: str = "scripted/script",
        window: int = 200_000,
        max_output: int = 32_000,
        prices: tuple[int, int] = (0, 0),
        agent: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.format = neutral.NAME
        self.window = window
        self.max_output = max_output
        self._script = _script(script)
        self._prices = prices
        self._agent = agent
        self._clock = clock

    encode_head = staticmethod(neutral.encode_head)
    encode_turn = staticmethod(neutral.encode_turn)

    def price(self, usage: Usage) -> int | None:
        return usage.input * self._prices[0] + usage.output * self._prices[1]

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        say = await self._choose(ScriptedRequest(request, agent=self._agent))
        await self._pause(say.latency)
        fault = say.failure
        if fault is not None:
            await self._fail(fault, say, request, on_delta)
        if fault is not None and not say.text:
            say = msgspec.structs.replace(say, text=fault.text or _SENTENCES["refuse"])
        if request.stream:
            await self._stream(say, None, on_delta)
        usage = say.usage or _estimate(request, say)
        return Answer(parts=tuple(_parts(say)), finish=_finish(say), usage=usage, raw_finish="scripted")

    def for_agent(self, agent: str, *, name: str | None = None) -> "ScriptedModel":
        """The same script and position, seen by one agent."""
        seen = copy.copy(self)
        seen.name, seen._agent = name or self.name, agent
        return seen

    async def _choose(self, request: ScriptedRequest) -> Say:
        if isinstance(self._script, Script):
            return self._script.choose(request)
        item = self._script(request)
        return as_say(await item if inspect.isawaitable(item) else item)

    async def _fail(self, fault: Fault, say: Say, request: Request, on_delta: OnDelta | None) -> None:
        """Raise what `fault` says. A refusal returns: it is an answer."""
        said = f"{self.name}: {fault.text or _SENTENCES[fault.kind]}"
        match fault.kind:
            case "rate_limit" | "overloaded":
                status = fault.status or (429 if fault.kind == "rate_limit" else 529)
                raise ModelError(said, status=status, transient=True, retry_after=fault.retry_after)
            case "overflow":
                raise ContextOverflow(said, status=fault.status or 400)
            case "error":
                raise ModelError(said, status=fault.status, transient=fault.transient)
            case "cut":
                if request.stream:
                    await self._stream(say, fault.after, on_delta)
                raise ModelError(said, transient=True)
            case "hang":
                await asyncio.Event().wait()
            case "refuse":
                return

    async def _stream(self, say: Say, chunks: int | None, on_delta: OnDelta | None) -> None:
        if on_delta is None:
            return
        for delta in islice(_deltas(say), chunks):
            if say.pace:
                await self._pause(say.pace)
            on_delta(delta)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0 and self._clock is not None:
            return await self._clock.sleep(seconds)
        # Even an instant answer lets others run, as one from a network would.
        await asyncio.sleep(seconds)


class ScriptedModels:
    """Resolves every agent to a scripted model.

    Args:
        scripts: One script or model for all agents; or a mapping whose keys are
            agent ids or model names, with `*` for the rest. A model that was asked
            for by name comes before the agent's own entry.
    """

    def __init__(self, scripts: AnyScript | ScriptedModel | Mapping[str, AnyScript | ScriptedModel]) -> None:
        table = scripts if _is_table(scripts) else {"*": scripts}
        self._models = {key: s if isinstance(s, ScriptedModel) else ScriptedModel(s) for key, s in table.items()}
        self._seen: dict[tuple[str, str, str], Candidate] = {}

    def resolve(
        self,
        definition: AgentDefinition,
        *,
        asked: str | None = None,
        inherited: str | None = None,
        trusted: bool = True,
    ) -> Sequence[Candidate]:
        wishes = [w for w in (asked, definition.id, definition.model, inherited) if w and w in self._models]
        first = wishes[0] if wishes else "*"
        if first not in self._models:
            raise ModelError(
                f"no script for agent {definition.id!r} (model {asked or definition.model or inherited})",
                hint=f"there are scripts for {', '.join(sorted(self._models))}; '*' would match every agent",
            )
        names = {first: self._models[first].name if first in (definition.id, "*") else first}
        names |= {wish: wish for wish in definition.fallback_models if wish in self._models}
        return [self._candidate(key, name, definition.id) for key, name in names.items()]

    def _candidate(self, key: str, name: str, agent: str) -> Candidate:
        seen = self._seen.get((key, name, agent))
        if seen is None:
            seen = Candidate(model=self._models[key].for_agent(agent, name=name))
            self._seen[key, name, agent] = seen
        return seen


def _is_table(
    scripts: AnyScript | ScriptedModel | Mapping[str, AnyScript | ScriptedModel],
) -> "TypeIs[Mapping[str, AnyScript | ScriptedModel]]":
    return isinstance(scripts, Mapping)


def _script(script: AnyScript) -> Script | Function:
    if isinstance(script, Script):
        return script
    if isinstance(script, Path):
        return script_from_file(script)
    if callable(script):
        return script
    return Script(answers=script)


def _parts(say: Say) -> Iterator[Part]:
    if say.thinking:
        yield Thinking(text=say.thinking)
    if say.text:
        yield Text(text=say.text)
    for call in say.calls:
        yield Call(id=CallId(""), tool=call.tool, arguments=_json(call.arguments))


def _deltas(say: Say) -> Iterator[Delta]:
    yield from (Delta(kind="thinking", text=piece) for piece in _words(say.thinking))
    yield from (Delta(kind="text", text=piece) for piece in _pieces(say.text, say.chunks))
    yield from (Delta(kind="call", text=call.tool, index=index) for index, call in enumerate(say.calls))


def _pieces(text: str, chunks: int | Sequence[str] | None) -> Sequence[str]:
    if chunks is None:
        return _words(text)
    if not isinstance(chunks, int):
        return chunks
    size = max(1, -(-len(text) // max(1, chunks)))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _words(text: str) -> Sequence[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _finish(say: Say) -> Finish:
    if say.finish is not None:
        return say.finish
    if say.fault is not None:
        return "refusal"
    return "calls" if say.calls else "stop"


def _estimate(request: Request, say: Say) -> Usage:
    sent = len(request.head.data) + sum(len(t.data) for t in request.turns) + len(request.tail)
    thought = len(say.thinking)
    said = thought + len(say.text) + sum(len(c.tool) + len(_json(c.arguments)) for c in say.calls)
    return Usage(
        input=sent // _BYTES_PER_TOKEN + 1,
        output=said // _BYTES_PER_TOKEN + 1,
        thinking=thought // _BYTES_PER_TOKEN,
    )


def _json(arguments: Mapping[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
