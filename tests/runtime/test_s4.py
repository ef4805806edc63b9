"""S4 sentence by sentence: what it demands, recommends or words exactly. Each docstring quotes it."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from retinue.app.thread_views import children_of
from retinue.models.script import Say, ScriptedRequest
from retinue.runtime.hooks import Hook
from retinue.schema.agent import Immediate, Resumable, Side, Subagent
from retinue.schema.events.children import ChildReported, ChildStarted, VariablesRequested
from retinue.schema.events.runs import RunCompleted
from retinue.schema.events.threads import SegmentStarted
from retinue.schema.ids import ThreadId
from retinue.schema.message import text_of
from retinue.testing.harness import Scripts, log_of
from support.agents import agent
from support.opening import OpenApp
from support.tree import ask, boss, call, children, complete, finished, lead, pair, silent, texts, two, until


@pytest.mark.spec("SUB-12", "SUB-05")
async def test_a_session_stop_is_queued_silently_in_s4s_words(open_app: OpenApp) -> None:
    """§7.10: "the parent receives a queued silent message: Subagent (reference: {uuid}) has returned the following
    result: {result}"."""
    scripts: Scripts = {
        "lead": lambda r: call("agent_pair", message="go") if r.step == 1 else Say(text="ok"),
        "pair": two(Say(text="x"), call("approve", summary="fine")),
    }
    async with open_app(scripts, agents=[boss(Subagent(name="pair", blocking=False)), pair()]) as app:
        thread = (await app.run("lead", "go")).thread
        await until(app, thread, ChildReported)
        log, [child] = await log_of(app, thread), await children(app, thread)
    assert silent(log) == [f"Subagent (reference: {child.reference}) has returned the following result:\n\nfine"]


@pytest.mark.spec("SUB-12", "SUB-05")
async def test_a_session_fail_is_queued_silently_in_s4s_words(open_app: OpenApp) -> None:
    """§7.10: "Subagent (reference: {uuid}) has reported a failure: {failure details}"."""
    scripts: Scripts = {
        "lead": lambda r: call("agent_pair", message="go") if r.step == 1 else Say(text="ok"),
        "pair": two(call("fail", reason="no paint"), Say(text="?")),
    }
    async with open_app(scripts, agents=[boss(Subagent(name="pair", blocking=False)), pair()]) as app:
        thread = (await app.run("lead", "go")).thread
        await until(app, thread, ChildReported)
        log, [child] = await log_of(app, thread), await children(app, thread)
    assert silent(log) == [f"Subagent (reference: {child.reference}) has reported a failure:\n\nno paint"]


@pytest.mark.spec("SUB-12")
async def test_the_turn_cap_notifies_the_parent_in_the_same_words(open_app: OpenApp) -> None:
    """§7.10 with UPSTREAM: "Implicit notification also fires when max_session_turns ends a child"."""
    scripts: Scripts = {
        "lead": lambda r: call("agent_talk", message="go") if r.step == 1 else Say(text="ok"),
        "talk": lambda r: Say(text=f"word {r.step}"),
    }
    talk = agent("talk", type="dual_ai", max_session_turns=2, side_b=Side())
    async with open_app(scripts, agents=[boss(Subagent(name="talk", blocking=False)), talk]) as app:
        thread = (await app.run("lead", "go")).thread
        reported = await until(app, thread, ChildReported)
        log, [child] = await log_of(app, thread), await children(app, thread)
    assert isinstance(reported, ChildReported)
    assert reported.result == {"status": "PARTIAL", "reason": "max_session_turns"}
    assert silent(log) == [f"Subagent (reference: {child.reference}) has returned the following result:\n\nword 2"]


@pytest.mark.spec("SUB-12", "SUB-13")
async def test_a_status_updates_the_registry_and_ends_nothing(open_app: OpenApp) -> None:
    """§7.10: "`sessionStatus` updates the parent's child registry status text without ending child execution"."""

    def sides(request: ScriptedRequest) -> Say:
        if "approve" not in request.tools:
            return Say(text="draft")
        return call("approve", summary="fine") if request.outcomes else call("report", status="queued")

    scripts: Scripts = {
        "lead": lambda r: call("agent_pair", message="go") if r.step == 1 else Say(text="ok"),
        "pair": sides,
    }
    async with open_app(scripts, agents=[boss(Subagent(name="pair")), pair()]) as app:
        thread = (await app.run("lead", "go")).thread
        log = await log_of(app, thread)
    reports = [(e.status, e.words) for e in log if isinstance(e, ChildReported)]
    assert reports == [("queued", True), ("completed", False)]
    assert '"result":"fine"' in texts(log)[0]


