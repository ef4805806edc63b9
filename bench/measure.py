"""CPU and memory of this process around a piece of work, printed as one JSON line."""

import json
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def measured(units: int) -> Generator[None]:
    """`units` is how many steps or chunks the work does."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"cpu_ms": round(cpu / units * 1000, 4), "per_second": round(units / wall, 1), "peak_mb": peak}))
