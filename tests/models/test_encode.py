"""What the formats write and read alike."""

import msgspec
import pytest

from retinue.models.encode import open_object

FIELDS: dict[str, object] = {"model": "m", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"schema": {}}}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (b"{}", {}),
        (b'{"seed":7}', {"seed": 7}),
        (b'{"reasoning":{"summary":null}}', {"reasoning": {"effort": "low", "summary": None}}),
        (b'{"reasoning":null}', {"reasoning": None}),
        (b'{"model":{"a":1}}', {"model": {"a": 1}}),
        (b'{"text":{"verbosity":"low"}}', {"text": {"schema": {}, "verbosity": "low"}}),
    ],
)
def test_options_go_over_the_fields(options: bytes, changed: dict[str, object]) -> None:
    assert msgspec.json.decode(open_object(FIELDS, options, ()) + b"}") == {**FIELDS, **changed}
