"""Budgets down a tree: one ledger, reserved before each request, never exceeded, whatever dies in between."""

import asyncio
from collections.abc import Sequence

import pytest

from retinue.models.script import Say, ScriptedRequest
from retinue.models.scripted import ScriptedModel, ScriptedModels
from retinue.ports.store import Account
from retinue.schema.agent import Budget
from retinue.schema.completion import Usage
from retinue.schema.ids import ThreadId
from retinue.testing.harness import Scripts, log_of
from support.agents import agent
from support.opening import OpenApp
from support.tree import ask, children, complete, finished, lead, outcomes, texts

SMALL = 1000
"""What a request of these agents may answer with, so that the reservations are known."""
PRICES = (10, 20)


def ten() -> Say:
    return Say(calls=[*ask("worker").calls] * 10)


def spends(request: ScriptedRequest) -> Say:
    """A worker that uses what was reserved for its answer to the last token."""
    return Say(calls=complete().calls, usage=Usage(input=100, output=1000))


def within(accounts: Sequence[Account]) -> bool:
    return all(
        (a.caps.tokens is None or a.spent_tokens + a.reserved_tokens <= a.caps.tokens)
        and (a.caps.cost is None or a.spent_cost + a.reserved_cost <= a.caps.cost)
        for a in accounts
    )


@pytest.mark.spec("RUN-08", "SUB-16")
async def test_ten_parallel_children_on_a_budget_for_three_never_exceed_it(open_app: OpenApp) -> None:
    """Refused children say which cap; those that were paid for are not taken along."""
    boss = lead("worker", budget=Budget(tokens=8000), max_tokens=SMALL)
    scripts: Scripts = {"lead": lambda r: ten() if r.step == 1 else Say(text="done"), "worker": spends}
    async with open_app(scripts, agents=[boss, agent("worker", max_tokens=SMALL)]) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        accounts = await app.engine.runtime.store.accounts(thread)
        found = outcomes(await log_of(app, thread))
    root = next(a for a in accounts if a.thread == thread)
    served = [o for o in found if o.status == "ok"]
    refused = [o for o in found if o.status == "error"]
    assert len(found) == 10
    assert 2 <= len(served) <= 5
    assert within(accounts)
    assert root.spent_tokens <= 8000
    assert all(f"the budget of thread {thread} is 8000 tokens" in o.text for o in refused)
    assert sum(a.spent_tokens for a in accounts if a.parent == thread) <= root.spent_tokens


@pytest.mark.spec("RUN-08")
async def test_a_childs_cap_is_a_limit_below_its_callers(open_app: OpenApp) -> None:
    boss = lead("worker", budget=Budget(tokens=100_000), max_tokens=SMALL)
    worker = agent("worker", budget=Budget(tokens=1200), max_tokens=SMALL)
    scripts: Scripts = {"lead": [ask("worker"), Say(text="done")], "worker": lambda _: complete()}
    async with open_app(scripts, agents=[boss, worker]) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        [child] = await children(app, thread)
        accounts = await app.engine.runtime.store.accounts(thread)
        log = await log_of(app, thread)
    assert within(accounts)
    assert f"the budget of thread {child.reference} is 1200 tokens" in texts(log)[0]


@pytest.mark.spec("RUN-08")
async def test_a_fork_opens_an_account_of_its_own(open_app: OpenApp) -> None:
    boss = agent("lead", budget=Budget(tokens=3000), max_tokens=SMALL)
    scripts: Scripts = {"lead": lambda _: Say(text="hm", usage=Usage(input=100, output=900))}
    async with open_app(scripts, agents=[boss]) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        fork = await app.engine.fork(thread, message="again")
        await finished(app, fork, 2)
        (mine,) = await app.engine.runtime.store.accounts(fork)
        (theirs,) = await app.engine.runtime.store.accounts(thread)
    assert mine.caps == theirs.caps
    assert (mine.spent_tokens, theirs.spent_tokens) == (1000, 1000)


class Unpriced(ScriptedModel):
    def price(self, usage: Usage) -> int | None:
        return None

    def for_agent(self, agent: str, *, name: str | None = None) -> "Unpriced":
        return self


@pytest.mark.spec("RUN-08")
async def test_a_model_without_a_price_is_refused_below_a_cost_budget_too(open_app: OpenApp) -> None:
    boss = lead("worker", budget=Budget(cost=10_000_000_000), max_tokens=SMALL)
    scripts = ScriptedModels({
        "lead": ScriptedModel([ask("worker"), Say(text="done")], prices=PRICES),
        "worker": Unpriced([complete()], name="scripted/unpriced"),
    })  # fmt: skip
    async with open_app(scripts, agents=[boss, agent("worker", max_tokens=SMALL)]) as app:
        log = await log_of(app, (await app.run("lead", "go")).thread)
    assert "No price is known for" in texts(log)[0]
    assert "Use a token budget" in texts(log)[0]


@pytest.mark.spec("RUN-08", "OBS-04")
async def test_what_each_branch_spends_and_has_set_aside_is_there_to_read(open_app: OpenApp) -> None:
    from retinue.app.threads import tree_of

    started, go = asyncio.Event(), asyncio.Event()

    async def worker(_: ScriptedRequest) -> Say:
        started.set()
        await go.wait()
        return Say(calls=complete().calls, usage=Usage(input=50, output=10))

    boss = lead("worker", budget=Budget(cost=1_000_000), max_tokens=SMALL)
    scripts = ScriptedModels({
        "lead": ScriptedModel([ask("worker"), Say(text="done")], prices=PRICES),
        "worker": ScriptedModel(worker, prices=PRICES),
    })  # fmt: skip
    async with open_app(scripts, agents=[boss, agent("worker", max_tokens=SMALL)]) as app:
        thread, store = await app.start("lead", "go"), app.engine.runtime.store
        async with asyncio.timeout(10):
            await started.wait()
            during = await tree_of(store, thread, now=0)
            go.set()
            completion = await app.engine.wait(thread)
        after = await tree_of(store, thread, now=0)
    (busy,), (child,) = during.children, after.children
    assert busy.reserved_cost >= 1000 * PRICES[1]
    assert during.reserved_cost == busy.reserved_cost
    assert (child.tokens, child.cost, child.reserved_cost) == (60, 700, 0)
    assert after.cost == completion.cost
    assert after.caps.cost == 1_000_000
