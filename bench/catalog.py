"""The catalog's figures on a generated git repository of 10,000 agents.

    python bench/catalog.py [agents]              measure, print a table, write results/catalog.json
    python bench/catalog.py [agents] --profile    where a cold load spends its time

Every measure runs in a process of its own, next to a yardstick that the same process runs just
before: reading every blob through `git cat-file` and handing its frontmatter to PyYAML's C loader.
The machine is shared, so CPU (git's included) is told beside the time that passed.
"""

import asyncio
import cProfile
import gc
import json
import pstats
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.registry.catalog import Catalog

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
    warm = figures["warm"]
    figures["resolve"] = {"time": warm.pop("resolve"), "cpu": warm.pop("resolve cpu")}
    figures["resolve"] |= {key: warm[key] for key in ("yardstick", "yardstick cpu")}
    show(agents, figures)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"agents": agents, "reach_ms": REACH, "median": figures, "rounds": rounds}, indent=1))


def show(agents: int, figures: dict[str, dict[str, float]]) -> None:
    print(f"{agents} agents, median of {ROUNDS}, in ms; the yardstick is cat-file and YAML alone, in the same process")
    print(f"{'':10} {'time':>9} {'CPU':>9} {'reach':>9} {'yardstick':>10} {'its CPU':>9} {'CPU ratio':>9}")
    for what, reach in REACH.items():
        f = figures[what]
        verdict = "" if f["time"] <= reach else "  missed, also in CPU" if f["cpu"] > reach else "  missed, not in CPU"
        ratio = f["cpu"] / f["yardstick cpu"]
        print(
            f"{what:10} {f['time']:9.3f} {f['cpu']:9.3f} {reach:9.3f}"
            f" {f['yardstick']:10.1f} {f['yardstick cpu']:9.1f} {ratio:9.4f}{verdict}"
        )
    for what, parts in figures.items():
        rest = ", ".join(f"{key} {value:.3f}" for key, value in parts.items() if key not in _COLUMNS)
        if rest:
            print(f"{what}: {rest}")


_COLUMNS = ("time", "cpu", "yardstick", "yardstick cpu")


def child(what: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", what, str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout or "{}")


async def measure(what: str, folder: Path) -> dict[str, float]:
    """One figure, with what it is made of."""
    watch = Watch()
    if what != "sync":
        bare(folder / "origin.git")
    yardstick = {"yardstick": watch.time(), "yardstick cpu": watch.cpu()}
    watch = Watch()
    import os

    from retinue.registry.catalog import Catalog
    from retinue.registry.changes import diff
    from retinue.sources.git import GitSource
    from retinue.sources.mirror import Mirror
    from retinue.sources.repository import RepositoryConfig

    imports = watch.time()
    config = RepositoryConfig(name="main", git_url=str(folder / "origin.git"), is_root=True)
    source = GitSource(config, Mirror(config, folder / "mirror", dict(os.environ), allow_local=True))
    if what == "sync":
        await source.sync(time.time())
        return {}
    if what == "cold":
        (folder / "mirror" / "cache").unlink(missing_ok=True)
    watch = Watch()
    snapshot = await source.load(None)
    load = watch.time()
    catalog = Catalog.build([snapshot])
    loaded = {"time": watch.time(), "cpu": watch.cpu(), "load": load, "imports": imports}
    if what != "changed":
        return loaded | yardstick | resolving(catalog)
    watch = Watch()
    # as in a process that has been up for a while: definitions are decoded when somebody first looks at them,
    # and the collector has seen them
    _ = list(snapshot.entries.values())
    decode = watch.time()
    gc.collect()
    change(folder / "origin.git", str(time.time_ns()))
    watch = Watch()
    await source.sync(time.time())
    sync = watch.time()
    watch = Watch()
    newer = await source.load(snapshot)
    load = watch.time()
    summary = diff(catalog, Catalog.build([newer]))
    changed = {"time": watch.time(), "cpu": watch.cpu(), "load": load, "sync": sync, "first look at all": decode}
    assert summary.changed == ("team7/agent7",), summary
    return changed | yardstick


class Watch:
    """Milliseconds since it was made: by the clock, and of CPU of this process and the git programs it ran."""

    def __init__(self) -> None:
        self._time, self._cpu = time.perf_counter(), self._used()

    def time(self) -> float:
        return (time.perf_counter() - self._time) * 1000

    def cpu(self) -> float:
        return (self._used() - self._cpu) * 1000

    def _used(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime


def resolving(catalog: "Catalog") -> dict[str, float]:
    """Milliseconds a resolution: of agents nobody asked for yet, and again."""
    names = random.Random(1).sample(sorted(catalog.addresses), min(1000, len(list(catalog.addresses))))
    told: dict[str, float] = {}
    for which in ("resolve first", "resolve"):
        watch = Watch()
        for name in names:
            catalog.resolve(name)
        told |= {which: watch.time() / len(names), f"{which} cpu": watch.cpu() / len(names)}
    return told


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
