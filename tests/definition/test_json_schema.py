import json
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest

from retinue.definition.json_schema import json_schema
from retinue.definition.keys import KEYS

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.spec("DEF-02", "DEF-14")
def test_the_schema_is_valid_and_knows_every_key_and_alias() -> None:
    schema = json_schema()
    jsonschema_rs.meta.validate(schema)
    properties = msgspec.convert(schema["properties"], dict[str, object])

    assert {name for key in KEYS for name in (key.name, *key.aliases, *key.variants)} == set(properties)


@pytest.mark.spec("DEF-14")
@pytest.mark.parametrize(
    ("fields", "valid"),
    [
        ({"tools": ["read"], "model": "m", "max_steps": 3, "permission": {"bash": {"*": "ask"}}}, True),
        ({"tools": "Read, Grep", "timeout": "5m", "side_b": {"prompt": "x", "session_stop": "y"}}, True),
        ({"anything": 1}, True),
        ({"max_steps": 0}, False),
        ({"temperature": "hot"}, False),
        ({"execution_mode": "fast"}, False),
        ({"tools": True}, False),
    ],
)
def test_an_editor_can_tell_good_from_bad(fields: dict[str, object], valid: bool) -> None:
    assert jsonschema_rs.is_valid(json_schema(), fields) is valid


@pytest.mark.spec("DEF-02")
def test_the_schema_in_the_docs_is_the_tables() -> None:
    written = (REPOSITORY / "docs" / "reference" / "agent.schema.json").read_text()

    assert json.loads(written) == json_schema(), "run make docs"
