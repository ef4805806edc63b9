"""Turns what the programs wrote into `results/` into RESULTS.md and a plot. `report.py` alone rewrites the page."""

import json
from pathlib import Path
from typing import Any

from fanout import SYSTEMS
from run import LOOPS

BAR, ROW, LEFT = 360, 24, 190


def report(bench: Path) -> str:
    results = bench / "results"
    parts = ["# Measurements", "", _intro(), ""]
    if (results / "loops.json").exists():
        told = json.loads((results / "loops.json").read_text())
        parts += _loops(told["loops"]) + _stream(told["stream"]) + _start(told["start"])
        (bench / "loops.svg").write_text(_plot(told["loops"]))
    if (results / "fanout.json").exists():
        parts += _fanout(json.loads((results / "fanout.json").read_text()))
    for name in sorted(p.stem for p in results.glob("*.json") if p.stem not in ("loops", "fanout")):
        parts += [f"## {name}", "", "```json", _short(results / f"{name}.json"), "```", ""]
    return "\n".join(parts)


def _intro() -> str:
    return (
        "Written by `make bench`. Two shared cores: read ratios, not seconds. CPU is user and system time of the "
        "measured process, all threads. The yardstick is a bare aiohttp loop that commits each message to SQLite in "
        "groups (`loops/yardstick.py`); every loop does the same tool steps against `mock.py`."
    )


def _loops(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    kinds = list(found)
    lines = ["## A step", "", "CPU a step in ms, and as a multiple of the yardstick.", ""]
    lines += ["| | durable | " + " | ".join(kinds) + " |", "| --- | --- |" + " --- |" * len(kinds)]
    for name, (_, _, _, durable) in LOOPS.items():
        cells = []
        for kind in kinds:
            told, yard = found[kind].get(name), found[kind]["yardstick"]["cpu_ms"]
            cells.append(f"{told['cpu_ms']:.2f} ({told['cpu_ms'] / yard:.1f} ×)" if told else "")
        if any(cells):
            lines.append(f"| {name} | {'yes' if durable else 'no'} | " + " | ".join(cells) + " |")
    return [*lines, "", "![CPU a step](loops.svg)", ""]


def _fanout(told: dict[str, Any]) -> list[str]:
    sizes = list(next(iter(told["systems"].values())))
    lines = [
        "## One parent, many children",
        "",
        f"Every child makes one tool step; the mock takes {told['latency_ms']:.0f} ms, so nobody can be faster than "
        f"{told['least_ms']:.0f} ms. Wall time, CPU and peak memory of the process.",
        "",
        "| | durable | " + " | ".join(f"{size} at once" for size in sizes) + " |",
        "| --- | --- |" + " --- |" * len(sizes),
    ]
    for name, figures in told["systems"].items():
        cells = [f"{f['wall_ms']:.0f} ms, {f['cpu_ms']:.0f} ms, {f['peak_mb']:.0f} MB" for f in figures.values()]
        lines.append(f"| {name} | {'yes' if SYSTEMS[name][3] else 'no'} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _stream(told: dict[str, float]) -> list[str]:
    return ["## A streamed answer", "", f"500 chunks with a reader: {told['cpu_ms'] * 1000:.0f} µs of CPU a chunk.", ""]


def _start(told: dict[str, float]) -> list[str]:
    rows = [f"| `{name}` | {times} × |" for name, times in told.items()]
    return ["## Start", "", '| command | CPU, as a multiple of `python -c "import json"` |', "| --- | --- |", *rows, ""]


def _short(path: Path) -> str:
    text = path.read_text().strip()
    return text if len(text) < 3000 else text[:3000] + "\n…"


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
