"""Any order of writes by two owners, compared after each with a model of a few lines."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from retinue.ports.clock import Clock
from retinue.ports.store import Claim, Commit, Committed, InboxEntry, NewThread, Park, Store
from retinue.schema.errors import Fenced, ThreadNotFound
from retinue.schema.ids import Tenant, ThreadId

T = TypeVar("T")
IDS = [ThreadId(f"{i:08}-0000-4000-8000-000000000000") for i in range(3)]
LEASE = 10.0
MARGIN = 2.0
MEMORY = Path("/dev/shm")  # thousands of commits, and none of them needs a disk here


class Opened(Protocol):
    @property
    def store(self) -> Store: ...
    async def close(self) -> None: ...


Open = Callable[[Path, Clock], Coroutine[Any, Any, Opened]]


@pytest.mark.spec("RUN-01", "RUN-13", "SCALE-02")
def test_any_order_of_writes_agrees_with_the_model(open_store: Open) -> None:
    class Machine(StoreMachine):
        open = staticmethod(open_store)

    run_state_machine_as_test(Machine, settings=settings(max_examples=25, stateful_step_count=40, deadline=None))


class SteppedClock:
    """Wall time that moves only when a rule says so."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def new_id(self) -> str:
        raise NotImplementedError

    def random(self) -> float:
        raise NotImplementedError


@dataclass
class Model:
    events: list[bytes] = field(default_factory=list[bytes])
    admitted: list[str] = field(default_factory=list[str])
    drained: int = 0
    runnable_at: float | None = None
    owner: str | None = None
    epoch: int = 0
    lease_until: float = 0.0

    def free_for(self, owner: str, now: float, *, steal: bool) -> bool:
        if self.runnable_at is None or self.runnable_at > now:
            return False
        return self.owner is None or (self.owner != owner and (steal or self.lease_until + MARGIN <= now))

    def wake(self, now: float) -> None:
        if self.owner is None:
            self.runnable_at = now if self.runnable_at is None else min(self.runnable_at, now)


owners = st.sampled_from(["one", "two"])
threads = st.sampled_from(IDS)


