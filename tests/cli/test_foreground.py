"""A run at a real terminal: streaming, questions, Ctrl-C, and a process that dies."""

import pytest

from retinue.app.questions import OpenQuestion
from retinue.cli.foreground import Watch
from retinue.runtime.follow import Happened
from retinue.schema.completion import Completion
from retinue.schema.events.children import ChildStarted
from retinue.schema.events.people import QuestionAsked, QuestionSettled
from retinue.schema.events.runs import RunCompleted, RunResumed, RunWaiting
from retinue.schema.ids import CallId, QuestionId, ThreadId
from support.scripted import Setup, call, complete, kill

ROOT, CHILD = ThreadId("root"), ThreadId("child")


@pytest.mark.spec("RUN-14", "API-02")
def test_text_and_thinking_stream_above_a_line_of_status(scripted: Setup) -> None:
    scripted.agent("talker", always={"thinking": "Let me see.", "text": "One two three.", "pace": 0.1})

    with scripted.terminal("run", "talker", "count") as terminal:
        terminal.expect("Let")
        terminal.expect("0 steps · 0 tokens")
        terminal.expect("three")
        assert terminal.ends() == 0

    assert "\x1b[2m" in terminal.raw  # thinking is dim
    assert "\x1b[J" in terminal.raw  # the status line is taken away again
    assert terminal.text.count("three") == 1
    assert "SUCCESS" in terminal.text


@pytest.mark.spec("RUN-12", "API-02")
def test_ctrl_c_interrupts_durably_and_the_thread_is_resumed_where_it_was(scripted: Setup) -> None:
    scripted.agent("stuck", says=[call("list", path="."), {"text": "Much later.", "latency": 3600}])

    with scripted.terminal("run", "stuck", "go") as terminal:
        terminal.expect("✓  list")
        terminal.type("\x03")
        found = terminal.expect(r"retinue threads resume ([0-9a-f]{8})")
        assert terminal.ends() == 130
    assert scripted.threads()[0]["status"] == "interrupted"

    scripted.agent("stuck", says=[call("list", path="."), "Went on."])
    ran = scripted.retinue("threads", "resume", found[1], code=0)

    assert ran.stdout == "Went on.\n"


@pytest.mark.spec("RUN-12", "ASK-01")
def test_ctrl_c_at_a_question_interrupts_and_the_question_stays_open(scripted: Setup) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="Who?"), "Hello {{last_outcome}}."])

    with scripted.terminal("run", "asker", "greet") as terminal:
        terminal.expect("Who")
        terminal.expect("> ")
        terminal.type("\x03")
        thread = terminal.expect(r"retinue threads resume ([0-9a-f]{8})")[1]
        assert terminal.ends() == 130

    question = scripted.retinue("answer", code=0).stdout.partition("retinue answer ")[2].split()[0]
    assert "the thread is interrupted" in scripted.retinue("answer", question, "Ada", code=0).stdout
    assert scripted.retinue("threads", "resume", thread, code=0).stdout == "Hello Ada.\n"


@pytest.mark.spec("API-02")
def test_ctrl_c_twice_quits(scripted: Setup) -> None:
    scripted.agent("stuck", always={"fault": {"kind": "hang", "times": None}})

    with scripted.terminal("run", "stuck", "go") as terminal:
        terminal.expect("thinks")
        terminal.type("\x03\x03")
        assert terminal.ends() == 130


@pytest.mark.spec("PERM-05", "API-02")
@pytest.mark.parametrize(
    ("typed", "answer", "grants"),
    [
        ("y", "Removed", 0),
        ("t", "Removed", 1),
        ("p rm *", "Removed", 1),
        ("a", "Removed", 1),
        ("n keep it", "keep it", 0),
    ],
)
def test_permission_is_asked_in_place_with_the_exact_call(
    scripted: Setup, typed: str, answer: str, grants: int
) -> None:
    (scripted.project / "old.txt").touch()
    said = "Removed." if answer == "Removed" else "{{last_outcome}}"
    scripted.agent("cleaner", says=[call("bash", command="rm old.txt"), said])

    with scripted.terminal("run", "cleaner", "clean up") as terminal:
        terminal.expect("command: rm old.txt")
        terminal.expect("y allow once")
        terminal.type("what?\n")
        terminal.expect("type one of")
        terminal.type(f"{typed}\n")
        terminal.expect(answer)
        assert terminal.ends() == 0

    listed = scripted.retinue("permissions", "list", "--json", code=0).stdout
    assert listed.count('"tool"') == grants


