"""Answers and the grants they leave, through an app on the scripted model."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from retinue.app.questions import OpenQuestion, Reply, answer, open_questions
from retinue.app.retinue import Retinue
from retinue.models.script import CallTool, Say
from retinue.ports.memory import Grant
from retinue.runtime.follow import Happened
from retinue.schema.errors import NotFound, UsageError
from retinue.schema.events.people import QuestionAsked
from retinue.schema.ids import DEFAULT_TENANT, QuestionId, ThreadId
from retinue.schema.permission import Permissions
from retinue.testing.harness import scripted_app
from support.agents import agent


def call(tool: str, **arguments: object) -> Say:
    return Say(calls=(CallTool(tool, arguments),))


async def next_question(app: Retinue, thread: ThreadId, before: OpenQuestion | None = None) -> OpenQuestion:
    async with asyncio.timeout(10), aclosing(app.engine.follow(thread, deltas=False)) as items:
        async for item in items:
            is_asked = isinstance(item, Happened) and isinstance(item.event, QuestionAsked)
            if is_asked and (found := [q for q in await open_questions(app) if q != before]):
                return found[0]
    raise AssertionError("following never ends by itself")


async def grants(app: Retinue) -> list[Grant]:
    return list(await app.engine.runtime.grants.all(DEFAULT_TENANT))


@pytest.mark.spec("PERM-05")
async def test_a_grant_for_the_thread_covers_the_same_file_and_binds_to_the_definition(tmp_path: Path) -> None:
    write = call("write", path="notes/a.txt", content="hi")
    definition = agent("worker", "write", permissions=Permissions(default="ask"), hash="h1")
    async with scripted_app(tmp_path, [write, call("write", path="notes/a.txt", content="ho"), "Done."],
                            agents=[definition]) as app:  # fmt: skip
        thread = await app.start("worker", "go")
        question = await next_question(app, thread)
        assert (question.kind, question.tool, question.path) == ("permission", "write", ("worker",))
        assert "+hi" in (question.preview or "")

        await answer(app, question.id, Reply(scope="thread"))
        completion = await app.engine.wait(thread)

        assert [c.status for c in completion.calls] == ["ok", "ok"]
        (grant,) = await grants(app)
        assert (grant.thread, grant.tool, grant.exact, grant.definition_hash) == (thread, "write", None, "h1")
        assert grant.pattern == str((tmp_path / "workspace" / "notes" / "a.txt").resolve())


@pytest.mark.spec("PERM-05")
async def test_a_pattern_of_files_is_relative_to_the_workspace(tmp_path: Path) -> None:
    definition = agent("worker", "write", permissions=Permissions(default="ask"))
    script = [call("write", path=f"notes/{n}.txt", content="hi") for n in "ab"]
    async with scripted_app(tmp_path, [*script, "Done."], agents=[definition]) as app:
        thread = await app.start("worker", "go")
        question = await next_question(app, thread)
        with pytest.raises(UsageError, match="does not match"):
            await answer(app, question.id, Reply(scope="thread", pattern="other/*"))
        assert await grants(app) == []

        await answer(app, question.id, Reply(scope="always", pattern="notes/*"))

        assert (await app.engine.wait(thread)).status == "SUCCESS"
        assert [g.thread for g in await grants(app)] == [None]


@pytest.mark.spec("PERM-05")
async def test_a_command_with_wildcards_is_granted_as_that_exact_call_only(tmp_path: Path) -> None:
    definition = agent("worker", "bash", permissions=Permissions(default="ask"))
    script = [call("bash", command="touch *.txt"), call("bash", command="touch a.txt"), "Done."]
    async with scripted_app(tmp_path, script, agents=[definition]) as app:
        thread = await app.start("worker", "go")
        first = await next_question(app, thread)
        await answer(app, first.id, Reply(scope="thread"))

        second = await next_question(app, thread, first)

        assert msgspec.json.decode(second.arguments or "")["command"] == "touch a.txt"
        (grant,) = await grants(app)
        assert grant.exact is not None


@pytest.mark.spec("PERM-05", "ASK-03")
@pytest.mark.parametrize("name", ["one", "o*e"])
async def test_an_approval_covers_the_file_that_was_shown_and_not_where_a_link_leads_later(
    tmp_path: Path, name: str
) -> None:
    """Of a name with wildcards the exact call is approved, else the file."""
    definition = agent("worker", "write", permissions=Permissions(default="ask"))
    script = [call("write", path="link/new.txt", content="hi"), "Done."]
    link, one, two = (tmp_path / "workspace" / folder for folder in ("link", name, "two"))
    async with scripted_app(tmp_path, script, agents=[definition]) as app:
        one.mkdir()
        two.mkdir()
        link.symlink_to(one)
        thread = await app.start("worker", "go")
        shown = await next_question(app, thread)
        link.unlink()
        link.symlink_to(two)
        await answer(app, shown.id, Reply(scope="thread"))

        await next_question(app, thread, shown)

        assert not (two / "new.txt").exists()
        assert [(g.pattern, bool(g.exact)) for g in await grants(app)] == [(str(one / "new.txt"), "*" in name)]


async def test_a_reply_must_fit_the_question_and_an_answered_one_is_closed(tmp_path: Path) -> None:
    ask = call("request_user_input", prompt="Who?")
    async with scripted_app(tmp_path, [ask, "Hello {{last_outcome}}."], agents=[agent("worker")]) as app:
        thread = await app.start("worker", "go")
        question = await next_question(app, thread)

        with pytest.raises(UsageError, match="wants text"):
            await answer(app, question.id, Reply(scope="once"))
        with pytest.raises(UsageError, match="not a file"):
            await answer(app, question.id, Reply(file=tmp_path / "x"))
        with pytest.raises(NotFound):
            await answer(app, QuestionId("nope"), Reply(answer="x"))
        await answer(app, question.id, Reply(answer="Ada"))

        assert (await app.engine.wait(thread)).result == "Hello Ada."
        with pytest.raises(NotFound):
            await answer(app, question.id, Reply(answer="Bob"))
