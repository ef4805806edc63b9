"""Checks the arguments of a call against the tool's schema before anything runs.

Safe repairs only: no arguments at all are an empty object, arguments encoded
twice are decoded, and a null for a property that may be left out is left out.
Everything else goes back to the model with what was wrong and the schema.
"""

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from retinue.ports.tool import Rejected
from retinue.schema.agent import ToolOverride
from retinue.schema.tool import ToolSpec

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_NO_OVERRIDE = ToolOverride()
_MOST_KEPT = 1024
_TOLD = 8
"""Problems named in one answer; a model mends these first."""


def check(text: str, spec: ToolSpec, override: ToolOverride = _NO_OVERRIDE) -> dict[str, object] | Rejected:
    """The arguments as a mapping, with the override's defaults filled in, or why they can't be used."""
    parsed = _parse(text)
    if isinstance(parsed, str):
        return _rejected(spec, [parsed])
    try:
        validator = _validator_of(spec)
    except ValueError as error:
        return Rejected(message=f"`{spec.name}` can't be called: its schema is not valid JSON Schema ({error}).")
    arguments = {**override.default_arguments, **parsed}
    errors = list(islice(validator.iter_errors(arguments), _TOLD))
    if nulls := {k for k, v in arguments.items() if v is None} & {p for e in errors for p in e.instance_path[:1]}:
        arguments = {k: v for k, v in arguments.items() if k not in nulls}
        errors = list(islice(validator.iter_errors(arguments), _TOLD))
    return _rejected(spec, [_told(e.instance_path, e.message) for e in errors]) if errors else arguments


def _parse(text: str) -> dict[str, object] | str:
    try:
        value: object = msgspec.json.decode(text) if text.strip() else {}
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        return f"the arguments are not JSON: {error}"
    if value is None:
        return {}
    try:
        return msgspec.convert(value, dict[str, object])
    except msgspec.ValidationError:
        return f"the arguments must be a JSON object, not {_kind(value)}"


_KEPT: dict[int, tuple[ToolSpec, "Validator"]] = {}
"""By identity: a spec lives as long as its tool, and encoding its schema costs more than checking a call."""


def _validator_of(spec: ToolSpec) -> "Validator":
    held = _KEPT.get(id(spec))
    if held is not None and held[0] is spec:
        return held[1]
    validator = _validator(msgspec.json.encode(spec.parameters))
    if len(_KEPT) >= _MOST_KEPT:
        _KEPT.clear()
    _KEPT[id(spec)] = (spec, validator)
    return validator


@lru_cache(maxsize=512)
def _validator(schema: bytes) -> "Validator":
    import jsonschema_rs

    return jsonschema_rs.validator_for(
        schema.decode(),
        retriever=_refuse,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
    )


def _refuse(uri: str) -> None:
    raise ValueError(f"{uri} is outside the schema, and nothing is fetched to check a call")


def _rejected(spec: ToolSpec, problems: list[str]) -> Rejected:
    lines = "\n".join(f"- {p}" for p in problems)
    schema = msgspec.json.encode(spec.parameters).decode()
    return Rejected(message=f"Nothing was run: the arguments of `{spec.name}` do not fit.\n{lines}\nSchema: {schema}")


def _told(path: list[str | int], message: str) -> str:
    where = ".".join(str(p) for p in path)
    short = message if len(message) <= 300 else f"{message[:300]}…"
    return f"at `{where}`: {short}" if where else short


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case _:
            return "a list"
