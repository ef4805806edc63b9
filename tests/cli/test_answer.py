"""`retinue answer`: all questions in one place; an answer lets only what it names go on."""

import time
from collections.abc import Callable
from subprocess import CompletedProcess

import msgspec
import pytest

from support.scripted import Setup, call, complete

Run = Callable[..., CompletedProcess[str]]


def _questions(run: Run) -> list[dict[str, object]]:
    return msgspec.json.decode(run("answer", "--json").stdout, type=list[dict[str, object]])


@pytest.mark.spec("ASK-02", "ASK-03")
def test_an_answer_reaches_exactly_the_child_that_asked(scripted: Setup, run: Run) -> None:
    for name in ("red", "blue"):
        scripted.agent(
            name, says=[call("request_user_input", prompt=f"How {name}?"), complete(result="{{last_outcome}}")]
        )
    calls = [{"tool": "call_agent", "arguments": {"agent_name": name, "input": "go"}} for name in ("red", "blue")]
    scripted.agent("boss", "allowed_agents: [red, blue]", says=[{"calls": calls}, "Both: {{last_outcome}}"])
    assert run("run", "boss", "go").returncode == 5

    red = next(q for q in _questions(run) if q["prompt"] == "How red?")
    assert red["path"] == ["boss", "red"]
    assert "? boss › red: How red?" in run("answer").stdout
    assert run("answer", str(red["id"])[:8], "very").stdout.endswith("goes on\n")
    assert scripted.wait(str(red["thread"]))["result"] == "very"

    (left,) = _questions(run)
    assert left["prompt"] == "How blue?"
    run("answer", str(left["id"]), "a bit")
    root = next(t for t in scripted.threads() if t["agent"] == "boss")
    assert scripted.wait(str(root["id"]))["status"] == "SUCCESS"


@pytest.mark.spec("ASK-01")
def test_choices_are_checked_and_files_are_copied_into_the_thread(scripted: Setup, run: Run) -> None:
    choice = call("request_user_input", prompt="Which?", inputType="choice", choices=["one", "two"])
    scripted.agent(
        "asker", says=[choice, call("request_user_input", prompt="Send it.", inputType="file"), "{{last_outcome}}"]
    )
    run("run", "asker", "go")
    (question,) = _questions(run)

    assert "is not one of the choices: one, two" in run("answer", str(question["id"]), "three").stderr
    assert run("answer", str(question["id"]), "2").returncode == 0
    (scripted.project / "report.txt").write_text("all good")
    ask = _next(run, question)
    assert "this question wants a file" in run("answer", ask, "nothing.txt").stderr
    assert "give one answer" in run("answer", ask, "--once", "--file", "report.txt").stderr
    assert "answer permissions" in run("answer", ask, "--once").stderr
    assert run("answer", ask, "--file", "report.txt").returncode == 0
    path = str(scripted.wait(str(question["thread"]))["result"])

    assert path.startswith(str(scripted.home))
    assert path.endswith("-report.txt")
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        assert file.read() == "all good"


def _next(run: Run, before: dict[str, object]) -> str:
    """The question that comes after another one, asked by a process in the background."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if found := [str(q["id"]) for q in _questions(run) if q["id"] != before["id"]]:
            return found[0]
    raise AssertionError("no question came")


@pytest.mark.spec("PERM-05")
def test_grants_are_listed_hold_and_can_be_taken_back(scripted: Setup, run: Run) -> None:
    remove = call("bash", command="rm -f old.txt")
    scripted.agent("cleaner", says=[remove, remove, "Done.", remove, "Done again."])
    assert run("run", "cleaner", "clean").returncode == 5
    (question,) = _questions(run)
    thread = str(question["thread"])

    assert "does not match" in run("answer", str(question["id"]), "--pattern", "ls *").stderr
    assert run("answer", str(question["id"]), "--pattern", "rm -f *").returncode == 0
    assert scripted.wait(thread)["result"] == "Done."

    (grant,) = msgspec.json.decode(run("permissions", "list", "--json").stdout, type=list[dict[str, object]])
    assert (grant["thread"], grant["tool"], grant["pattern"]) == (thread, "bash", "rm -f *")
    assert run("permissions", "revoke", str(grant["number"])).returncode == 0
    assert run("permissions", "revoke", str(grant["number"])).returncode == 1
    run("threads", "message", thread, "again")
    assert _next(run, question)


@pytest.mark.spec("PERM-05")
def test_always_covers_other_threads_and_a_refusal_tells_why(scripted: Setup, run: Run) -> None:
    scripted.agent("cleaner", says=[call("bash", command="rm -f old.txt"), "{{last_outcome}}"])
    run("run", "cleaner", "clean")
    (question,) = _questions(run)
    run("answer", str(question["id"]), "--deny", "not that one")
    assert "They said: not that one" in str(scripted.wait(str(question["thread"]))["result"])

    run("run", "cleaner", "clean")
    (question,) = _questions(run)
    assert run("answer", str(question["id"]), "--always").returncode == 0
    scripted.wait(str(question["thread"]))

    assert run("run", "cleaner", "clean").returncode == 0
    suggested = run("permissions", "suggest", "--json").stdout
    assert msgspec.json.decode(suggested)["cleaner"][0]["pattern"] == "rm *"


def test_a_question_that_is_not_there_or_gets_two_answers_is_an_error(scripted: Setup, run: Run) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="What?"), "Ok."])
    run("run", "asker", "go")
    (question,) = _questions(run)

    assert run("answer", "ffffffff-none", "x").returncode == 1
    assert run("answer", str(question["id"]), "x", "--once").returncode == 2
    assert "retinue answer" in run("answer", str(question["id"])).stderr
