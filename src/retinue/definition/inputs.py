"""Declared inputs: from the frontmatter, to the JSON Schema of the agent's tool, and checked before a run."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from retinue.definition.codes import Report
from retinue.definition.node import Fields, Items, Node, Scalar, from_python, is_collection, plain
from retinue.definition.values import (
    LARGEST,
    Bad,
    Kept,
    Kind,
    did_you_mean,
    fields_of,
    flag_of,
    folded,
    number_of,
    text_of,
)
from retinue.schema.agent import InputSpec, InputType
from retinue.schema.errors import UsageError

ItemType = Literal["string", "number", "integer", "boolean"]

_ITEM_TYPES: dict[str, ItemType] = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "text": "string",
    "str": "string",
    "float": "number",
    "int": "integer",
    "bool": "boolean",
}
_WANTED = "string, number, integer, boolean, an array of these ('string[]'), or enum"
_SPEC_KEYS = ("type", "description", "required", "default", "enum", "choices", "items")
_NAME = "a name of letters, digits and '_'"


def input_schema(inputs: tuple[InputSpec, ...]) -> dict[str, object]:
    """The parameters of the agent's tool; an agent that declares nothing takes `query`."""
    if not inputs:
        query = {"type": "string", "description": "The query or task to send to the agent", "minLength": 1}
        return {"type": "object", "properties": {"query": query}, "required": ["query"], "additionalProperties": False}
    return {
        "type": "object",
        "properties": {spec.name: _property(spec) for spec in inputs},
        "required": [spec.name for spec in inputs if spec.required],
        "additionalProperties": False,
    }


def check_inputs(inputs: tuple[InputSpec, ...], values: Mapping[str, object]) -> dict[str, object]:
    """Typed and defaulted values. Text becomes a number, a boolean or a list where one is declared.

    Raises `UsageError` that names everything that is wrong.
    """
    declared = {spec.name for spec in inputs}
    wrong = [f"'{name}' is not an input; there is {_names(inputs)}" for name in values if name not in declared]
    checked: dict[str, object] = {}
    for spec in inputs:
        value = values.get(spec.name)
        if value is None:
            if spec.required and spec.default is None:
                wrong.append(f"'{spec.name}' is required ({_type_name(spec)})")
            else:
                checked[spec.name] = spec.default
            continue
        try:
            checked[spec.name] = _typed(spec, value)
        except ValueError:
            wrong.append(f"'{spec.name}' is {value!r}; wanted {_type_name(spec)}")
    if wrong:
        raise UsageError("; ".join(wrong), hint=f"inputs: {_names(inputs)}")
    return checked


def _names(inputs: tuple[InputSpec, ...]) -> str:
    return ", ".join(spec.name for spec in inputs) or "none"


def _type_name(spec: InputSpec) -> str:
    if spec.enum:
        return " or ".join(map(str, spec.enum))
    return f"an array of {spec.items or 'values'}" if spec.type == "array" else f"a {spec.type}"


def _property(spec: InputSpec) -> dict[str, object]:
    schema: dict[str, object] = {"type": spec.type}
    if spec.type == "array" and spec.items:
        schema["items"] = {"type": spec.items}
    if spec.enum:
        schema["enum"] = list(spec.enum)
    if spec.description:
        schema["description"] = spec.description
    if spec.default is not None:
        schema["default"] = spec.default
    return schema


def _typed(spec: InputSpec, value: object) -> object:
    if spec.type == "array":
        parts = [p.strip() for p in value.split(",")] if isinstance(value, str) else value
        if not is_collection(parts):
            raise ValueError
        return [_item(spec.items or "string", part) if spec.items else part for part in parts]
    found = _item(spec.type, value)
    if spec.enum and found not in spec.enum:
        raise ValueError
    return found


def _item(type: ItemType, value: object) -> object:
    node = from_python(value)
    match type:
        case "string":
            if isinstance(value, str):
                return value
        case "boolean":
            if (flag := flag_of(node)) is not None:
                return flag
        case "number" | "integer":
            number = number_of(node)
            if number is not None and abs(number) <= LARGEST and (type == "number" or number == int(number)):
                return int(number) if type == "integer" else number
    raise ValueError


# from the frontmatter


def _read(*, required: bool) -> Kind:
    def read(node: Node, report: Report) -> object:
        if isinstance(node, Scalar) or (isinstance(node, Items) and all(isinstance(i, Scalar) for i in node.items)):
            raise Kept("foreign-value", "inputs are a map of names to {type, description, …}")
        if isinstance(node, Items):
            return tuple(_listed(item, report, required=required) for item in node.items)
        fields = fields_of(node, "a map of inputs")
        if _is_json_schema(fields):
            return _from_schema(fields, report)
        return tuple(_spec(name, value, report, required=required) for name, value in fields.fields.items())

    return Kind(
        "map of names to {type, description, required, default, enum}",
        read,
        {"anyOf": [{"type": "object"}, {"type": "array", "items": {"type": "object", "required": ["name"]}}]},
        _write,
    )


