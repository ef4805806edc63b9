"""`retinue run` in real processes, on the scripted model."""

import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from retinue.cli.run import parse_budget, parse_inputs
from retinue.schema.agent import Budget
from retinue.schema.completion import Completion
from retinue.schema.errors import UsageError
from support.scripted import PROGRAM, Setup, call, complete


@pytest.mark.spec("API-02", "RUN-14")
def test_in_a_pipe_stdout_holds_the_answer_alone_and_stderr_the_activity(scripted: Setup) -> None:
    (scripted.project / "notes.md").write_text("Buy milk.\n")
    scripted.agent("helper", says=[{"text": "I look.", **call("read", path="notes.md")}, "It says: buy milk."])

    ran = scripted.retinue("run", "helper", "what do my notes say?", code=0)

    assert ran.stdout == "It says: buy milk.\n"
    assert "✓  read notes.md" in ran.stderr
    assert "SUCCESS" in ran.stderr
    assert "I look." not in ran.stderr


@pytest.mark.spec("API-02", "RUN-06")
@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("PARTIAL", 3), ("FAILED", 4)])
def test_the_exit_code_tells_how_the_run_ended(scripted: Setup, status: str, code: int) -> None:
    scripted.agent("worker", "completion: explicit", says=[complete(status, "That is it.")])

    ran = scripted.retinue("run", "worker", "go", "--json", code=code)

    completion = msgspec.json.decode(ran.stdout, type=Completion)
    assert (completion.status, completion.result, completion.agent) == (status, "That is it.", "worker")
    assert completion.thread == scripted.threads()[0]["id"]


@pytest.mark.spec("API-02")
def test_wrong_usage_is_exit_2_and_any_other_failure_exit_1(scripted: Setup) -> None:
    scripted.agent("worker", says=["Yes."])

    assert "say what the agent should do" in scripted.retinue("run", "worker", code=2).stderr
    assert "not NAME=VALUE" in scripted.retinue("run", "worker", "go", "--input", "x", code=2).stderr
    assert "did you mean worker?" in scripted.retinue("run", "wroker", code=1).stderr


@pytest.mark.spec("API-02")
def test_a_provider_that_is_configured_wrongly_ends_the_run_and_says_why(scripted: Setup) -> None:
    scripted.agent("worker", says=["Yes."])
    (scripted.home / "script.json").write_text('{"rules": [{"answer": "no when"}]}')

    ran = scripted.retinue("run", "worker", "go", code=4)

    assert "not a script" in ran.stderr


