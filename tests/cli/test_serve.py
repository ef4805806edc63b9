"""`retinue serve` as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest

PROGRAM = (sys.executable, "-c", "from retinue.cli.main import main; main()")
Start = Callable[..., "subprocess.Popen[str]"]
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def start(project: Path) -> Generator[Start]:
    running: list[subprocess.Popen[str]] = []

    def run(*args: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*PROGRAM, "serve", "--port", "0", *args],
            cwd=project,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def get(url: str, token: str = "") -> tuple[int, bytes]:
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    found = re.match(r"serving on (http://127\.0\.0\.1:\d+) ", process.stdout.readline())
    assert found is not None
    return found[1]


@pytest.mark.spec("API-03", "API-02")
def test_the_first_start_prints_a_token_and_the_next_ones_do_not(start: Start) -> None:
    process = start()
    url = address(process)
    assert process.stdout is not None
    token = process.stdout.readline().rpartition(" ")[2].strip()

    assert get(f"{url}/v1/threads")[0] == 401
    assert get(f"{url}/v1/threads", token) == (200, b'{"items":[],"next":null}')
    status, document = get(f"{url}/openapi.json")
    assert (status, "/v1/threads" in msgspec.json.decode(document)["paths"]) == (200, True)
    assert b"<title>Retinue API</title>" in get(f"{url}/docs")[1]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")

    again = start("--verbose")
    url = address(again)
    assert get(f"{url}/v1/threads", token)[0] == 200
    again.send_signal(signal.SIGINT)
    out, err = again.communicate(timeout=30)
    assert (again.returncode, out) == (0, "")
    assert "GET /v1/threads 200" in err and token not in err


@pytest.mark.spec("API-03")
def test_without_a_key_nobody_but_this_machine_is_served(process: Callable[..., Ran]) -> None:
    refused = process("serve", "--host", "0.0.0.0", "--port", "0")

    assert refused.returncode == 1
    assert "there is no API key, so nobody is served on 0.0.0.0" in refused.stderr
    assert "retinue keys create" in refused.stderr


def test_a_port_that_is_taken_and_settings_of_a_file_are_told(
    start: Start, process: Callable[..., Ran], home: Path
) -> None:
    first = start()
    port = address(first).rpartition(":")[2]
    config = home.parent / "mine.toml"
    config.write_text(f"[serve]\nport = {port}\n")

    taken = process("serve", "--config", str(config))

    assert taken.returncode == 1
    assert f"127.0.0.1:{port} can't be listened on" in taken.stderr
