"""Budgets down a tree: one ledger, reserved before each request, never exceeded, whatever dies in between."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from retinue.models.script import CallTool, Fault, Say, ScriptedRequest
from retinue.models.scripted import ScriptedModel, ScriptedModels
from retinue.ports.model import Answer, OnDelta, Request
from retinue.ports.store import Account
from retinue.runtime.deps import Tuning
from retinue.schema.agent import Budget
from retinue.schema.completion import Usage
from retinue.schema.events.steps import ModelAsked
from retinue.schema.events.threads import ThreadTitled
from retinue.schema.ids import ThreadId
from retinue.testing.harness import Scripts, log_of
from support.agents import add, agent
from support.opening import OpenApp
from support.tree import ask, children, complete, finished, lead, outcomes, texts, until

SMALL = 1000
"""What a request of these agents may answer with, so that the reservations are known."""
PRICES = (10, 20)
CAP = 22_000
"""Enough for the lead and about three workers, when every byte is a token."""


def ten() -> Say:
    return Say(calls=[*ask("worker").calls] * 10)


class Dense(ScriptedModel):
    """Every byte of a request is a token, and answers are as long as they may be: the worst that can come."""

    async def ask(self, request: Request, on_delta: OnDelta | None = None) -> Answer:
        answer = await super().ask(request, on_delta)
        sent = len(request.head.data) + sum(len(turn.data) for turn in request.turns) + len(request.tail.encode())
        return msgspec.structs.replace(answer, usage=Usage(input=sent, output=SMALL))

    def for_agent(self, agent: str, *, name: str | None = None) -> "Dense":
        return self


def within(accounts: Sequence[Account]) -> bool:
    return all(
        (a.caps.tokens is None or a.spent_tokens + a.reserved_tokens <= a.caps.tokens)
        and (a.caps.cost is None or a.spent_cost + a.reserved_cost <= a.caps.cost)
        for a in accounts
    )


@pytest.mark.spec("RUN-08", "SUB-16")
async def test_ten_parallel_children_on_a_budget_for_three_never_exceed_it(open_app: OpenApp) -> None:
    """Refused children say which cap; those that were paid for are not taken along."""
    boss = lead("worker", budget=Budget(tokens=CAP), max_tokens=SMALL)
    scripts = ScriptedModels({
        "lead": ScriptedModel(lambda r: ten() if r.step == 1 else Say(text="done")),
        "worker": Dense(lambda _: complete()),
    })  # fmt: skip
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
    assert root.spent_tokens <= CAP
    assert all(f"the budget of thread {thread} is {CAP} tokens" in o.text for o in refused)
    assert sum(a.spent_tokens for a in accounts if a.parent == thread) <= root.spent_tokens


@pytest.mark.spec("RUN-08", "SUB-16")
async def test_children_wait_for_what_others_have_set_aside_and_did_not_need(open_app: OpenApp) -> None:
    boss = lead("worker", budget=Budget(tokens=CAP), max_tokens=SMALL)
    scripts: Scripts = {
        "lead": lambda r: ten() if r.step == 1 else Say(text="done"),
        "worker": lambda _: Say(calls=complete().calls, usage=Usage(input=50, output=10), latency=0.02),
    }
    async with open_app(scripts, agents=[boss, agent("worker", max_tokens=SMALL)]) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        accounts = await app.engine.runtime.store.accounts(thread)
        found = outcomes(await log_of(app, thread))
    assert [o.status for o in found] == ["ok"] * 10
    assert within(accounts)
    assert not any(a.reserved_tokens for a in accounts)


@pytest.mark.spec("RUN-08")
async def test_a_server_that_counts_nothing_is_charged_what_was_set_aside(open_app: OpenApp) -> None:
    busy = agent("busy", "add", budget=Budget(tokens=CAP), max_tokens=SMALL)
    scripts: Scripts = {"busy": lambda r: Say(calls=(CallTool("add", {"a": r.step, "b": 2}),), usage=Usage())}
    async with open_app(scripts, agents=[busy], tools=[add]) as app:
        completion = await app.run("busy", "go")
        (account,) = await app.engine.runtime.store.accounts(ThreadId(completion.thread))
    assert completion.reason == "budget"
    assert 0 < account.spent_tokens <= CAP


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
    boss = agent("lead", budget=Budget(tokens=8000), max_tokens=SMALL)
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


@pytest.mark.spec("RUN-08")
async def test_dense_text_and_an_answer_as_long_as_it_may_be_stay_within_the_budget(open_app: OpenApp) -> None:
    """Digits, ciphers and rare scripts have a token for each byte: the request that might not fit is not made."""
    boss = agent("lead", "add", budget=Budget(tokens=12_000), max_tokens=SMALL)
    script = Dense(lambda _: Say(text="9" * 900, calls=[CallTool("add", {"a": 1, "b": 2})]))
    async with open_app(ScriptedModels(script), agents=[boss], tools=[add]) as app:
        completion = await app.run("lead", "7" * 2000)
        (account,) = await app.engine.runtime.store.accounts(ThreadId(completion.thread))
    assert completion.reason == "budget"
    assert completion.steps >= 2
    assert 6_000 < account.spent_tokens <= 12_000


@pytest.mark.spec("RUN-08")
async def test_what_the_provider_counted_is_not_set_aside_by_the_byte_again(open_app: OpenApp) -> None:
    reserved: list[int] = []
    boss = agent("lead", "add", budget=Budget(tokens=1_000_000), max_tokens=SMALL)
    turns = [Say(calls=[CallTool("add", {"a": 1, "b": 2})], usage=Usage(input=3000, output=10)), Say(text="ok")]
    async with open_app(turns, agents=[boss], tools=[add]) as app:
        completion = await app.run("lead", "long words " * 1000)
        log = await log_of(app, completion.thread)
    reserved += [event.reserved_tokens for event in log if isinstance(event, ModelAsked)]
    assert reserved[0] > 12_000
    assert 4000 < reserved[1] < 6000


@pytest.mark.spec("RUN-08")
@pytest.mark.parametrize("cap", [9_000, 1_000_000])
async def test_hidden_requests_are_set_aside_first_and_left_out_when_they_do_not_fit(
    open_app: OpenApp, cap: int
) -> None:
    """A title is a request too: it never passes the cap, and what it takes is on the thread's account."""
    asked: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        asked.append(request.agent)
        return Say(text="fine", usage=Usage(input=100, output=40))

    boss = agent("lead", budget=Budget(tokens=cap), max_tokens=SMALL)
    async with open_app(script, agents=[boss], tuning=Tuning(retry_from=0.01)) as app:
        thread = await app.start("lead", "go")
        await until(app, thread, ThreadTitled)
        (account,) = await app.engine.runtime.store.accounts(thread)
        title = (await app.engine.state(thread)).title
    served = cap > 10_000
    assert (len(asked), title) == ((2, "fine") if served else (1, "go"))
    assert (account.spent_tokens, account.reserved_tokens) == (280 if served else 140, 0)


