"""The catalog's figures on a generated git repository of 10,000 agents.

    python bench/catalog.py [agents]              measure, print a table, write results/catalog.json
    python bench/catalog.py [agents] --profile    where a cold load spends its time

Every measure runs in a process of its own, next to a yardstick that the same process runs just
before: reading every blob through `git cat-file` and handing its frontmatter to PyYAML's C loader.
"""

import asyncio
import cProfile
import json
import pstats
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "catalog.json"
ROUNDS = 5
REACH = {"cold": 2000.0, "warm": 200.0, "changed": 50.0, "resolve": 0.020}
"""Milliseconds."""
WORDS = (
    "review",
    "the",
    "change",
    "and",
    "say",
    "what",
    "could",
    "break",
    "keep",
    "it",
    "short",
    "ask",
    "when",
    "unsure",
)


def main(agents: int) -> None:
    with tempfile.TemporaryDirectory(prefix="retinue-bench-") as name:
        folder = Path(name)
        generate(folder / "origin.git", agents)
        child("sync", folder)
        rounds: dict[str, list[dict[str, float]]] = {}
        for _ in range(ROUNDS):
            for what in ("cold", "warm", "changed"):
                rounds.setdefault(what, []).append(child(what, folder))
    figures = {what: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for what, runs in rounds.items()}
    figures["resolve"] = {"ms": figures["warm"]["resolve"], "yardstick": figures["warm"]["yardstick"]}
    show(agents, figures)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"agents": agents, "reach_ms": REACH, "median": figures, "rounds": rounds}, indent=1))


def show(agents: int, figures: dict[str, dict[str, float]]) -> None:
    print(f"{agents} agents, median of {ROUNDS}; the yardstick is cat-file and YAML alone, in the same process")
    print(f"{'':10} {'ms':>9} {'reach':>9} {'yardstick':>10} {'ratio':>7}")
    for what, reach in REACH.items():
        ms, yardstick = figures[what]["ms"], figures[what]["yardstick"]
        verdict = "" if ms <= reach else "  MISSED"
        print(f"{what:10} {ms:9.3f} {reach:9.3f} {yardstick:10.1f} {ms / yardstick:7.3f}{verdict}")
    for what, parts in figures.items():
        rest = ", ".join(f"{key} {value:.3f}" for key, value in parts.items() if key not in ("ms", "yardstick"))
        if rest:
            print(f"{what}, in ms: {rest}")


def child(what: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", what, str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout or "{}")


async def measure(what: str, folder: Path) -> dict[str, float]:
    """One figure, with what it is made of."""
    yardstick = 0.0 if what == "sync" else elapsed(lambda: bare(folder / "origin.git"))
    started = time.perf_counter()
    import os

    from retinue.registry.catalog import Catalog
    from retinue.registry.changes import diff
    from retinue.sources.git import GitSource
    from retinue.sources.mirror import Mirror
    from retinue.sources.repository import RepositoryConfig

    imports = since(started)
    config = RepositoryConfig(name="main", git_url=str(folder / "origin.git"), is_root=True)
    source = GitSource(config, Mirror(config, folder / "mirror", dict(os.environ), allow_local=True))
    if what == "sync":
        await source.sync(time.time())
        return {}
    if what == "cold":
        (folder / "mirror" / "cache").unlink(missing_ok=True)
    started = time.perf_counter()
    snapshot = await source.load(None)
    load = since(started)
    catalog = Catalog.build([snapshot])
    total = since(started)
    if what != "changed":
        return {
            "ms": total,
            "yardstick": yardstick,
            "imports": imports,
            "load": load,
            "catalog": total - load,
            **resolving(catalog),
        }
    # as in a process that has been up for a while: definitions are decoded when somebody first looks at them
    decode = elapsed(lambda: list(snapshot.entries.values()))
    change(folder / "origin.git", str(time.time_ns()))
    started = time.perf_counter()
    await source.sync(time.time())
    sync = since(started)
    started = time.perf_counter()
    newer = await source.load(snapshot)
    load = since(started)
    summary = diff(catalog, Catalog.build([newer]))
    total = since(started)
    assert summary.changed == ("team7/agent7",), summary
    return {
        "ms": total,
        "yardstick": yardstick,
        "load": load,
        "catalog and summary": total - load,
        "sync": sync,
        "first look at all": decode,
    }


def resolving(catalog: "object") -> dict[str, float]:
    """Milliseconds a resolution: of agents nobody asked for yet, and again."""
    from retinue.registry.catalog import Catalog

    assert isinstance(catalog, Catalog)
    names = random.Random(1).sample(sorted(catalog.addresses), min(1000, len(list(catalog.addresses))))
    first = elapsed(lambda: [catalog.resolve(name) for name in names]) / len(names)
    again = elapsed(lambda: [catalog.resolve(name) for name in names]) / len(names)
    return {"resolve first": first, "resolve": again}


def bare(repository: Path) -> int:
    """The least that any loader must do."""
    import yaml

    git = ["git", f"--git-dir={repository}"]
    tree = subprocess.run([*git, "ls-tree", "-r", "main"], capture_output=True, check=True).stdout
    shas = b"".join(line.split()[2] + b"\n" for line in tree.splitlines())
    blobs = subprocess.run([*git, "cat-file", "--batch"], input=shas, capture_output=True, check=True).stdout
    at = count = 0
    while at < len(blobs):
        end = blobs.index(b"\n", at)
        size = int(blobs[at:end].split()[2])
        text = blobs[end + 1 : end + 1 + size]
        if text.startswith(b"---\n"):
            yaml.load(text[4 : text.index(b"\n---", 4)], Loader=yaml.CSafeLoader)
        at, count = end + size + 2, count + 1
    return count


def generate(repository: Path, agents: int) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(repository)], check=True)
    dice = random.Random(0)
    parts = [b"commit refs/heads/main\ncommitter b <b@b> 1700000000 +0000\ndata 1\nx\n"]
    for number in range(agents):
        text = agent(number, dice)
        parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path_of(number), len(text), text))
    parts.append(b"M 100644 inline README.md\ndata 8\n# Agents\n")
    subprocess.run(["git", f"--git-dir={repository}", "fast-import", "--quiet"], input=b"".join(parts), check=True)