def _listed(node: Node, report: Report, *, required: bool) -> InputSpec:
    fields = fields_of(node, "an input {name, type, …}")
    if (name := fields.fields.get("name")) is None:
        raise Bad("an input with a 'name'", node)
    rest = Fields({k: v for k, v in fields.fields.items() if k != "name"}, fields.keys, fields.line, fields.column)
    return _spec(text_of(name), rest, report, required=required)


def _spec(name: str, node: Node, report: Report, *, required: bool) -> InputSpec:
    if not name.replace("-", "_").isidentifier():
        raise Bad(_NAME, node, path=name)
    try:
        if not isinstance(node, Fields):
            type, items = _type(node) if not (isinstance(node, Scalar) and node.value is None) else ("string", None)
            return InputSpec(name=name, type=type, items=items, required=required)
        for key in node.fields.keys() - set(_SPEC_KEYS):
            report.add(
                "unknown-key", *node.keys[key], f"'{key}' is not a key of an input", did_you_mean(key, _SPEC_KEYS)
            )
        return _from_fields(name, {folded(k): v for k, v in node.fields.items()}, required=required)
    except Bad as bad:
        raise bad.under(name) from None


def _from_fields(name: str, parts: dict[str, Node], *, required: bool) -> InputSpec:
    type, items = _type(parts["type"]) if "type" in parts else ("string", None)
    if type == "array" and items is None and "items" in parts:
        inner = parts["items"]
        items = _item_type(inner.fields.get("type", inner) if isinstance(inner, Fields) else inner)
    choices: list[str | int | float | bool] = []
    for item in _list(parts.get("enum") or parts.get("choices")):
        if not isinstance(item, Scalar) or item.value is None:
            raise Bad("a list of values", item, path="enum")
        choices.append(item.text if type == "string" else item.value)
    default = plain(parts["default"]) if "default" in parts else None
    if (flag := parts.get("required")) is not None and (needed := flag_of(flag)) is None:
        raise Bad("true or false", flag, path="required")
    needed = flag_of(flag) if flag is not None else None
    spec = InputSpec(
        name=name,
        type=type,
        items=items,
        enum=tuple(choices),
        description=text_of(parts["description"]) if "description" in parts else "",
        required=(required and default is None) if needed is None else needed,
    )
    if default is None:
        return spec
    try:
        return msgspec.structs.replace(spec, default=_typed(spec, default))
    except ValueError:
        raise Bad(_type_name(spec), parts["default"], path="default") from None


def _type(node: Node) -> tuple[InputType, ItemType | None]:
    text = text_of(node, _WANTED).strip().lower()
    if text == "array":
        return "array", None
    if text == "enum":
        return "string", None
    if text.endswith("[]"):
        return "array", _item_type(Scalar(text[:-2], text[:-2], node.line, node.column))
    return _item_type(node), None


def _item_type(node: Node) -> ItemType:
    found = _ITEM_TYPES.get(text_of(node, _WANTED).strip().lower())
    if found is None:
        raise Bad(_WANTED, node)
    return found


def _list(node: Node | None) -> list[Node]:
    if node is None:
        return []
    if not isinstance(node, Items):
        raise Bad("a list of values", node, path="enum")
    return node.items


def _is_json_schema(fields: Fields) -> bool:
    return isinstance(fields.fields.get("properties"), Fields) and fields.fields.keys() <= _SCHEMA_KEYS


_SCHEMA_KEYS = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema", "$defs"}


def _from_schema(fields: Fields, report: Report) -> tuple[InputSpec, ...]:
    """A JSON Schema of type object whose properties are simple."""
    listed = _list(fields.fields.get("required"))
    needed = {text_of(item) for item in listed}
    properties = fields_of(fields.fields["properties"], "a map of properties")
    specs: list[InputSpec] = []
    for name, node in properties.fields.items():
        spec = _spec(name, node, report, required=name in needed)
        specs.append(msgspec.structs.replace(spec, required=name in needed))
    return tuple(specs)


def _write(value: object) -> object:
    specs = msgspec.convert(msgspec.to_builtins(value), list[dict[str, object]])
    return {str(spec.pop("name")): spec for spec in specs}


INPUTS = _read(required=True)
ARGUMENTS = _read(required=False)