@pytest.mark.spec("RUN-08")
async def test_a_hidden_request_that_fails_is_charged_as_after_a_crash(open_app: OpenApp) -> None:
    def script(request: ScriptedRequest) -> Say:
        if request.agent == "lead":
            return Say(text="fine", usage=Usage(input=100, output=40))
        return Say(fault=Fault("cut", times=None))

    boss = agent("lead", budget=Budget(tokens=1_000_000), max_tokens=SMALL)
    async with open_app(script, agents=[boss], tuning=Tuning(retry_from=0.01)) as app:
        thread = await app.start("lead", "go")
        await until(app, thread, ThreadTitled)
        (account,) = await app.engine.runtime.store.accounts(thread)
    assert account.reserved_tokens == 0
    assert account.spent_tokens > 140 + 100


@pytest.mark.spec("RUN-08")
async def test_options_of_a_definition_buy_nothing_beyond_what_was_set_aside(open_app: OpenApp) -> None:
    sent: dict[str, object] = {}

    def script(request: ScriptedRequest) -> Say:
        sent[request.agent] = msgspec.json.decode(request.head.options)
        return Say(text="ok")

    options = {"n": 4, "max_tokens": 90_000, "seed": 7, "generationConfig": {"maxOutputTokens": 90_000, "topK": 3}}
    free, bound = agent("free", options=options), agent("bound", options=options, budget=Budget(tokens=50_000))
    async with open_app(script, agents=[free, bound]) as app:
        await app.run("free", "go")
        await app.run("bound", "go")
    assert sent == {"free": options, "bound": {"seed": 7, "generationConfig": {"topK": 3}}}
