"""A server that is killed in the middle of its work, seen by clients that check every sequence number."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = Path(__file__).parents[2] / "bench" / "serve.py"


@pytest.mark.spec("API-03", "RUN-01", "RUN-11", "RUN-14")
def test_nothing_acknowledged_is_lost_and_no_event_is_missed_or_doubled_when_the_server_is_killed() -> None:
    command = [sys.executable, str(LOAD), "--threads", "12", "--messages", "3", "--watchers", "2", "--kills", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert (result["errors"], result["first_errors"]) == (0, [])
    assert (result["kills"], result["acknowledged"]) == (2, 36)
    assert result["reconnects"] >= 12
