from itertools import count

import pytest

from retinue.models.script import CallTool, Say, ScriptedRequest
from retinue.models.scripted import ScriptedModel
from retinue.schema.agent import Compaction
from retinue.schema.events.steps import CallSettled, ContextCompacted, ModelAnswered
from retinue.schema.message import text_of
from retinue.testing.harness import log_of
from retinue.tools.function import tool
from support.agents import agent
from support.opening import OpenApp
from support.tree import ask, children, complete, lead


class Reader:
    """Reads page after page, and keeps what it was sent."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.sent: list[ScriptedRequest] = []

    def __call__(self, request: ScriptedRequest) -> Say:
        if request.agent == "compaction":
            return Say(text="SUMMARY OF THE PAST")
        self.sent.append(request)
        n = len(self.sent)
        return Say(calls=(CallTool("page", {"n": n}),)) if n <= self.pages else Say(text="done")


async def read_all(
    open_app: OpenApp, reader: Reader, *, size: int, window: int, **keys: object
) -> tuple[list[ContextCompacted], list[ModelAnswered]]:
    @tool(effect="read")
    def page(n: int) -> str:
        """Read a page."""
        return f"page {n} " + "x" * size

    model = ScriptedModel(reader, window=window)
    definition = agent("calc", "page", max_steps=1000, **keys)
    async with open_app({"*": model}, agents=[definition], tools=[page]) as app:
        completion = await app.run("calc", "read it all")
        log = await log_of(app, completion.thread)
    compactions = [e for e in log if isinstance(e, ContextCompacted)]
    assert len([e for e in log if isinstance(e, CallSettled)]) == reader.pages
    assert completion.usage.total >= sum(c.usage.total for c in compactions)
    assert completion.cost is not None, "shortening costs nothing, which is not the same as an unknown price"
    return compactions, [e for e in log if isinstance(e, ModelAnswered)]


@pytest.mark.spec("RUN-10", "REG-12")
async def test_compaction_summarises_keeps_pairs_and_the_log_keeps_everything(open_app: OpenApp) -> None:
    reader = Reader(12)
    wanted = Compaction(at=0.5, keep=0.2)
    compactions, _ = await read_all(open_app, reader, size=900, window=5_000, compaction=wanted)

    assert any(c.summary == "SUMMARY OF THE PAST" for c in compactions)
    assert "SUMMARY OF THE PAST" in text_of(reader.sent[-1].turns[0].parts)
    assert sum(c.usage.total for c in compactions) > 0


@pytest.mark.spec("RUN-10")
async def test_many_small_calls_are_compacted_seldom_and_stay_below_the_limit(open_app: OpenApp) -> None:
    compactions, answers = await read_all(open_app, Reader(150), size=5, window=4_000)

    assert 1 <= len(compactions) <= 25
    assert max(a.usage.input for a in answers) < 0.6 * 4_000
    assert all(c.summary for c in compactions), "nothing here is long enough to be shortened"


@pytest.mark.spec("RUN-10")
async def test_long_outputs_are_shortened_before_anything_is_summarised(open_app: OpenApp) -> None:
    wanted = Compaction(at=0.5, keep=0.1)
    compactions, _ = await read_all(open_app, Reader(12), size=8_000, window=8_000, compaction=wanted)

    assert compactions[0].summary == ""
    assert compactions[0].trimmed
    assert len(compactions) <= 4


@pytest.mark.spec("RUN-10")
async def test_a_head_that_fills_the_window_does_not_compact_at_every_step(open_app: OpenApp) -> None:
    compactions, _ = await read_all(open_app, Reader(40), size=5, window=4_000, prompt="rule " * 1_500)

    assert 1 <= len(compactions) <= 10


@pytest.mark.spec("RUN-10")
@pytest.mark.parametrize(("own", "compacts"), [(Compaction(off=True), False), (None, True)])
async def test_children_inherit_how_their_callers_compact(
    open_app: OpenApp, own: Compaction | None, *, compacts: bool
) -> None:
    @tool(effect="read")
    def page(n: int) -> str:
        """Read a page."""
        return f"page {n} " + "x" * 900

    numbers = count(1)

    def script(request: ScriptedRequest) -> Say:
        match request.agent:
            case "lead" | "middle" if request.step == 1:
                return ask("middle" if request.agent == "lead" else "reader")
            case "reader" if (n := next(numbers)) <= 12:
                return Say(calls=(CallTool("page", {"n": n}),))
            case _:
                return complete() if request.agent != "lead" else Say(text="done")

    agents = [lead("middle", compaction=own), agent("middle", allowed_agents=("reader",), can_spawn_subagents=True)]
    model = ScriptedModel(script, window=5_000)
    async with open_app({"*": model}, agents=[*agents, agent("reader", "page")], tools=[page]) as app:
        thread = (await app.run("lead", "go")).thread
        [middle] = await children(app, thread)
        [reader] = await children(app, middle.reference)
        log = await log_of(app, reader.reference)
    assert len([e for e in log if isinstance(e, CallSettled)]) == 13
    assert any(isinstance(e, ContextCompacted) for e in log) is compacts