@pytest.mark.spec("PERM-05")
def test_an_edit_is_shown_as_a_diff_before_it_is_approved(scripted: Setup) -> None:
    (scripted.project / "calc.py").write_text("a - b\n")
    edit = call("edit", path="calc.py", old_string="a - b", new_string="a + b")
    scripted.agent("fixer", says=[call("read", path="calc.py"), edit, "Fixed."])

    with scripted.terminal("run", "fixer", "fix") as terminal:
        terminal.expect(r"-a - b\s+\+a \+ b")
        terminal.type("y\n")
        terminal.expect("Fixed.")
        assert terminal.ends() == 0

    assert (scripted.project / "calc.py").read_text() == "a + b\n"


@pytest.mark.spec("RUN-11", "PERM-05", "ASK-01")
def test_a_question_outlives_its_process_and_is_answered_from_another(scripted: Setup) -> None:
    (scripted.project / "old.txt").touch()
    scripted.agent("cleaner", says=[call("bash", command="rm old.txt"), "Removed."])
    with scripted.terminal("run", "cleaner", "clean up") as terminal:
        terminal.expect("y allow once")
        kill(terminal.process)

    listed = scripted.retinue("answer", code=0).stdout
    assert "command: rm old.txt" in listed
    question = listed.partition("retinue answer ")[2].split()[0]
    scripted.retinue("answer", question, "--once", code=0)

    assert scripted.wait(str(scripted.threads()[0]["id"]))["result"] == "Removed."
    assert not (scripted.project / "old.txt").exists()


@pytest.mark.spec("ASK-03")
def test_a_question_that_is_answered_elsewhere_is_no_longer_asked_here(scripted: Setup) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="Which colour?"), "You said {{last_outcome}}."])

    with scripted.terminal("run", "asker", "ask") as terminal:
        terminal.expect("Which colour")
        question = scripted.retinue("answer", code=0).stdout.partition("retinue answer ")[2].split()[0]
        scripted.retinue("answer", question, "green", code=0)
        terminal.expect("You said green")
        assert terminal.ends() == 0


@pytest.mark.spec("OBS-01", "OBS-04")
def test_children_are_indented_with_their_path(scripted: Setup) -> None:
    scripted.agent("scout", says=[call("list", path="."), complete(result="Nothing.")])
    scripted.agent(
        "boss", "allowed_agents: [scout]", says=[call("call_agent", agent_name="scout", input="look"), "All clear."]
    )

    with scripted.terminal("run", "boss", "look around") as terminal:
        terminal.expect("▸ scout")
        terminal.expect("    scout  ✓  list")
        terminal.expect("    scout  ◂ SUCCESS")
        terminal.expect("All clear")
        assert terminal.ends() == 0


def test_a_tree_waits_for_people_when_nobody_in_it_can_go_on() -> None:
    watch = Watch(ROOT)
    question = QuestionAsked(at=0, id=QuestionId("q"), call=CallId("c"), kind="text", prompt="?")
    settled = QuestionSettled(at=0, id=QuestionId("q"), call=CallId("c"))
    completion = Completion(result="", status="SUCCESS", reason="goal")

    def take(*events: tuple[ThreadId, object]) -> bool:
        for thread, event in events:
            watch.take(Happened(thread=thread, seq=1, event=event))  # pyright: ignore[reportArgumentType]
        return watch.waits_for_people

    assert not take(
        (ROOT, RunWaiting(at=0, waiting_for="child")),
        (ROOT, ChildStarted(at=0, reference=CHILD, call=CallId("c"), agent="a", name="a")),
        (CHILD, question),
    )
    assert take((CHILD, RunWaiting(at=0, waiting_for="question")))
    assert isinstance(watch.questions[QuestionId("q")], OpenQuestion)
    assert not take((CHILD, settled), (CHILD, RunResumed(at=0)))
    assert not take((CHILD, RunCompleted(at=0, completion=completion)))
    assert watch.completion is None