@pytest.mark.spec("SUB-12")
@pytest.mark.parametrize("worker", [complete("gold"), complete("broke", "FAILED")])
async def test_explicit_communication_queues_nothing_by_itself(open_app: OpenApp, worker: Say) -> None:
    """§7.10: "When `parentCommunication` is `explicit`, runtimes MUST NOT auto-queue completion/failure"."""
    config = Subagent(name="worker", blocking=False, resumable=Resumable(parent_communication="explicit"))
    scripts: Scripts = {
        "lead": lambda r: call("subagent_create", agent="worker", name="w", message="x") if r.step == 1 else Say("ok"),
        "worker": lambda _: worker,
    }
    async with open_app(scripts, agents=[boss(config), agent("worker")]) as app:
        thread = (await app.run("lead", "go")).thread
        reported = await until(app, thread, ChildReported)
        log = await log_of(app, thread)
        view = children_of(await app.engine.state(ThreadId(thread)))
    assert isinstance(reported, ChildReported)
    assert reported.status == "idle"
    assert silent(log) == []
    assert view[0].parent_communication == "explicit"


@pytest.mark.spec("SUB-12")
async def test_tools_and_hooks_escalate_explicitly(open_app: OpenApp) -> None:
    """§7.10: "Tools or hooks escalate explicitly: `state.notifyParent(content)`, `state.setStatus(status)`"."""

    class Reaches:
        notify_parent: Callable[[str], None]
        set_status: Callable[[str], None]

    def shout(result: object, state: Reaches) -> None:
        state.set_status("nearly there")
        state.notify_parent("from a hook")
        state.notify_parent("and again")

    config = Subagent(name="worker", blocking=False, resumable=Resumable(parent_communication="explicit"))
    scripts: Scripts = {
        "lead": lambda r: call("subagent_create", agent="worker", name="w", message="x") if r.step == 1 else Say("ok"),
        "worker": [call("notify_parent", content="I need help"), complete()],
    }
    worker = agent("worker", "notify_parent", hooks=("shout",))
    hook = Hook(id="shout", kind="after_tool_call_success", run=shout)
    async with open_app(scripts, agents=[boss(config), worker], hooks=[hook]) as app:
        thread = (await app.run("lead", "go")).thread
        await until(app, thread, ChildReported, times=2)
        log = await log_of(app, thread)
    assert silent(log)[:3] == ["I need help", "from a hook", "and again"]


@pytest.mark.spec("SUB-12")
async def test_the_two_ways_up_are_model_tools_only_when_listed(open_app: OpenApp) -> None:
    """SUB-12: "as model tools only if the definition lists them"."""
    offered: dict[str, set[str]] = {}

    def look(request: ScriptedRequest) -> Say:
        offered[request.agent] = {"notify_parent", "set_status"} & {*request.tools}
        return complete()

    scripts: Scripts = {"lead": [ask("plain"), ask("both"), Say(text="ok")], "*": look}
    agents = [lead("plain", "both"), agent("plain"), agent("both", "notify_parent", "set_status")]
    async with open_app(scripts, agents=agents) as app:
        await app.run("lead", "go")
    assert offered == {"plain": set(), "both": {"notify_parent", "set_status"}}


@pytest.mark.spec("SUB-08")
async def test_a_created_child_needs_a_name(open_app: OpenApp) -> None:
    """§7.7: "`subagent_create` MUST require a non-empty `name` argument"."""
    scripts: Scripts = {"lead": [
        call("subagent_create", agent="worker", name="  ", message="x"),
        call("subagent_create", agent="worker", message="x"),
        Say(text="ok"),
    ]}  # fmt: skip
    config = Subagent(name="worker", resumable=Resumable())
    async with open_app(scripts, agents=[boss(config), agent("worker")]) as app:
        thread = (await app.run("lead", "go")).thread
        log = await log_of(app, thread)
    assert "`name` is empty" in texts(log)[0]
    assert "name" in texts(log)[1]
    assert not any(isinstance(e, ChildStarted) for e in log)


