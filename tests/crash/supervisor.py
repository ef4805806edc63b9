"""Kills a run after every commit, and before every commit, restarts it, and tells what came of it.

Run as a program: `supervisor.py FOLDER AGENT`. Each life of the run is a fork of
this process, so that a kill is a real SIGKILL and a start costs milliseconds.
Prints one JSON object: what the uninterrupted run did, and what each killed one did.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from crash import scenario
from crash.told import Life, Moment, Thread, Told
from retinue.ports.store import Commit, Committed, Store
from retinue.runtime.engine import Engine
from retinue.schema.events.runs import MessageReceived
from retinue.schema.events.steps import CallSettled, ModelAsked
from retinue.schema.ids import ThreadId
from retinue.storage.check import check
from retinue.testing.harness import scripted_app

ROOT = ThreadId("11111111-1111-4111-8111-111111111111")
LIFETIME = 20.0
"""Seconds that one life may take."""


class DyingStore:
    """Ends the process around the n-th commit; everything else is the real store."""

    def __init__(self, store: Store, at: int, moment: Moment) -> None:
        self._store = store
        self._at = at
        self._moment: Moment = moment
        self._count = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, commit: Commit) -> Committed:
        self._count += 1
        mine = self._count == self._at
        if mine and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        committed = await self._store.commit(commit)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return committed

    @property
    def commits(self) -> int:
        return self._count


async def live(folder: Path, agent: str, at: int, moment: Moment) -> Life:
    """One life of the run: start it if it was never started, drive it, and report how it ended."""
    dying: list[DyingStore] = []

    def mortal(store: Store) -> Store:
        dying.append(DyingStore(store, at, moment))
        return dying[0]  # pyright: ignore[reportReturnType] # everything but commit is the real store's

    async with scripted_app(
        folder,
        {"*": scenario.script(folder / "requests")},
        agents=scenario.agents(),
        tools=scenario.tools(folder / "effects"),
        wrap_store=mortal,
    ) as app:
        if await app.engine.runtime.store.row(ROOT) is None:
            await app.start(agent, "go", id=ROOT, people="none")
            await app.engine.send(ROOT, "and hurry", id="extra")
            (folder / "acknowledged").write_text("extra")
        async with asyncio.timeout(LIFETIME):
            completion = await app.engine.wait(ROOT)
            await settled(app.engine)
        told = await facts(app.engine, folder, completion.result, dying[0].commits)
    return msgspec.structs.replace(told, ledger=check(folder / "home" / "retinue.db"))


async def settled(engine: Engine) -> None:
    """Wait until every thread of the tree is at rest."""
    store = engine.runtime.store
    while any(
        row.owner is not None or row.inbox_head > row.drained or row.listing.status in ("running", "waiting", "idle")
        for row in await store.rows(None, root=ROOT)
    ):
        await store.changed(ROOT, after=1_000_000, timeout=0.02)


async def facts(engine: Engine, folder: Path, result: object, commits: int) -> Life:
    threads: list[Thread] = []
    asked = 0
    for row in await engine.runtime.store.rows(None, root=ROOT):
        log = [event for _, event in await engine.log(row.id)]
        asked += sum(isinstance(e, ModelAsked) for e in log)
        settled = [e.outcome for e in log if isinstance(e, CallSettled)]
        threads.append(
            Thread(
                agent=row.listing.agent,
                status=row.listing.status,
                calls=sorted(outcome.tool for outcome in settled),
                interrupted=sum(outcome.status == "interrupted" for outcome in settled),
                messages=[e.id for e in log if isinstance(e, MessageReceived)],
            )
        )
    accounts = await engine.runtime.store.accounts(ROOT)
    requests = folder / "requests"
    effects = folder / "effects"
    return Life(
        result=result,
        threads=threads,
        effects=effects.read_text().splitlines() if effects.exists() else [],
        asked=asked,
        reserved=sum(a.reserved_tokens for a in accounts),
        sent=sum(scenario.used(agent).total for agent in requests.read_text().splitlines()),
        spent=next(a.spent_tokens for a in accounts if a.parent is None),
        exceeded=any(a.caps.tokens is not None and a.spent_tokens > a.caps.tokens for a in accounts),
        acknowledged=(folder / "acknowledged").exists(),
        commits=commits,
    )


def in_a_fork(folder: Path, agent: str, at: int, moment: Moment) -> Life | None:
    """One life; None when it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            told = asyncio.run(live(folder, agent, at, moment))
        except BaseException as error:
            told = Life(error=repr(error))
        os.write(write, msgspec.json.encode(told))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else msgspec.json.decode(told, type=Life)


def main(arguments: Sequence[str]) -> None:
    base, agent = Path(arguments[0]), arguments[1]
    whole = in_a_fork(base / "whole", agent, 0, "after")
    assert whole is not None
    lives: list[Life] = []
    moments: tuple[Moment, ...] = ("before", "after")
    for moment in moments:
        for at in range(1, whole.commits + 1):
            folder = base / f"{moment}-{at}"
            first = in_a_fork(folder, agent, at, moment)
            last = first or in_a_fork(folder, agent, 0, "after") or Life(error="killed twice")
            lives.append(msgspec.structs.replace(last, at=at, moment=moment, killed=first is None))
    sys.stdout.buffer.write(msgspec.json.encode(Told(whole, lives)))


if __name__ == "__main__":
    main(sys.argv[1:])
