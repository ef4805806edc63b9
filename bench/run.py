"""Runs every measurement and writes RESULTS.md with a table and a plot. `make bench`, or `run.py --quick`.

Numbers are ratios against a yardstick that runs at the same time on the same machine: a
shared machine makes seconds meaningless, and each figure is the best of several
interleaved rounds. Other systems are measured when their environment is there:
`run.py --peers` makes them below `build/bench`, one each, never a dependency of ours.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
PEERS = BENCH.parent / "build" / "bench"
PACKAGES = {
    "langgraph": ["langgraph", "langgraph-checkpoint-sqlite", "langchain-openai", "aiosqlite"],
    "pydantic-ai": ["pydantic-ai-slim[openai]"],
    "openai-agents": ["openai-agents"],
    "agno": ["agno", "openai", "sqlalchemy"],
}
LOOPS: dict[str, tuple[str, str, list[str], bool]] = {
    # name: environment, program, more arguments, durable
    "yardstick": ("", "yardstick.py", [], True),
    "retinue": ("", "ours.py", [], True),
    "retinue (uvloop)": ("", "ours.py", ["uvloop"], True),
    "LangGraph + SQLite": ("langgraph", "langgraph_loop.py", ["sqlite"], True),
    "LangGraph": ("langgraph", "langgraph_loop.py", [], False),
    "pydantic-ai": ("pydantic-ai", "pydantic_ai_loop.py", [], False),
    "openai-agents": ("openai-agents", "openai_agents_loop.py", [], False),
    "Agno": ("agno", "agno_loop.py", [], False),
}
WORK = [(10, 24, 1), (10, 64, 8), (10, 128, 64), (200, 8, 8)]
"""Steps, runs, at once."""

PROGRAMS = [
    ["many.py"],
    ["catalog.py"],
    ["permissions.py"],
    ["tools.py"],
    ["fanout.py"],
    ["serve.py", "--rounds", "3", "--idle", "3000", "--write"],
    ["serve.py", "--kills", "3", "--write"],
    ["taint.py"],
]


def main() -> None:
    if "--peers" in sys.argv:
        install_peers()
    quick = "--quick" in sys.argv
    results = {
        "loops": loops(rounds=1 if quick else 3),
        "stream": streamed(rounds=1 if quick else 3),
        "start": starts(),
    }
    (BENCH / "results").mkdir(exist_ok=True)
    (BENCH / "results/loops.json").write_text(json.dumps(results, indent=1) + "\n")
    for program, *arguments in () if quick else PROGRAMS:
        subprocess.run([sys.executable, str(BENCH / program), *arguments], check=False)
    write_report()


def install_peers() -> None:
    for name, packages in PACKAGES.items():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS / name)], check=True)
        subprocess.run([str(PEERS / name / "bin/pip"), "install", "-q", *packages], check=True)


def loops(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Best CPU a step of each loop for each kind of work; rounds are interleaved."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    with mock() as port:
        for steps, runs, at_once in WORK:
            kind = f"{steps} steps, {at_once} at once"
            for _ in range(rounds):
                for name, (venv, program, more, _) in LOOPS.items():
                    python = sys.executable if not venv else str(PEERS / venv / "bin/python")
                    if not Path(python).exists() or (venv and steps > 10):
                        continue  # what others take for a long thread grows with its square: minutes a round
                    fewer = runs if not venv else max(runs // 4, at_once if at_once <= 8 else 16)
                    told = run([python, str(BENCH / "loops" / program), port, steps, fewer, at_once, *more])
                    held = found.setdefault(kind, {}).get(name)
                    if told and (held is None or told["cpu_ms"] < held["cpu_ms"]):
                        found[kind][name] = told
            print(kind, {n: r["cpu_ms"] for n, r in found[kind].items()}, flush=True)
    return found


def streamed(rounds: int) -> dict[str, float]:
    with mock() as port:
        told = [run([sys.executable, str(BENCH / "loops/stream.py"), port, 500, 6]) for _ in range(rounds)]
    return min((t for t in told if t), key=lambda t: t["cpu_ms"])


def starts() -> dict[str, float]:
    """CPU of starting, as a multiple of `python -c "import json"`."""
    commands = {
        "bare": [sys.executable, "-c", "import json"],
        "retinue --help": [str(Path(sys.executable).parent / "retinue"), "--help"],
        "retinue agents list": [str(Path(sys.executable).parent / "retinue"), "agents", "list"],
    }
    best = {name: min(_cpu(command) for _ in range(7)) for name, command in commands.items()}
    return {name: round(seconds / best["bare"], 2) for name, seconds in best.items()}


def _cpu(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def run(command: list[object]) -> dict[str, float] | None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{command[1]}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


class mock:
    """The mock server in a process of its own, for as long as the block lasts."""

    def __init__(self, latency: float = 0.0) -> None:
        self._latency = latency

    def __enter__(self) -> int:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._process = subprocess.Popen([sys.executable, str(BENCH / "mock.py"), str(port), str(self._latency)])
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            time.sleep(0.1)
        raise RuntimeError("the mock server did not start")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def write_report() -> None:
    from report import report

    (BENCH / "RESULTS.md").write_text(report(BENCH))


if __name__ == "__main__":
    main()
