"""Real agent files, and small ones of our own that have the same troubles.

The real ones stand beside the repository where they exist; a copy never enters it.
"""

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from retinue.definition.load import Loaded, load_all
from retinue.definition.render import to_canonical
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
OWN = Path(__file__).parent / "data"
OWN_FILES = sorted(OWN.rglob("*.md"))

needs_corpus = pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the repository")


class Row(msgspec.Struct):
    file: str
    expect: str


def outcome(loaded: Loaded) -> str:
    if loaded.skipped:
        return "skip"
    return "load" if loaded.definition is not None else "reject"


def load(path: Path) -> Loaded:
    return load_all(path.read_bytes(), file=path.name, id=AgentId("agent"))[0]


def rows() -> list[Row]:
    return [msgspec.json.decode(line, type=Row) for line in (CORPUS / "expect.jsonl").read_bytes().splitlines()]


def essence(definition: AgentDefinition) -> AgentDefinition:
    rules = tuple(msgspec.structs.replace(rule, origin="") for rule in definition.permissions.rules)
    permissions = msgspec.structs.replace(definition.permissions, rules=rules)
    return msgspec.structs.replace(definition, hash="", permissions=permissions)


def check_canonical(path: Path) -> None:
    text = path.read_bytes()
    before = load_all(text, file="agent.md")[0].definition
    once, _ = to_canonical(text, file="agent.md")
    after = load_all(once, file="agent.md")[0].definition
    assert before is not None and after is not None, path
    assert essence(before) == essence(after), path
    assert to_canonical(once, file="agent.md")[0] == once, path


@needs_corpus
@pytest.mark.spec("DEF-06", "DEF-07", "DEF-08")
def test_every_real_file_loads_is_skipped_or_is_refused_as_expected() -> None:
    wrong: list[str] = []
    codes: Counter[str] = Counter()
    for row in rows():
        loaded = load(CORPUS / row.file)
        codes.update(problem.code for problem in loaded.problems)
        if row.expect not in ("either", outcome(loaded)):
            wrong += [f"{row.file}: {outcome(loaded)}, wanted {row.expect}", *map(str, loaded.problems)]
    print(f"\n{len(rows())} files; problems of each code:")
    print("\n".join(f"{count:6} {code}" for code, count in codes.most_common()))

    assert wrong == []


@needs_corpus
@pytest.mark.spec("DEF-14")
def test_every_real_file_that_loads_has_a_canonical_form() -> None:
    for row in rows()[::7]:
        if row.expect == "load":
            check_canonical(CORPUS / row.file)


@pytest.mark.spec("DEF-06", "DEF-07")
@pytest.mark.parametrize("path", OWN_FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_kind_of_trouble_ends_as_it_should(path: Path) -> None:
    loaded = load(path)

    assert outcome(loaded) == path.parent.name, [str(problem) for problem in loaded.problems]
    if loaded.definition is not None:
        check_canonical(path)


EXPECTED = {
    "claude.md": {"not-honoured": 2, "unsupported-key": 1},
    "colon-in-description.md": {"rescued-text": 1},
    "example-block.md": {"rescued-text": 1},
    "damaged-quotes.md": {"rescued-text": 1},
    "unindented-lines.md": {"rescued-text": 1},
    "bold-description.md": {"rescued-text": 1},
    "brackets-in-hint.md": {"rescued-text": 1, "unsupported-key": 1, "empty-value": 1},
    "opencode-permission.md": {"unknown-tool": 1, "unavailable-tool": 1, "foreign-value": 1},
    "copilot.agent.md": {"unavailable-tool": 1, "unsupported-key": 1},
    "pi.md": {"unsupported-key": 3, "foreign-value": 1, "unknown-key": 1},
    "words.md": {"foreign-value": 3, "unknown-key": 2},
    "crlf.md": {},
    "bom.md": {},
    "kodelet.md": {},
    "gemini.md": {},
}


@pytest.mark.spec("DEF-08")
@pytest.mark.parametrize("name", EXPECTED)
def test_each_kind_of_trouble_is_named(name: str) -> None:
    assert Counter(p.code for p in load(OWN / "load" / name).problems) == EXPECTED[name]
