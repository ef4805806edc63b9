"""Turns what the programs wrote into `results/` into RESULTS.md and a plot. `report.py` alone rewrites the page."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fanout import SYSTEMS
from run import LOOPS

BAR, ROW, LEFT = 360, 24, 190

Told = Mapping[str, Any]
"""What a program wrote."""


def report(bench: Path) -> str:
    results = bench / "results"
    parts = ["# Measurements", "", _intro(), ""]
    for name, section in SECTIONS.items():
        if (results / f"{name}.json").exists():
            parts += section(json.loads((results / f"{name}.json").read_text()))
    if (results / "loops.json").exists():
        (bench / "loops.svg").write_text(_plot(json.loads((results / "loops.json").read_text())["loops"]))
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines), ""]


def _intro() -> str:
    return (
        "Written by `make bench`. Two shared cores: read ratios, not seconds. CPU is user and system time of the "
        "measured process, all threads. The yardstick is a bare aiohttp loop that commits each message to SQLite in "
        "groups (`loops/yardstick.py`); every loop does the same tool steps against `mock.py`."
    )


def _loops(told: Told) -> list[str]:
    found, kinds = told["loops"], list(told["loops"])
    rows: list[list[str]] = []
    for name, (_, _, _, durable) in LOOPS.items():
        cells: list[str] = []
        for kind in kinds:
            figure, yard = found[kind].get(name), found[kind]["yardstick"]["cpu_ms"]
            cells.append(f"{figure['cpu_ms']:.2f} ({figure['cpu_ms'] / yard:.1f} ×)" if figure else "")
        if any(cells):
            rows.append([name, "yes" if durable else "no", *cells])
    return [
        "## A step",
        "",
        "CPU a step in ms, and as a multiple of the yardstick.",
        "",
        *_table(["", "durable", *kinds], rows),
        "![CPU a step](loops.svg)",
        "",
        "## A streamed answer",
        "",
        f"500 chunks with a reader: {told['stream']['cpu_ms'] * 1000:.0f} µs of CPU a chunk.",
        "",
        "## Start",
        "",
        *_table(
            ["command", 'CPU, as a multiple of `python -c "import json"`'],
            [[f"`{name}`", f"{times} ×"] for name, times in told["start"].items()],
        ),
    ]


def _many(told: Told) -> list[str]:
    return [
        "## Many threads",
        "",
        f"{told['threads']:,} threads at once on a mock that takes 2 s: {told['cpu_ms_a_thread']:.1f} ms of CPU each, "
        f"{told['peak_mb']:.0f} MB at most ({told['before_mb']:.0f} MB before).",
        "",
    ]


def _fanout(told: Told) -> list[str]:
    sizes = list(next(iter(told["systems"].values())))
    rows = [
        [
            name,
            "yes" if SYSTEMS[name][3] else "no",
            *(f"{f['wall_ms']:.0f} ms, {f['cpu_ms']:.0f} ms, {f['peak_mb']:.0f} MB" for f in figures.values()),
        ]
        for name, figures in told["systems"].items()
    ]
    return [
        "## One parent, many children",
        "",
        f"Every child makes one tool step; the mock takes {told['latency_ms']:.0f} ms, so nobody can be faster than "
        f"{told['least_ms']:.0f} ms. Wall time, CPU and peak memory of the process.",
        "",
        *_table(["", "durable", *(f"{size} at once" for size in sizes)], rows),
    ]


def _catalog(told: Told) -> list[str]:
    rows: list[list[str]] = []
    for name, wanted in told["reach_ms"].items():
        found = told["median"][name]
        ratio = f"{found['cpu'] / found['yardstick cpu']:.2f} ×" if name == "cold" else ""
        rows.append([name, _figure(found["cpu"]), _figure(found["time"]), ratio, f"{wanted:g}"])
    return [
        f"## A catalog of {told['agents']:,} agents in git",
        "",
        "The yardstick reads the same files and hands their frontmatter to libyaml.",
        "",
        *_table(["", "CPU, ms", "time, ms", "of the yardstick's CPU", "wanted, ms"], rows),
    ]


def _figure(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}"


def _serve(told: Told) -> list[str]:
    rows: list[list[object]] = []
    for load in told.values():
        tails = [" / ".join(f"{t:.0f}" for t in load["milliseconds"][kind].values()) for kind in _KINDS]
        memory = load["memory_mb"]
        rows.append([
            f"{load['threads']} threads, {load['threads']} readers, {load['watchers']} clients, {load['kills']} kills",
            load["acknowledged"],
            load["runs_per_second"],
            *tails,
            load["errors"],
            f"{memory['before']} → {memory['after_each_round']}",
        ])  # fmt: skip
    idle = told["load"]["idle"]
    return [
        "## A server under load",
        "",
        "On loopback with the scripted model, client and server on the same two cores. Latencies are p50 / p95 / p99 "
        "in ms. `kill -9` and restart in the middle: every acknowledged message is accounted for, and no event is "
        "missing or doubled, by their sequence numbers.",
        "",
        *_table(["", "messages", "runs a second", *_KINDS, "errors", "memory, MB"], rows),
        f"{idle['readers']:,} idle readers take {idle['cpu_of_a_core']:.2f} of a core and {idle['memory_mb']:.0f} MB.",
        "",
    ]


_KINDS = ("list", "show", "write")


def _permissions(told: Sequence[Told]) -> list[str]:
    rows = [
        ["`" + row["call"].replace("\n", "⏎").replace("|", "\\|") + "`", row["first_us"], row.get("again_us", "")]
        for row in told
    ]
    return ["## Judging a call", "", *_table(["call", "µs at first", "µs again"], rows)]


def _tools(told: Told) -> list[str]:
    rows = [[row["what"], row["ours_ms"], row["yardstick_ms"]] for row in told["rows"]]
    return [f"## Tools on {told['files']:,} files", "", *_table(["", "ours, ms", "program, ms"], rows)]


def _taint(told: Told) -> list[str]:
    rows: list[list[object]] = []
    for name, suite in told["suites"].items():
        done, attacks = suite["done"], suite["attacks"]
        succeeded = [
            f"{attacks[kind]['off']} → {attacks[kind]['person']}" if kind in attacks else "" for kind in _ATTACKS
        ]
        rows.append([name, f"{done['person']} of {suite['user_tasks']}", done["nobody"], *succeeded])
    return [
        "## The taint gate",
        "",
        f"{told['package']}, every attack carried out by a model that obeys it: attacks that succeed without the gate "
        "→ with it. What a thread sends that has read nothing private is let through.",
        "",
        *_table(["suite", "tasks done with a person", "with nobody", *_ATTACKS], rows),
    ]


_ATTACKS = ("exfiltrates", "sends", "local")

SECTIONS: dict[str, Callable[[Any], list[str]]] = {
    "loops": _loops,
    "many": _many,
    "fanout": _fanout,
    "serve": _serve,
    "catalog": _catalog,
    "permissions": _permissions,
    "tools": _tools,
    "taint": _taint,
}


def _plot(found: dict[str, dict[str, dict[str, float]]]) -> str:
    """One bar a loop for each kind of work, scaled within the kind."""
    rows: list[str] = []
    y = 10
    for kind, loops in found.items():
        rows.append(f'<text x="4" y="{y + 14}" font-weight="bold">{kind}</text>')
        y += ROW
        most = max(told["cpu_ms"] for told in loops.values())
        for name, told in loops.items():
            width = max(told["cpu_ms"] / most * BAR, 1)
            fill = "#2563eb" if name.startswith("retinue") else "#9ca3af"
            rows.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
            rows.append(f'<rect x="{LEFT}" y="{y + 3}" width="{width:.0f}" height="{ROW - 8}" fill="{fill}"/>')
            rows.append(f'<text x="{LEFT + width + 6:.0f}" y="{y + 14}">{told["cpu_ms"]:.2f} ms</text>')
            y += ROW
        y += 8
    body = "\n".join(rows)
    style = "text{font:12px sans-serif;fill:#6b7280}"
    size = f'width="{LEFT + BAR + 90}" height="{y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>\n{body}\n</svg>\n'


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    (here / "RESULTS.md").write_text(report(here))
