"""`options` of a definition: keys of the wire that we have no word for, merged into a request."""

from collections.abc import Mapping

import msgspec

_object = dict[str, object]


def with_options(fields: Mapping[str, object], options: bytes) -> dict[str, object]:
    """`fields` with the JSON object `options` over them, objects merged one level deep."""
    theirs = msgspec.json.decode(options, type=_object)
    return {**fields, **{key: _merged(fields.get(key), value) for key, value in theirs.items()}}


def _merged(ours: object, theirs: object) -> object:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return theirs
    return {**msgspec.convert(ours, _object), **msgspec.convert(theirs, _object)}
