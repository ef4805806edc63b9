import io

import pytest

from retinue.app.questions import OpenQuestion, Reply
from retinue.cli.ask import how_to_answer, parse_reply, show_question, wanted
from retinue.cli.status import Screen
from retinue.schema.errors import UsageError
from retinue.schema.events.people import QuestionKind
from retinue.schema.ids import QuestionId, ThreadId
from retinue.schema.permission import CommandDecision


def question(kind: QuestionKind, **more: object) -> OpenQuestion:
    fields = {"tool": "bash", "arguments": '{"command":"git push"}', **more}
    return OpenQuestion(
        id=QuestionId("0123456789"),
        thread=ThreadId("t"),
        path=("boss", "worker"),
        kind=kind,
        prompt="May I?",
        asked_at=0,
        **fields,  # pyright: ignore[reportArgumentType]
    )


@pytest.mark.spec("PERM-05")
@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("y", Reply(scope="once")),
        ("yes", Reply(scope="once")),
        ("T", Reply(scope="thread")),
        ("p git push *", Reply(scope="thread", pattern="git push *")),
        ("p", Reply(scope="thread", pattern="git *")),
        ("always", Reply(scope="always")),
        ("n", Reply(scope="deny")),
        ("no not on a friday", Reply(scope="deny", answer="not on a friday")),
    ],
)
def test_a_line_is_an_answer_to_a_permission_question(line: str, reply: Reply) -> None:
    assert parse_reply(question("permission", suggested="git *"), line) == reply


@pytest.mark.parametrize("line", ["", "x", "yup", "p"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match="type one of"):
        parse_reply(question("permission"), line)


def test_a_choice_may_be_a_number() -> None:
    asked = question("choice", choices=("red", "blue"))

    assert parse_reply(asked, "2") == Reply(answer="blue")
    assert parse_reply(asked, "red") == Reply(answer="red")
    assert parse_reply(asked, "3") == Reply(answer="3")


@pytest.mark.spec("ASK-02", "PERM-05")
def test_a_question_shows_who_asks_the_exact_call_and_what_would_change() -> None:
    out = io.StringIO()
    preview = "\n".join(["--- a", "+++ b", *(f"+{n}" for n in range(100))])

    show_question(Screen(err=out), question("permission", preview=preview, why="it pushes"))

    lines = out.getvalue().splitlines()
    assert lines[:3] == ["? boss › worker wants to use bash", "    command: git push", "  it pushes"]
    assert lines[-1] == "  … 42 more lines"


@pytest.mark.spec("PERM-05")
def test_of_a_chain_of_commands_those_that_are_asked_for_are_named() -> None:
    out = io.StringIO()
    commands = (
        CommandDecision(command="git status", verdict="allow", reason="a rule says so"),
        CommandDecision(command="rm -rf build", verdict="ask", reason="hard to undo"),
    )

    show_question(Screen(err=out), question("permission", why="hard to undo", commands=commands), more=1)

    assert out.getvalue().splitlines() == [
        "? boss › worker wants to use bash  (1 more after this)",
        "    command: git push",
        "  asks for: rm -rf build  (hard to undo)",
        "  1 other command is allowed",
    ]


def test_the_exact_arguments_are_told_and_what_the_diff_shows_is_not_told_twice() -> None:
    out = io.StringIO()
    arguments = '{"path":"a.py","old_string":"x = 1","new_string":"x = 2","replace_all":true}'
    preview = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"

    show_question(Screen(err=out), question("permission", tool="edit", arguments=arguments, preview=preview))

    assert out.getvalue().splitlines()[1:3] == ["    path: a.py", "    replace_all: true"]


@pytest.mark.parametrize("kind", ["permission", "approval", "choice", "file", "text", "loop"])
def test_every_kind_says_what_may_be_typed_here_and_elsewhere(kind: QuestionKind) -> None:
    assert wanted(question(kind))
    assert how_to_answer(question(kind)).startswith("retinue answer 01234567 ")
