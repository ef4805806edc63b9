"""Holds `tests/spec.toml` and the tests to each other, and writes `docs/spec.md`.

A requirement that is `done` needs a test marked with its id; a test may only name
ids that exist. With `--run` the marked tests are run as well.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from subprocess import run

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    spec = tomllib.loads((ROOT / "tests/spec.toml").read_text())
    marked = _marked_tests()
    faults = [f"{test}: {id} is not a requirement" for id, tests in marked.items() if id not in spec for test in tests]
    faults += [
        f"{id} is done and no test proves it" for id, row in spec.items() if row["state"] == "done" and not marked[id]
    ]
    _write_page(spec, marked)
    print("\n".join(faults) or f"spec: {sum(r['state'] == 'done' for r in spec.values())} of {len(spec)} done")
    if faults:
        return 1
    if "--run" in sys.argv:
        return run([sys.executable, "-m", "pytest", "-n", "2", "tests"], cwd=ROOT, check=False).returncode
    return 0


def _marked_tests() -> defaultdict[str, list[str]]:
    """Ids to the tests that carry them, read from the source: no test has to run for it."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        module_ids = [i for n in tree.body if isinstance(n, ast.Assign) and _is_pytestmark(n) for i in _ids(n.value)]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                ids = [*module_ids, *(i for d in node.decorator_list for i in _ids(d))]
                for id in ids:
                    found[id].append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def _is_pytestmark(node: ast.Assign) -> bool:
    return any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)


def _ids(node: ast.expr) -> list[str]:
    return [
        arg.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "spec"
        for arg in call.args
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
    ]


def _write_page(spec: dict[str, dict[str, str]], marked: defaultdict[str, list[str]]) -> None:
    done = sum(row["state"] == "done" for row in spec.values())
    lines = ["# The requirements", "", f"{done} of {len(spec)} done. Written by `make spec`.", ""]
    for id, row in spec.items():
        tests = f" ({len(marked[id])} tests)" if marked[id] else ""
        lines.append(f"- **{id}** {row['state']}{tests}: {row['text']}")
    (ROOT / "docs/spec.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
