"""Logs written by every version so far still fold to a state."""

from pathlib import Path

import pytest

from retinue.models.scripted import ScriptedModel
from retinue.ports.model import Head
from retinue.runtime.context import build
from retinue.runtime.moves import Rest, next_move
from retinue.runtime.project import project
from retinue.schema.events.runs import RunCompleted
from retinue.schema.events.union import decode

LOGS = sorted((Path(__file__).parent / "logs").glob("*.jsonl"))


@pytest.mark.spec("RUN-01")
@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.stem)
def test_a_log_of_an_older_version_replays(path: Path) -> None:
    log = [decode(line) for line in path.read_bytes().splitlines()]
    state = project(enumerate(log, 1))

    last = next(e for e in reversed(log) if isinstance(e, RunCompleted))
    assert state.run is not None
    assert state.run.completion == last.completion
    assert state.steps == sum(type(e).__name__ == "ModelAnswered" for e in log)
    assert next_move(state, now=10**10, spent=0.0, grace=60.0) == Rest()
    assert build(ScriptedModel([]), "a", log).request(Head(system="")).turns
