"""`retinue threads`: reading and steering, in this process and others."""

from collections.abc import Callable
from subprocess import CompletedProcess

import msgspec
import pytest

from retinue.app.views import Node
from retinue.cli.threads import tree_lines
from retinue.ports.store import Caps
from retinue.schema.ids import ThreadId
from retinue.schema.thread import ThreadStatus
from support.scripted import Setup, call, complete

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def thread(scripted: Setup, run: Run) -> str:
    """A thread that read a file and answered."""
    (scripted.project / "notes.md").write_text("\n".join(f"line {n}" for n in range(40)))
    scripted.agent("helper", says=[{"thinking": "Hm.", **call("read", path="notes.md")}, "Forty lines.", "Again."])
    assert run("run", "helper", "how long are my notes?").returncode == 0
    return str(scripted.threads()[0]["id"])


@pytest.mark.spec("OBS-04")
def test_threads_are_listed_with_what_they_used(run: Run, thread: str) -> None:
    line = run("threads", "list").stdout.splitlines()[1]

    assert line.startswith(thread[:8])
    assert line.split()[1:4] == ["helper", "completed", "2"]
    assert line.endswith("A title")
    assert run("threads", "list", "--status", "failed", "--json").stdout == "[]\n"
    assert len(msgspec.json.decode(run("threads", "list", "--agent", "helper", "--json").stdout)) == 1


@pytest.mark.spec("OBS-04")
def test_a_thread_is_shown_as_a_conversation_with_every_outcome(run: Run, thread: str) -> None:
    shown = run("threads", "show", thread[:6]).stdout

    for text in ("[2] user", "how long are my notes?", "helper thinking", "helper call read", "outcome read ok"):
        assert text in shown
    assert "more lines (--full)" in shown
    assert "line 39" not in shown
    assert "line 39" in run("threads", "show", thread, "--full").stdout
    raw = run("threads", "show", thread, "--raw").stdout.splitlines()
    assert [msgspec.json.decode(line)["seq"] for line in raw] == list(range(1, len(raw) + 1))
    conversation = msgspec.json.decode(run("threads", "show", thread, "--json").stdout)["conversation"]
    assert [e["kind"] for e in conversation] == ["message", "thinking", "call", "outcome", "text", "end"]


@pytest.mark.spec("OBS-04")
def test_a_thread_is_exported_as_json_and_markdown(run: Run, thread: str) -> None:
    exported = msgspec.json.decode(run("threads", "export", thread).stdout)
    document = run("threads", "export", thread, "--format", "md").stdout

    assert exported["thread"]["id"] == thread
    assert exported["events"][0]["type"] == "thread.started"
    assert document.startswith("# A title\n\n**user**\n\nhow long are my notes?\n")
    assert "`read`: ok" in document


def test_a_thread_that_is_not_there_or_not_the_only_one_is_an_error(run: Run, thread: str, scripted: Setup) -> None:
    assert "there is no thread 'zzz'" in run("threads", "show", "zzz").stderr
    assert run("threads", "show", "zzz").returncode == 1
    assert "there is no thread ''" in run("threads", "show", "").stderr


@pytest.mark.spec("OBS-04", "MOD-06")
def test_the_tree_shows_every_child_and_what_it_waits_for(scripted: Setup, run: Run) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="Which colour?"), complete()])
    scripted.agent("scout", says=[complete(result="Nothing.")])
    both = {
        "calls": [
            {"tool": "call_agent", "arguments": {"agent_name": name, "input": "go"}} for name in ("asker", "scout")
        ]
    }
    scripted.agent("boss", "allowed_agents: [asker, scout]", says=[both, "Done."])
    assert run("run", "boss", "go").returncode == 5
    thread = str(scripted.threads()[0]["id"])

    lines = run("threads", "tree", thread).stdout.splitlines()
    node = msgspec.json.decode(run("threads", "tree", thread, "--json").stdout)

    assert lines[0].startswith("boss  waiting  1 step ")
    assert {line[3:8] for line in lines[1:]} == {"asker", "scout"}
    assert any("waiting" in line and "asks: Which colour?" in line for line in lines)
    assert any(line.startswith("└─ ") and "completed" in line for line in lines)
    assert node["tokens"] > sum(child["tokens"] for child in node["children"]) > 0
    assert len(scripted.threads("--all")) == 3


