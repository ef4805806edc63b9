"""One parent and 1 to 100 children at once, each with one tool step, on a mock that takes 50 ms. `fanout.py [ROUNDS]`.

Every system runs the same tree against the same mock: the parent asks for all children in
one answer, each child makes two requests, the parent one more. Nobody can be faster than
four answers of the mock. Rounds are interleaved and the best of each size counts.
"""

import json
import subprocess
import sys
from pathlib import Path

from run import BENCH, PEERS, mock

LATENCY = 0.05
SIZES = (1, 10, 100)
SYSTEMS: dict[str, tuple[str, str, list[str], bool]] = {
    # name: environment, program, more arguments, durable
    "retinue": ("", "fan_ours.py", [], True),
    "LangGraph + SQLite": ("langgraph", "fan_langgraph.py", ["sqlite"], True),
    "LangGraph": ("langgraph", "fan_langgraph.py", [], False),
    "pydantic-ai": ("pydantic-ai", "fan_pydantic_ai.py", [], False),
}
Told = dict[str, dict[str, float]]


def main(rounds: int) -> dict[str, object]:
    systems: dict[str, Told] = {}
    with mock(LATENCY) as port:
        for _ in range(rounds):
            for name, (venv, program, more, _) in SYSTEMS.items():
                python = sys.executable if not venv else str(PEERS / venv / "bin/python")
                if Path(python).exists():
                    _keep_best(systems.setdefault(name, {}), fan(python, program, port, more))
    return {"latency_ms": LATENCY * 1000, "least_ms": LATENCY * 4000, "systems": systems}


def fan(python: str, program: str, port: int, more: list[str]) -> Told:
    """What a program told of each size; nothing when it failed."""
    command = [python, str(BENCH / "loops" / program), str(port), *map(str, SIZES), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{program}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {str(line.pop("children")): line for line in lines}


def _keep_best(held: Told, told: Told) -> None:
    for size, figures in told.items():
        best = held.setdefault(size, figures)
        held[size] = {name: min(value, best[name]) for name, value in figures.items()}


if __name__ == "__main__":
    told = main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    print(json.dumps(told))
    (BENCH / "results/fanout.json").write_text(json.dumps(told, indent=1) + "\n")