def change(repository: Path, mark: str) -> None:
    text = agent(7, random.Random(mark), mark)
    stream = b"commit refs/heads/main\ncommitter b <b@b> 1700000000 +0000\ndata 1\nx\nfrom refs/heads/main^0\n"
    stream += b"M 100644 inline %s\ndata %d\n%s\n" % (path_of(7), len(text), text)
    subprocess.run(["git", f"--git-dir={repository}", "fast-import", "--quiet"], input=stream, check=True)


def path_of(number: int) -> bytes:
    return f"team{number % 50}/agent{number}/prompt.md".encode()


def agent(number: int, dice: random.Random, mark: str = "") -> bytes:
    body = "\n".join(" ".join(dice.choices(WORDS, k=12)) for _ in range(dice.randint(10, 50)))
    purpose = " ".join(dice.choices(WORDS, k=6))
    return (
        f'---\nname: "Agent{number}"\ndescription: "Helps team {number % 50} with {purpose}"\n'
        f'version: "1.{number % 7}.0"\ntags: ["team-{number % 50}", "bench"]\nmodel: "gpt-4-turbo"\n'
        f'tools: [read, grep, glob, bash]\nallowedAgents: ["team{number % 50}/agent{number // 2}"]\n'
        f'examples:\n  - "Do {dice.choice(WORDS)}"\n  - "Then {dice.choice(WORDS)}"\nmaxExecutionMinutes: 15\n---\n'
        f"You are agent {number}. {mark}\n{body}\nYour task: {{{{prompt}}}}\n"
    ).encode()


def elapsed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return since(started)


def since(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def profile(agents: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="retinue-bench-"))
    try:
        generate(folder / "origin.git", agents)
        child("sync", folder)
        asyncio.run(profiled(folder))
    finally:
        shutil.rmtree(folder)


async def profiled(folder: Path) -> None:
    """Parsing runs in a thread, which a profiler of the main one does not see: do its part here."""
    import os

    from retinue.sources.git_files import Reader
    from retinue.sources.mirror import Mirror
    from retinue.sources.repository import RepositoryConfig

    config = RepositoryConfig(name="main", git_url=str(folder / "origin.git"), is_root=True)
    mirror = Mirror(config, folder / "mirror", dict(os.environ), allow_local=True)
    tree = await mirror.tree(mirror.state().commit or "")
    reader = Reader(mirror.blobs, shown=str, largest=mirror.limits.blob, progress=None)
    profiler = cProfile.Profile()
    profiler.runcall(reader.read, tree, (), {})
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(asyncio.run(measure(sys.argv[2], Path(sys.argv[3])))))
    else:
        count = next((int(a) for a in sys.argv[1:] if a.isdigit()), 10_000)
        profile(count) if "--profile" in sys.argv else main(count)
