"""Names a thread after its first completion and sums it up when it is terminated, with hidden agents.

Their failure is ignored and their cost is counted on the thread.
"""

from typing import TYPE_CHECKING

from retinue.runtime.auxiliary import MAX_TITLE, Said, ask_hidden
from retinue.runtime.compaction import transcript
from retinue.runtime.perspective import Perspective
from retinue.runtime.work import read_log
from retinue.schema.events.steps import AuxiliaryUsed
from retinue.schema.events.threads import ThreadSummarized, ThreadTitled

if TYPE_CHECKING:
    from retinue.runtime.work import Work

_MOST = 60_000
"""Characters of a conversation that are summed up; the newest."""


async def before_rest(work: "Work") -> None:
    """What is still due when a thread has nothing else to do."""
    if work.state.thread.path or not work.runtime.tuning.titles or work.state.run is None:
        return
    if work.state.status == "terminated":
        await _summarise(work)
    else:
        await _title(work)


async def _title(work: "Work") -> None:
    run = work.state.run
    if run is None or run.completion is None or run.completion.reason != "goal" or work.state.title:
        return
    await work.flush()
    text = f"{run.started.prompt[:2000]}\n\n{run.last_text[:2000]}"
    said = await ask_hidden(work, "title", text, inherited=run.started.model, seconds=20.0)
    title = " ".join((said.text if said else run.started.prompt).split())[:MAX_TITLE] or "untitled"
    _charge(work, "title", said)
    work.record(ThreadTitled(at=work.now, title=title))


async def _summarise(work: "Work") -> None:
    run = work.state.run
    if run is None or work.state.summary is not None:
        return
    await work.flush()
    perspective = Perspective("a", compacted=work.state.compacted.get("a"))
    turns = [turn for _, event in await read_log(work.runtime, work.thread) for turn in perspective.feed(event)]
    text = transcript(turns, "", most=_MOST)
    said = await ask_hidden(work, "summary", text, inherited=run.started.model, seconds=30.0)
    _charge(work, "summary", said)
    if said is not None and said.text:
        work.record(ThreadSummarized(at=work.now, summary=said.text))


def _charge(work: "Work", agent: str, said: Said | None) -> None:
    if said is not None:
        work.record(AuxiliaryUsed(at=work.now, agent=agent, model=said.model, usage=said.usage, cost=said.cost))
