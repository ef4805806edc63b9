"""Writes the pages that are made from tables. `make docs` runs it."""

import json
from pathlib import Path

from retinue.definition.json_schema import json_schema
from retinue.definition.reference import reference_markdown

REFERENCE = Path(__file__).parent / "reference"


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    (REFERENCE / "frontmatter.md").write_text(reference_markdown())
    (REFERENCE / "agent.schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    main()