@pytest.mark.spec("OBS-04")
def test_a_tree_is_drawn_again_until_it_is_over(scripted: Setup) -> None:
    scripted.agent("slow", always={"text": "At last.", "latency": 1.5})
    thread = scripted.retinue("run", "slow", "go", "--detach", code=0).stdout.strip()

    drawn = scripted.retinue("threads", "tree", thread, "--watch", code=0).stdout.splitlines()

    assert "completed" in drawn[-1]
    assert all("completed" not in line for line in drawn[:-1])


@pytest.mark.spec("RUN-12")
def test_a_fork_goes_its_own_way_from_any_step(run: Run, thread: str, scripted: Setup) -> None:
    (scripted.project / "prompt.md").write_text("You are another.")
    end = msgspec.json.decode(run("threads", "show", thread, "--json").stdout)["conversation"][-1]["seq"]

    forked = run("threads", "fork", thread, "--at", str(end), "--message", "and now?", "--prompt-file", "prompt.md")

    id = forked.stdout.strip()
    assert scripted.wait(id)["result"] == "Again."
    assert "From here on helper has the thread." in run("threads", "show", id).stdout
    assert "9999 is not among them" in run("threads", "fork", thread, "--at", "9999").stderr


@pytest.mark.spec("RUN-13")
def test_a_message_starts_the_next_run(run: Run, thread: str, scripted: Setup) -> None:
    assert run("threads", "message", thread, "once more").returncode == 0

    assert scripted.wait(thread)["result"] == "Again."
    ran = run("threads", "wait", thread)
    assert (ran.returncode, ran.stdout) == (0, "Again.\n")


@pytest.mark.spec("RUN-12")
def test_threads_are_interrupted_resumed_cancelled_and_terminated_from_anywhere(scripted: Setup, run: Run) -> None:
    scripted.agent("stuck", always={"text": "Late.", "latency": 3600})
    first, second = (run("run", "stuck", "go", "--detach").stdout.strip() for _ in range(2))

    assert run("threads", "interrupt", first).stdout == f"{first} interrupted\n"
    assert run("threads", "cancel", second, "--reason", "enough").stdout == f"{second} failed\n"
    assert scripted.wait(second)["error"] == "enough"
    assert "nothing to resume" in run("threads", "resume", second).stderr
    assert run("threads", "resume", "--all").stdout == f"{first}\n"
    assert run("threads", "terminate", first).stdout == f"{first} terminated\n"
    assert run("threads", "message", first, "hello?").returncode == 1
    assert run("threads", "resume").returncode == 2


@pytest.mark.spec("OBS-04", "RUN-14")
def test_watching_follows_a_thread_that_another_process_drives(scripted: Setup) -> None:
    scripted.agent("slow", says=[{"latency": 1.0, **call("list", path=".")}, {"text": "At last.", "latency": 1.0}])
    thread = scripted.retinue("run", "slow", "go", "--detach", code=0).stdout.strip()

    ran = scripted.retinue("threads", "watch", thread, code=0)

    assert ran.stdout == "At last.\n"
    assert scripted.retinue("threads", "watch", thread, code=0).stdout == "At last.\n"


def test_ctrl_c_stops_watching_and_leaves_the_thread_alone(scripted: Setup) -> None:
    scripted.agent("slow", always={"text": "At last.", "latency": 4.0})
    thread = scripted.retinue("run", "slow", "go", "--detach", code=0).stdout.strip()

    with scripted.terminal("threads", "watch", thread) as terminal:
        terminal.expect("slow")
        terminal.expect("tokens")
        terminal.type("\x03")
        assert terminal.ends() == 130

    assert scripted.wait(thread)["result"] == "At last."


def test_in_a_narrow_terminal_what_a_thread_does_is_below_it_and_no_line_is_wider() -> None:
    child = _node("scout", "running")
    lines = list(
        tree_lines(_node("boss", "waiting", waits_for="child", children=(child,)), {child.id: "m thinks"}, width=40)
    )

    assert lines[1] == "│  waits for its children"
    assert lines[3] == "      m thinks"
    assert all(len(line) <= 40 for line in lines)


def _node(name: str, status: ThreadStatus, **more: object) -> Node:
    fields: dict[str, object] = {
        **{"id": ThreadId(name), "agent": name, "name": name, "status": status, "commit": None, "said": None},
        **{"waits_for": None, "steps": 1, "tokens": 2000, "cost": 0, "reserved_tokens": 0, "reserved_cost": 0},
        **{"caps": Caps(), "seconds": 1.0, **more},
    }
    return Node(**fields)  # pyright: ignore[reportArgumentType]
