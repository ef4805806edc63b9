"""Names a thread after its first completion, with the hidden title agent. Its failure is ignored."""

from typing import TYPE_CHECKING

from retinue.runtime.auxiliary import MAX_TITLE, ask_hidden
from retinue.schema.events.steps import AuxiliaryUsed
from retinue.schema.events.threads import ThreadTitled

if TYPE_CHECKING:
    from retinue.runtime.work import Work


async def after_completion(work: "Work") -> None:
    state, run = work.state, work.state.run
    due = run is not None and run.completion is not None and run.completion.reason == "goal"
    if not due or run is None or state.title or state.thread.path or not work.runtime.tuning.titles:
        return
    await work.flush()
    text = f"{run.started.prompt[:2000]}\n\n{run.last_text[:2000]}"
    said = await ask_hidden(work, "title", text, inherited=run.started.model, seconds=20.0)
    title = " ".join((said.text if said else run.started.prompt).split())[:MAX_TITLE] or "untitled"
    if said:
        work.record(AuxiliaryUsed(at=work.now, agent="title", model=said.model, usage=said.usage, cost=said.cost))
    work.record(ThreadTitled(at=work.now, title=title))
