"""Whatever the bytes are, loading and formatting answer; they never raise."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retinue.definition.keys import KEYS
from retinue.definition.load import load_all, load_fields, load_prompt
from retinue.definition.render import to_canonical
from retinue.schema.agent import AgentDefinition

NAMES = [name for key in KEYS for name in (key.name, *key.aliases, *key.variants)]
LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 5000) | st.floats(0, 3) | st.text(max_size=12) | st.sampled_from(NAMES)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.spec("DEF-08", "DEF-09")
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="ab:-'\"[]{}#&*!|> \n\t", max_size=200).map(str.encode))
def test_any_bytes_get_an_answer(data: bytes) -> None:
    for text in (data, b"---\n" + data, b"---\n" + data + b"\n---\nBody"):
        for loaded in load_all(text, file="a.md"):
            assert loaded.definition is not None or loaded.problems or loaded.skipped
        load_prompt(text, file="a.md", name="a")
        to_canonical(text, file="a.md")


@pytest.mark.spec("DEF-08")
@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_any_values_of_known_keys_get_an_answer_of_the_declared_types(fields: dict[str, object]) -> None:
    loaded = load_fields({"name": "n", **fields}, file="c", prompt="p")

    if loaded.definition is None:
        assert any(problem.severity == "error" for problem in loaded.problems)
    else:
        again = msgspec.convert(msgspec.to_builtins(loaded.definition), AgentDefinition)
        assert again.id == loaded.definition.id