@pytest.mark.spec("SUB-08", "SUB-06")
async def test_at_the_cap_the_error_suggests_an_existing_instance(open_app: OpenApp) -> None:
    """§7.7: "When `maxInstances` is reached, new creation attempts SHOULD return a tool error explaining the cap and
    suggesting messaging an existing instance"."""
    scripts: Scripts = {
        "lead": [
            call("subagent_create", agent="worker", name="ann", message="x"),
            call("subagent_create", agent="worker", name="bob", message="x"),
            Say(text="ok"),
        ],
        "worker": lambda _: complete(),
    }
    config = Subagent(name="worker", resumable=Resumable(max_instances=1))
    async with open_app(scripts, agents=[boss(config), agent("worker")]) as app:
        thread = (await app.run("lead", "go")).thread
        log, [child] = await log_of(app, thread), await children(app, thread)
    assert texts(log)[1] == (
        f"There are 1 instances of worker already, the limit. Message an existing one: ann ({child.reference})."
    )


@pytest.mark.spec("SUB-08")
async def test_only_resumable_agents_bring_the_lifecycle_tools(open_app: OpenApp) -> None:
    """§7.7: "For resumable instances, runtimes expose built-in lifecycle tools" and "Non-resumable subagents behave
    like direct tool calls (no persistent addressing)"."""
    offered: dict[str, set[str]] = {}

    def look(request: ScriptedRequest) -> Say:
        offered[request.agent] = {n for n in request.tools if n.startswith(("subagent_", "agent_"))}
        return Say(text="ok")

    one = boss(Subagent(name="worker"))
    other = agent("other", subagents=(Subagent(name="worker", resumable=Resumable()),), can_spawn_subagents=True)
    async with open_app({"*": look}, agents=[one, other, agent("worker")]) as app:
        await app.run("lead", "go")
        await app.run("other", "go")
    assert offered == {"lead": {"agent_worker"}, "other": {"subagent_create", "subagent_message"}}


@pytest.mark.spec("SUB-07")
@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("resumable", [True, False])
async def test_the_four_invocation_modes_work_across_a_restart(
    open_app: OpenApp, blocking: bool, resumable: bool
) -> None:
    """§7.3: blocking or not, resumable or not."""
    config = Subagent(name="worker", blocking=blocking, resumable=Resumable() if resumable else None)
    tool = "subagent_create" if resumable else "agent_worker"
    first = call(tool, **({"agent": "worker", "name": "w"} if resumable else {}), message="x")
    begun = asyncio.Event()

    async def cut(_: ScriptedRequest) -> Say:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    def leader(request: ScriptedRequest) -> Say:
        heard = f"{request.message} {[outcome.text for outcome in request.outcomes]}"
        return first if request.step == 1 else Say(text=f"heard {heard}")

    agents = [boss(config), agent("worker")]
    async with open_app({"lead": leader, "worker": cut}, agents=agents) as app:
        thread = await app.start("lead", "go")
        async with asyncio.timeout(10):
            await begun.wait()
        if not blocking:
            await finished(app, thread)
    async with open_app({"lead": leader, "worker": lambda _: complete("gold")}, agents=agents) as app:
        await finished(app, thread, 1 if blocking else 2)
        log = await log_of(app, thread)
        view = children_of(await app.engine.state(thread))
    ends = [str(e.completion.result) for e in log if isinstance(e, RunCompleted)]
    assert "gold" in ends[-1]
    assert [c.status for c in view] == ["idle" if resumable else "completed"]


@pytest.mark.spec("SUB-13")
async def test_the_registry_holds_s4s_fields(open_app: OpenApp) -> None:
    """§7.11: the fields of SubagentRegistryEntry, and "When children exist, parent context SHOULD include a registry
    system message"."""
    tails: list[str] = []

    def leader(request: ScriptedRequest) -> Say:
        tails.append(request.tail)
        if request.step == 1:
            return call("subagent_create", agent="worker", name="ann", title="Digger", description="digs", message="x")
        return Say(text="ok")

    config = Subagent(name="worker", resumable=Resumable())
    async with open_app(
        {"lead": leader, "worker": lambda _: complete()}, agents=[boss(config), agent("worker")]
    ) as app:
        thread = (await app.run("lead", "go")).thread
        [view] = children_of(await app.engine.state(ThreadId(thread)))
    entry = msgspec.to_builtins(view)
    assert {k: entry[k] for k in entry if k not in ("reference", "createdAt", "spawnGroupId")} == {
        "agent": "worker", "name": "ann", "title": "Digger", "description": "digs", "resumable": True,
        "blocking": True, "threadName": "Digger", "status": "idle", "parentCommunication": "implicit",
    }  # fmt: skip
    assert entry["spawnGroupId"].startswith(thread)
    assert tails[0] == ""
    assert tails[1] == (
        f"<children>\n- ann (Digger): reference {view.reference}, agent worker, status: idle\n</children>"
    )


