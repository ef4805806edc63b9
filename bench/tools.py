"""glob, grep and read over a generated tree of 50,000 files, against rg and find run at the same time.

    python bench/tools.py [files]     measure, print a table, write results/tools.json

Each round runs ours and the yardstick one after the other, so that both meet the same load; the figures
are medians of the time that passed. The tools judge what they show by the real policy, with a deny rule.
"""

import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from retinue.policy.calls import Authority, judge_target
from retinue.policy.files import Place
from retinue.policy.rules import Tier
from retinue.ports.tool import Result, ToolContext
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId, CallId, ThreadId
from retinue.schema.permission import Rule
from retinue.tools.glob import Glob
from retinue.tools.grep import Grep
from retinue.tools.list import List
from retinue.tools.read import Read

RESULTS = Path(__file__).parent / "results" / "tools.json"
ROUNDS = 7
Ours = Callable[[], Awaitable[Result]]


def main(files: int) -> None:
    with tempfile.TemporaryDirectory(prefix="retinue-bench-") as name:
        root = Path(name).resolve()
        generate(root / "work", files)
        rows = asyncio.run(measured(root))
    print(f"{files:,} files, median of {ROUNDS} rounds, milliseconds")
    print(f"{'what':<34}{'ours':>9}{'yardstick':>11}{'ratio':>8}")
    for what, ours, theirs in rows:
        print(f"{what:<34}{ours:>9.1f}{theirs:>11.1f}{ours / theirs:>8.2f}")
    RESULTS.parent.mkdir(exist_ok=True)
    told = [{"what": what, "ours_ms": round(a, 2), "yardstick_ms": round(b, 2)} for what, a, b in rows]
    RESULTS.write_text(json.dumps({"files": files, "rounds": ROUNDS, "rows": told}, indent=1) + "\n")


def generate(root: Path, files: int) -> None:
    """Folders of 100 files, one in a hundred files with a needle, one in ten a Python file."""
    for number in range(files):
        folder = root / f"package{number // 2500}" / f"module{number // 100}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        lines = [f"line {line} of file {number}" for line in range(20)]
        if number % 100 == 55:
            lines[7] = "here is the needle"
        (folder / f"file{number}.{'py' if number % 10 == 0 else 'txt'}").write_text("\n".join(lines))
    (root / "large.txt").write_text("\n".join(f"line {n} of the large file" for n in range(200_000)))
    (root / ".gitignore").write_text("*.log\nbuild/\n")


async def measured(root: Path) -> list[tuple[str, float, float]]:
    work, context = root / "work", _context(root)
    rg = shutil.which("rg") or sys.exit("rg must be installed for the yardstick")
    pairs: list[tuple[str, Ours, list[str]]] = [
        ("glob **/*.py, against rg --files", _run(Glob(), context, pattern="**/*.py"), [rg, "--files", "-g", "*.py"]),
        (
            "glob **/*.py, against find",
            _run(Glob(), context, pattern="**/*.py"),
            ["find", ".", "-name", "*.py", "-printf", "%T@ %p\n"],
        ),
        ("glob without rg, against find", _run(Glob(use_program=False), context, pattern="**/*.py"), ["find", "."]),
        ("grep needle, against rg", _run(Grep(), context, pattern="needle"), [rg, "-n", "needle", "."]),
        (
            "grep needle *.txt, against rg",
            _run(Grep(), context, pattern="needle", include="*.txt"),
            [rg, "-n", "needle", "-g", "*.txt", "."],
        ),
        (
            "grep without rg, against grep -r",
            _run(Grep(use_program=False), context, pattern="needle"),
            ["grep", "-rn", "needle", "."],
        ),
        ("list, against find -maxdepth 2", _run(List(), context), ["find", ".", "-maxdepth", "2"]),
        (
            "read 2,000 lines at 150,000",
            _run(Read(), context, path="large.txt", offset=150_000),
            ["sed", "-n", "150000,152000p", "large.txt"],
        ),
    ]
    rows: list[tuple[str, float, float]] = []
    for what, ours, theirs in pairs:
        times = [(await _timed(ours), _program(theirs, work)) for _ in range(ROUNDS + 1)][1:]
        rows.append((what, statistics.median(a for a, _ in times), statistics.median(b for _, b in times)))
    return rows


def _run(tool: Glob | Grep | List | Read, context: ToolContext, **arguments: object) -> Ours:
    return lambda: tool.run(arguments, context)


async def _timed(work: Ours) -> float:
    started = time.perf_counter()
    result = await work()
    elapsed = time.perf_counter() - started
    assert result.status == "ok", result
    return elapsed * 1000


def _program(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - started) * 1000


def _context(root: Path) -> ToolContext:
    rules = (Rule(tool="read", pattern="*.env", verdict="deny"),)
    authority = Authority(tiers=(Tier("user", rules),), fallback="allow", place=Place(workspace=str(root / "work")))
    (root / "files").mkdir()
    return ToolContext(
        thread=ThreadId("11111111-1111-4111-8111-111111111111"),
        call=CallId("22222222-2222-4222-8222-222222222222"),
        agent=AgentDefinition(id=AgentId("bench"), name="bench"),
        workspace=str(root / "work"),
        files=str(root / "files"),
        judge=partial(judge_target, authority),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
