"""The JSON Schema of the frontmatter, for editors; made from the key table."""

from retinue.definition.keys import KEYS


def json_schema() -> dict[str, object]:
    properties: dict[str, object] = {}
    for key in KEYS:
        properties[key.name] = {**key.kind.schema, "description": key.help}
        for alias in key.aliases:
            properties[alias] = {**key.kind.schema, "description": f"Another name of `{key.name}`."}
        for alias, kind in key.variants.items():
            properties[alias] = {**kind.schema, "description": f"`{key.name}`, as: {kind.label}."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frontmatter of a Retinue agent",
        "type": "object",
        "properties": properties,
        "additionalProperties": True,
    }
