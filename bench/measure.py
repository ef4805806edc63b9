"""CPU and memory of this process around a piece of work, printed as one JSON line."""

import json
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager


def spent() -> tuple[float, float]:
    """CPU and wall seconds so far."""
    return time.process_time(), time.perf_counter()


def fanned(children: int, before: tuple[float, float]) -> None:
    """What a parent with so many children took since `before`."""
    cpu, wall = (now - then for now, then in zip(spent(), before, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    told = {"children": children, "wall_ms": round(wall * 1000, 1), "cpu_ms": round(cpu * 1000, 1), "peak_mb": peak}
    print(json.dumps(told), flush=True)


@contextmanager
def measured(units: int) -> Generator[None]:
    """`units` is how many steps or chunks the work does."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"cpu_ms": round(cpu / units * 1000, 4), "per_second": round(units / wall, 1), "peak_mb": peak}))