@pytest.mark.spec("SUB-09")
async def test_immediate_children_are_recursive_and_once(open_app: OpenApp) -> None:
    """§7.6: "if an immediate subagent boots and its active prompt has immediate tools, those execute as soon as the
    child thread activates"."""
    order: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        order.append(f"{request.agent}:{text_of(request.turns[0].parts)}")
        return complete() if request.agent != "lead" else Say(text="ok")

    middle = agent("middle", subagents=(Subagent(name="inner", immediate=Immediate()),), can_spawn_subagents=True)
    agents = [boss(Subagent(name="middle", immediate=Immediate())), middle, agent("inner")]
    async with open_app({"*": script}, agents=agents) as app:
        thread = (await app.run("lead", "look")).thread
        await app.engine.send(ThreadId(thread), "again")
        await finished(app, thread, 2)
    assert [o.split(":")[0] for o in order] == ["inner", "middle", "lead", "lead"]
    assert order[0] == "inner:look"


@pytest.mark.spec("SUB-09", "SUB-15")
async def test_a_handoff_activates_immediate_children_of_the_new_prompt(open_app: OpenApp) -> None:
    """§7.6: "runtimes execute the subagent tool immediately when its prompt becomes active: thread creation bootstrap,
    handoff to a new active prompt"."""
    order: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        order.append(request.system)
        if request.system == "You are scout.":
            return complete()
        return call("handoff_desk") if request.system == "You are front." else Say(text="desk here")

    desk = agent(
        "desk",
        expose_as_tool=True,
        can_spawn_subagents=True,
        subagents=(Subagent(name="scout", immediate=Immediate()),),
    )
    front = agent("front", allowed_agents=("desk",), can_spawn_subagents=True)
    async with open_app({"*": script}, agents=[front, desk, agent("scout")]) as app:
        completion = await app.run("front", "hello")
        log = await log_of(app, completion.thread)
    assert completion.result == "desk here"
    assert order == ["You are front.", "You are scout.", "You are desk."]
    assert [type(e) for e in log if isinstance(e, SegmentStarted | ChildStarted)] == [SegmentStarted, ChildStarted]


@pytest.mark.spec("SUB-03", "SUB-09")
async def test_immediate_children_that_would_be_a_cycle_are_refused_with_the_path(open_app: OpenApp) -> None:
    """Our own rule: what starts by itself is refused like what was asked for, and the parent goes on."""
    one = boss(Subagent(name="other", immediate=Immediate()))
    other = agent("other", subagents=(Subagent(name="lead", immediate=Immediate()),), can_spawn_subagents=True)
    scripts: Scripts = {"lead": [Say(text="ok")], "other": lambda _: complete()}
    async with open_app(scripts, agents=[one, other]) as app:
        completion = await app.run("lead", "go")
        [child] = await children(app, completion.thread)
        below = silent(await log_of(app, child.reference))
    assert completion.result == "ok"
    assert "lead → other → lead is a cycle" in below[0]


@pytest.mark.spec("SUB-11", "SUB-09")
async def test_an_immediate_child_without_its_variables_holds_its_parent_up(open_app: OpenApp) -> None:
    """§7.8: "`POST` stores the provided values and immediately boots the deferred subagent using the original creation
    payload"; §7.6: before the first model step."""
    order: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        order.append(request.agent)
        return complete() if request.agent == "scout" else Say(text="ok")

    config = Subagent(name="scout", immediate=Immediate(scoped_env=("A", "B")))
    async with open_app({"*": script}, agents=[boss(config), agent("scout")]) as app:
        thread = await app.start("lead", "go")
        asked = await until(app, thread, VariablesRequested)
        assert isinstance(asked, VariablesRequested)
        left = await app.engine.provide(thread, asked.request, {"A": "1"})
        assert left.missing == ("B",)
        assert order == []
        await app.engine.provide(thread, asked.request, {"B": "2"})
        await finished(app, thread)
        [child] = await children(app, thread)
    assert order == ["scout", "lead"]
    assert child.immediate


