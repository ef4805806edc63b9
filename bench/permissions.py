"""Permission decisions per second, under the primary ruleset.

    python bench/permissions.py     measure, print a table, write results/permissions.json

Commands are judged for the first time (parsed) and again (the parse is kept). The yardstick, run
beside each, is a bare parse of the same text by tree-sitter. Figures are CPU, since the machine is shared.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import tree_sitter_bash
from tree_sitter import Language, Parser

from retinue.policy.calls import Authority, judge_call
from retinue.policy.files import Place, lexical
from retinue.policy.rulesets import agent_tiers, default_verdict
from retinue.policy.shell import script
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId

RESULTS = Path(__file__).parent / "results" / "permissions.json"
AGENT = AgentDefinition(id=AgentId("coder"), name="coder")
AUTHORITY = Authority(
    tiers=agent_tiers(AGENT), fallback=default_verdict(AGENT.permissions), place=Place("/w", home="/home/u")
)
COMMANDS = (
    "git status",
    "git log --oneline -5 && echo done",
    "cd src && cat a.py | head -5 2>/dev/null",
    'for f in a b; do cat "$f"; done; echo "$(git rev-parse HEAD)"',
    "git commit -m \"$(cat <<'EOF'\nfix: a bug\n\nand another\nEOF\n)\" && git push",
)
ROUNDS = 2000


def main() -> None:
    parser = Parser(Language(tree_sitter_bash.language()))
    rows: list[dict[str, object]] = []
    for command in COMMANDS:
        source = command.encode()
        bare = _microseconds(lambda source=source: parser.parse(source))
        first = _microseconds(lambda command=command: _first(command))
        again = _microseconds(lambda command=command: judge_call(AUTHORITY, "bash", command))
        rows.append({"call": command, "first_us": first, "again_us": again, "bare_parse_us": bare})
    target = lexical("read", "/w/src/a.py")
    read = _microseconds(lambda: judge_call(AUTHORITY, "read", "src/a.py", targets=[target]))
    fetch = _microseconds(lambda: judge_call(AUTHORITY, "webfetch", "https://example.com/a"))
    rows += [{"call": "read src/a.py", "first_us": read}, {"call": "webfetch https://example.com/a", "first_us": fetch}]
    for row in rows:
        print(f"{str(row['call']).splitlines()[0][:60]:60} {row['first_us']:>8} µs")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


def _first(command: str) -> None:
    script.parse.cache_clear()
    judge_call(AUTHORITY, "bash", command)


def _microseconds(work: Callable[[], object]) -> float:
    work()
    start = time.process_time()
    for _ in range(ROUNDS):
        work()
    return round((time.process_time() - start) / ROUNDS * 1e6, 1)


if __name__ == "__main__":
    main()
