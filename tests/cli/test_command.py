"""Every command speaks JSON: its value or its error, and nothing else on stdout."""

from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import click
import msgspec
import pytest

from retinue.cli.main import app
from support.scripted import Setup

Run = Callable[..., CompletedProcess[str]]


def commands(group: click.Group = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.spec("API-02")
@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_has_json_and_tells_wrong_usage_as_json(path: tuple[str, ...], run: Run) -> None:
    ran = run(*path, "--json", "--no-such-option")

    error = msgspec.json.decode(ran.stdout, type=dict[str, object])
    assert (ran.returncode, ran.stderr, error["error"]) == (2, "", "usage")
    assert str(error["message"]).startswith("No such option '--no-such-option'")
    assert error["hint"] == f"retinue {' '.join(path)} --help"


@pytest.mark.spec("API-02")
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        ("agents show nobody", 1, "agent_not_found"),
        ("agents validate nothing.md", 2, "usage"),
        ("agents delete nobody", 1, "agent_not_found"),
        ("threads show ffff", 1, "thread_not_found"),
        ("threads watch ffff", 1, "thread_not_found"),
        ("threads message ffff hello", 1, "thread_not_found"),
        ("threads resume", 2, "usage"),
        ("run nobody hello", 1, "agent_not_found"),
        ("run coder hello --budget much", 2, "usage"),
        ("memory get a b", 1, "not_found"),
        ("memory set a b c --expires soon", 2, "usage"),
        ("keys create --name n --scopes fly", 2, "usage"),
        ("keys revoke none", 1, "not_found"),
        ("repos add nowhere", 2, "usage"),
        ("repos sync nowhere", 1, "not_found"),
        ("answer ffff yes", 1, "not_found"),
        ("nonsense", 2, "usage"),
    ],
)
def test_an_error_is_one_value_with_what_was_wrong_and_what_to_do(words: str, code: int, error: str, run: Run) -> None:
    ran = run(*words.split(), "--json")
    told = run(*words.split())

    value = msgspec.json.decode(ran.stdout, type=dict[str, object])
    assert (ran.returncode, value["error"], ran.stderr) == (code, error, "")
    assert (told.returncode, told.stdout) == (code, "")
    assert "Traceback" not in told.stderr
    assert str(value["message"]) in told.stderr


@pytest.mark.spec("API-02")
@pytest.mark.parametrize(
    "words",
    ["memory set a b c", "agents new helper", "agents schema", "repos list", "keys list", "threads list", "answer"],
)
def test_a_value_is_all_that_is_on_stdout(words: str, run: Run) -> None:
    ran = run(*words.split(), "--json")

    assert (ran.returncode, ran.stderr) == (0, "")
    assert msgspec.json.decode(ran.stdout) is not None


@pytest.mark.spec("API-02", "OBS-04")
def test_a_thread_is_followed_as_lines_of_json(scripted: Setup) -> None:
    scripted.agent("slow", always={"text": "At last.", "latency": 0.5})
    thread = scripted.retinue("run", "slow", "go", "--detach", code=0).stdout.strip()

    ran = scripted.retinue("threads", "watch", thread, "--json", code=0)

    events = [msgspec.json.decode(line, type=dict[str, object]) for line in ran.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["thread"] for event in events} == {thread}
    assert "run.completed" in {event["type"] for event in events}


@pytest.mark.spec("API-02")
def test_a_conversation_is_lines_of_json(scripted: Setup) -> None:
    scripted.agent("echo", always="<{{message}}>")

    ran = scripted.retinue("chat", "echo", "--json", stdin="one\ntwo\n", code=0)

    results = [msgspec.json.decode(line, type=dict[str, object])["result"] for line in ran.stdout.splitlines()]
    assert results == ["<one>", "<two>"]