@pytest.mark.spec("SUB-10")
async def test_a_disabled_branch_can_neither_be_created_nor_called(open_app: OpenApp) -> None:
    """§7.5: "Disabled branches are not available for creation or runtime invocation"."""
    offered: list[str] = []

    def look(request: ScriptedRequest) -> Say:
        offered[:] = request.tools
        return call("agent_worker", message="x") if request.step == 1 else Say(text="ok")

    configs = (
        Subagent(name="worker", optional="ON"),
        Subagent(name="other", optional="ON", resumable=Resumable()),
        Subagent(name="scout", optional="ON", immediate=Immediate()),
    )
    agents = [boss(*configs), agent("worker"), agent("other"), agent("scout")]
    async with open_app({"*": look}, agents=agents) as app:
        thread = (await app.run("lead", "go")).thread
        log = await log_of(app, thread)
    assert not {n for n in offered if n.startswith(("agent_", "subagent_"))}
    assert "There is no tool `agent_worker`" in texts(log)[0]
    assert not any(isinstance(e, ChildStarted) for e in log)


@pytest.mark.spec("SUB-06")
async def test_the_init_properties_name_the_arguments(open_app: OpenApp) -> None:
    """§7.10: "initial invocation mapping (`initUserMessageProperty`, `initAttachmentsProperty`)"."""
    heard: list[str] = []

    def script(request: ScriptedRequest) -> Say:
        if request.agent == "worker":
            heard.append(request.message)
            return complete()
        if request.step == 1:
            return call("agent_worker", task="paint it", called="Ann")
        return Say(text="ok")

    config = Subagent(name="worker", init_user_message_property="task", init_agent_name_property="called")
    async with open_app({"*": script}, agents=[boss(config), agent("worker")]) as app:
        thread = (await app.run("lead", "go")).thread
        [child] = await children(app, thread)
    assert heard == ["paint it"]
    assert child.name == "Ann"


@pytest.mark.spec("SUB-06", "SUB-05")
@pytest.mark.parametrize(("receives", "first"), [("side_a", "a"), ("side_b", "b")])
async def test_messages_go_to_the_side_that_receives_them(open_app: OpenApp, receives: str, first: str) -> None:
    """UPSTREAM: "receives_messages: side_a (queued as user) | side_b (queued as assistant)"."""
    turns: list[tuple[str, str, str]] = []

    def sides(request: ScriptedRequest) -> Say:
        side = "b" if "approve" in request.tools else "a"
        turns.append((side, request.turns[-1].role, request.message))
        return call("approve", summary="ok") if side == "b" else Say(text="draft")

    references: list[str] = []

    def leader(request: ScriptedRequest) -> Say:
        if request.step == 1:
            return call("subagent_create", agent="pair", name="p", message="start")
        if request.step == 2:
            references.append(request.tail.split("reference ")[1].split(",")[0])
            return call("subagent_message", reference=references[0], message="more")
        return Say(text="ok")

    kind = Resumable(receives_messages="side_b" if receives == "side_b" else "side_a")
    scripts: Scripts = {"lead": leader, "pair": sides}
    async with open_app(scripts, agents=[boss(Subagent(name="pair", resumable=kind)), pair()]) as app:
        await app.run("lead", "go")
    told = [t for t in turns if t[2].endswith("more")]
    assert told[0] == (first, "user", told[0][2])
    assert turns[0] == ("a", "user", "start")


@pytest.mark.spec("RUN-12", "RUN-13", "SUB-13")
async def test_a_terminated_child_refuses_and_the_registry_says_so(open_app: OpenApp) -> None:
    """§7.13: "`terminate()` is a soft shutdown that aborts in-flight execution, rejects new execution/queued-message
    entry, and updates parent registry status to `terminated` when applicable"."""

    def leader(request: ScriptedRequest) -> Say:
        if request.step == 1:
            return call("subagent_create", agent="worker", name="w", message="x")
        if request.message == "more":
            reference = request.tail.split("reference ")[1].split(",")[0]
            return call("subagent_message", reference=reference, message="x") if not request.outcomes else Say("told")
        return Say(text="ok")

    config = Subagent(name="worker", resumable=Resumable())
    async with open_app(
        {"lead": leader, "worker": lambda _: complete()}, agents=[boss(config), agent("worker")]
    ) as app:
        thread = ThreadId((await app.run("lead", "go")).thread)
        [child] = await children(app, thread)
        await app.engine.terminate(child.reference)
        await until(app, thread, ChildReported, times=2)
        [view] = children_of(await app.engine.state(thread))
        await app.engine.send(thread, "more")
        await finished(app, thread, 2)
        log = await log_of(app, thread)
    assert view.status == "terminated"
    assert texts(log)[-1] == "That instance is terminated and takes no messages; create another one."
