from pathlib import Path

import pytest

from retinue.definition.codes import CODES
from retinue.definition.keys import KEYS
from retinue.definition.reference import reference_markdown

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.spec("DEF-02")
def test_the_page_names_every_key_alias_and_code() -> None:
    page = reference_markdown()

    for key in KEYS:
        for name in (key.name, *key.aliases, *key.variants):
            assert f"`{name}`" in page
    for code in CODES:
        assert f"`{code}`" in page


@pytest.mark.spec("DEF-02")
def test_the_page_in_the_docs_is_the_tables() -> None:
    assert (REPOSITORY / "docs" / "reference" / "frontmatter.md").read_text() == reference_markdown(), "run make docs"
