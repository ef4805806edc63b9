"""Options are merged into a request, objects one level deep."""

import msgspec
import pytest

from retinue.models.options import with_options

FIELDS = {"model": "m", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"schema": msgspec.Raw(b"{}")}}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (b"{}", {}),
        (b'{"seed":7}', {"seed": 7}),
        (b'{"reasoning":{"summary":null}}', {"reasoning": {"effort": "low", "summary": None}}),
        (b'{"reasoning":null}', {"reasoning": None}),
        (b'{"model":{"a":1}}', {"model": {"a": 1}}),
        (b'{"text":{"verbosity":"low"}}', {"text": {"schema": msgspec.Raw(b"{}"), "verbosity": "low"}}),
    ],
)
def test_options_go_over_the_fields(options: bytes, changed: dict[str, object]) -> None:
    assert with_options(FIELDS, options) == {**FIELDS, **changed}