@pytest.mark.spec("API-02", "DEF-11")
def test_text_that_is_no_utf_8_and_files_that_are_closed_end_no_run(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")
    program = shlex.join([*PROGRAM, "run", "echo"])

    def shell(line: str) -> bytes:
        return subprocess.run(["bash", "-c", line], cwd=scripted.project, capture_output=True, check=True).stdout

    assert shell(f"printf 'a\\xffb' | {program} -") == "<a\N{REPLACEMENT CHARACTER}b>\n".encode()
    assert shell(f"{program} \"$(printf 'a\\xffb')\"") == "<a\N{REPLACEMENT CHARACTER}b>\n".encode()
    assert shell(f"{program} hello <&-") == b"<hello>\n"
    assert shell(f"{program} hello 2>&-") == b"<hello>\n"
    assert shell(f"{program} hello >&-") == b""


@pytest.mark.spec("API-02", "DEF-11")
def test_a_dash_reads_the_message_and_what_is_piped_in_beside_one_follows_it(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")

    assert scripted.retinue("run", "echo", "-", stdin="diff --git", code=0).stdout == "<diff --git>\n"
    assert scripted.retinue("run", "echo", "review this", stdin="diff", code=0).stdout == "<review this\n\ndiff>\n"


@pytest.mark.spec("REG-13")
def test_a_message_alone_goes_to_the_default_agent(scripted: Setup) -> None:
    scripted.agent("coder", always="<{{message}}>")

    assert scripted.retinue("run", "fix the tests", code=0).stdout == "<fix the tests>\n"
    assert scripted.retinue("run", "--agent", "coder", "fix", "it", code=0).stdout == "<fix it>\n"


@pytest.mark.spec("DEF-11")
def test_inputs_are_checked_before_anything_runs(scripted: Setup) -> None:
    scripted.agent("greeter", "inputs: {times: integer}", "query: Greet ${times} times", always="<{{message}}>")

    assert scripted.retinue("run", "greeter", "--input", "times=3", code=0).stdout == "<Greet 3 times>\n"
    refused = scripted.retinue("run", "greeter", "--input", "times=often", code=2)
    assert "'times' is 'often'; wanted a integer" in refused.stderr
    assert len(scripted.threads()) == 1


@pytest.mark.spec("PERM-05", "ASK-03", "RUN-11")
def test_a_run_that_nobody_here_can_answer_waits_and_goes_on_when_it_is_answered_elsewhere(scripted: Setup) -> None:
    (scripted.project / "old.txt").touch()
    scripted.agent("cleaner", says=[call("bash", command="rm old.txt"), "Removed."])

    ran = scripted.retinue("run", "cleaner", "clean up", code=5)

    assert ran.stdout == ""
    assert "? cleaner wants to use bash\n    command: rm old.txt\n" in ran.stderr
    (question,) = msgspec.json.decode(scripted.retinue("answer", "--json", code=0).stdout, type=list[dict[str, object]])
    assert f"retinue answer {str(question['id'])[:8]} --once" in ran.stderr
    assert (scripted.project / "old.txt").exists()

    scripted.retinue("answer", str(question["id"])[:8], "--once", code=0)

    assert scripted.wait(str(question["thread"]))["result"] == "Removed."
    assert not (scripted.project / "old.txt").exists()


@pytest.mark.spec("PERM-05")
def test_without_input_what_would_be_asked_is_denied(scripted: Setup) -> None:
    scripted.agent("cleaner", says=[call("bash", command="rm old.txt"), "I may not: {{last_outcome}}"])

    ran = scripted.retinue("run", "cleaner", "clean up", "--no-input", code=0)

    assert "nobody can be asked" in ran.stdout


def test_a_detached_run_goes_on_in_the_background(scripted: Setup) -> None:
    scripted.agent("slow", always={"text": "At last.", "latency": 0.5})

    thread = scripted.retinue("run", "slow", "take your time", "--detach", code=0).stdout.strip()

    assert scripted.wait(thread)["result"] == "At last."


@pytest.mark.spec("RUN-08")
def test_a_budget_ends_the_run(scripted: Setup) -> None:
    scripted.agent("spender", says=["Too much."])

    ran = scripted.retinue("run", "spender", "go", "--budget", "10 tokens", "--json", code=4)

    assert msgspec.json.decode(ran.stdout, type=Completion).reason == "budget"


@pytest.mark.spec("RUN-07")
def test_a_plan_is_carried_out_by_another_run(scripted: Setup) -> None:
    plan = {"goal": "Clean code", "steps": [{"id": "1", "what": "rename x"}]}
    scripted.agent("thinker", "execution_mode: planning", says=[complete(result=plan)])
    scripted.agent("doer", always="<{{message}}>")
    scripted.retinue("run", "thinker", "plan it", code=0)
    thread = str(scripted.threads()[0]["id"])

    ran = scripted.retinue("run", "doer", "--plan", thread[:8], code=0)

    assert "Carry out this plan" in ran.stdout
    assert '"what": "rename x"' in ran.stdout
    without = str(scripted.threads()[0]["id"])
    assert "has no plan" in scripted.retinue("run", "doer", "--plan", without, code=1).stderr


def test_the_workspace_is_the_folder_that_is_named(scripted: Setup, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "here.txt").write_text("found")
    scripted.agent("reader", says=[call("read", path="here.txt"), "{{last_outcome}}"])

    assert "found" in scripted.retinue("run", "reader", "go", "--workspace", str(tmp_path / "elsewhere"), code=0).stdout


@pytest.mark.spec("OBS-01", "ASK-02")
def test_children_are_shown_with_their_path_and_their_questions_name_it(scripted: Setup) -> None:
    scripted.agent("asker", says=[call("request_user_input", prompt="Which colour?"), complete()])
    scripted.agent("boss", "allowed_agents: [asker]", says=[call("call_agent", agent_name="asker", input="ask")])

    ran = scripted.retinue("run", "boss", "find out", code=5)

    assert "▸ asker" in ran.stderr
    assert "? boss › asker: Which colour?" in ran.stderr


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("$2", Budget(cost=2_000_000_000)),
        ("0.50", Budget(cost=500_000_000)),
        ("50k tokens", Budget(tokens=50_000)),
        ("$1, 2M tokens", Budget(cost=1_000_000_000, tokens=2_000_000)),
    ],
)
def test_a_budget_is_money_or_tokens_or_both(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


def test_what_is_no_budget_or_input_is_refused() -> None:
    for text in ("much", "-1", "5k", "$2 tokens"):
        with pytest.raises(UsageError):
            parse_budget(text)
    assert parse_inputs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