class StoreMachine(RuleBasedStateMachine):
    """Two stores on the same data. What an owner believes it holds stays until it claims again."""

    open: Open

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = SteppedClock()
        self.opened = {owner: self.run(self.open(self.folder, self.clock)) for owner in ("one", "two")}
        self.fresh = {"one", "two"}
        self.models: dict[ThreadId, Model] = {}
        self.claims: dict[tuple[str, ThreadId], Claim] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        for database in self.opened.values():
            self.run(database.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    @rule(by=owners, id=threads, events=st.integers(0, 3), runnable=st.booleans())
    def create(self, by: str, id: ThreadId, events: int, runnable: bool) -> None:
        data = tuple(b"%d" % i for i in range(events))
        now = self.clock.time
        new = NewThread(id=id, tenant=Tenant("t"), root=id, agent="a", created_at=now, events=data, runnable=runnable)

        assert self.run(self.opened[by].store.create(new)) == (id not in self.models)

        self.models.setdefault(id, Model(events=list(data), runnable_at=now if runnable else None))

    @rule(by=owners, id=threads, entry=st.sampled_from("abcdef"))
    def admit(self, by: str, id: ThreadId, entry: str) -> None:
        admitting = self.opened[by].store.admit(id, InboxEntry(id=entry, kind="message", at=self.clock.time))
        model = self.models.get(id)
        if model is None:
            with pytest.raises(ThreadNotFound):
                self.run(admitting)
            return
        if entry not in model.admitted:
            model.admitted.append(entry)
            model.wake(self.clock.time)

        assert self.run(admitting) == model.admitted.index(entry) + 1

    @rule(by=owners, limit=st.integers(1, 3), only=st.none() | threads, steal=st.booleans())
    def claim(self, by: str, limit: int, only: ThreadId | None, steal: bool) -> None:
        now = self.clock.time
        self.first_claim(by, now)
        free = [
            (model.runnable_at, id)
            for id, model in self.models.items()
            if only in (None, id) and model.free_for(by, now, steal=steal)
        ]
        free.sort(key=lambda found: (found[0], list(self.models).index(found[1])))

        claims = self.run(self.opened[by].store.claim(by, now=now, lease=LEASE, limit=limit, thread=only, steal=steal))

        assert [claim.thread for claim in claims] == [id for _, id in free][:limit]
        for claim in claims:
            model = self.models[claim.thread]
            model.owner, model.epoch, model.lease_until = by, model.epoch + 1, now + LEASE
            assert (claim.epoch, claim.head) == (model.epoch, len(model.events))
            self.claims[by, claim.thread] = claim

    def first_claim(self, by: str, now: float) -> None:
        """A store that was just opened doesn't trust the clock: whoever was told something is due."""
        if by in self.fresh:
            self.fresh.discard(by)
            for model in self.models.values():
                if model.runnable_at is not None and len(model.admitted) > model.drained:
                    model.wake(now)

    @rule(
        by=owners,
        id=threads,
        events=st.integers(0, 3),
        behind=st.sampled_from([0, 0, 0, 1]),
        drain=st.booleans(),
        park=st.sampled_from(["no", "right", "wrong"]),
        until=st.none() | st.integers(-5, 20),
    )
    def commit(
        self, by: str, id: ThreadId, events: int, behind: int, drain: bool, park: str, until: int | None
    ) -> None:
        claim = self.claims.get((by, id))
        if claim is None:
            return
        model, now = self.models[id], self.clock.time
        head, inbox_head = len(model.events), len(model.admitted)
        data = tuple(b"%d" % (head + i) for i in range(events))
        at = None if until is None else now + until
        parking = None if park == "no" else Park(inbox_head=inbox_head - (park == "wrong"), until=at)
        committing = self.opened[by].store.commit(
            Commit(
                thread=id,
                epoch=claim.epoch,
                expected=head - behind,
                events=data,
                drained=inbox_head if drain else None,
                park=parking,
            )
        )
        if behind or claim.epoch != model.epoch or model.owner is None:
            with pytest.raises(Fenced):
                self.run(committing)
            return
        model.events += data
        model.lease_until = now + LEASE
        if drain:
            model.drained = inbox_head
        if park == "right":
            model.owner, model.lease_until, model.runnable_at = None, 0.0, at

        done = Committed(head=len(model.events), parked=park == "right", inbox_head=inbox_head)
        assert self.run(committing) == done

    @rule(by=owners, id=threads, later=st.none() | st.integers(0, 20))
    def release(self, by: str, id: ThreadId, later: int | None) -> None:
        claim = self.claims.get((by, id))
        if claim is None:
            return
        model, now = self.models[id], self.clock.time
        at = None if later is None else now + later
        self.run(self.opened[by].store.release(claim, runnable_at=at))
        if claim.epoch == model.epoch and model.owner is not None:
            model.owner, model.lease_until, model.runnable_at = None, 0.0, at
            if len(model.admitted) > model.drained:
                model.wake(now)

    @rule(by=owners)
    def renew(self, by: str) -> None:
        until = self.clock.time + LEASE
        held = {id: model for id, model in self.models.items() if model.owner == by}
        for model in held.values():
            model.lease_until = until

        lost = self.run(self.opened[by].store.renew(by, IDS, lease_until=until))

        assert lost == [id for id in IDS if id not in held]

    @rule(seconds=st.sampled_from([0.5, 5.0, LEASE, LEASE + MARGIN - 0.1, LEASE + MARGIN]))
    def wait(self, seconds: float) -> None:
        self.clock.time += seconds

    @rule(by=owners)
    def restart(self, by: str) -> None:
        self.run(self.opened[by].close())
        self.opened[by] = self.run(self.open(self.folder, self.clock))
        self.fresh.add(by)

    @invariant()
    def agree(self) -> None:
        store = self.opened["one"].store
        for id, model in self.models.items():
            row = self.run(store.row(id))
            assert row is not None
            found = Model(
                events=[event.data for event in self.run(store.events(id))],
                admitted=model.admitted[: row.drained] + [stored.entry.id for stored in self.run(store.inbox(id))],
                drained=row.drained,
                runnable_at=row.runnable_at,
                owner=row.owner,
                epoch=row.epoch,
                lease_until=row.lease_until,
            )
            assert found == model
            assert (row.head, row.inbox_head) == (len(model.events), len(model.admitted))
        due = [model.runnable_at for model in self.models.values() if model.owner is None and model.runnable_at]
        assert self.run(store.next_due()) == min(due, default=None)
