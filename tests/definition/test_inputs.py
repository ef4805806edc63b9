import pytest

from retinue.definition.inputs import check_inputs, input_schema
from retinue.definition.load import load_text
from retinue.schema.agent import InputSpec
from retinue.schema.errors import UsageError


def inputs(front: str) -> tuple[InputSpec, ...]:
    loaded = load_text(f"---\ndescription: d\n{front}\n---\nDo it.", file="a.md")
    assert loaded.definition is not None, loaded.problems
    return loaded.definition.inputs


@pytest.mark.spec("DEF-11")
def test_inputs_are_declared_by_name_in_a_map_or_in_a_list() -> None:
    expected = (
        InputSpec(name="target", description="Target to analyze"),
        InputSpec(name="depth", type="integer", default=3, required=False),
        InputSpec(name="tags", type="array", items="string", required=False),
        InputSpec(name="mode", enum=("fast", "slow")),
    )
    as_map = """inputs:
  target: {type: string, description: Target to analyze, required: true}
  depth: {type: integer, default: 3}
  tags: {type: "string[]", required: false}
  mode: {type: enum, enum: [fast, slow]}"""
    as_list = """inputs:
  - {name: target, description: Target to analyze}
  - {name: depth, type: int, default: "3"}
  - {name: tags, type: array, items: {type: string}, required: false}
  - {name: mode, choices: [fast, slow]}"""

    assert inputs(as_map) == expected
    assert inputs(as_list) == expected


@pytest.mark.spec("DEF-11")
def test_a_json_schema_declares_inputs_too() -> None:
    front = "inputs: {type: object, properties: {a: {type: number}, b: {type: boolean}}, required: [a]}"

    assert inputs(front) == (InputSpec(name="a", type="number"), InputSpec(name="b", type="boolean", required=False))


@pytest.mark.spec("DEF-06")
def test_arguments_of_a_kodelet_recipe_are_optional_inputs() -> None:
    front = "arguments:\n  branch: {description: Where, default: main}\n  scope: {description: What}"

    assert inputs(front) == (
        InputSpec(name="branch", description="Where", default="main", required=False),
        InputSpec(name="scope", description="What", required=False),
    )


@pytest.mark.spec("DEF-11")
def test_inputs_are_the_schema_of_the_agents_tool() -> None:
    specs = (
        InputSpec(name="target", description="Where"),
        InputSpec(name="depth", type="integer", default=3, required=False),
        InputSpec(name="tags", type="array", items="string", required=False),
        InputSpec(name="mode", enum=("a", "b")),
    )

    assert input_schema(specs) == {
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": "Where"},
            "depth": {"type": "integer", "default": 3},
            "tags": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "string", "enum": ["a", "b"]},
        },
        "required": ["target", "mode"],
        "additionalProperties": False,
    }


@pytest.mark.spec("DEF-11")
def test_an_agent_that_declares_nothing_takes_a_query() -> None:
    schema = input_schema(())

    assert schema["required"] == ["query"]


SPECS = (
    InputSpec(name="text"),
    InputSpec(name="count", type="integer", required=False, default=1),
    InputSpec(name="ratio", type="number", required=False),
    InputSpec(name="deep", type="boolean", required=False),
    InputSpec(name="tags", type="array", items="integer", required=False),
    InputSpec(name="mode", enum=("a", "b"), required=False),
)


@pytest.mark.spec("DEF-11")
def test_values_are_typed_and_defaulted() -> None:
    given = {"text": "x", "ratio": "0.5", "deep": "yes", "tags": "1, 2", "mode": "a"}

    assert check_inputs(SPECS, given) == {
        **{"text": "x", "count": 1, "ratio": 0.5, "deep": True},
        **{"tags": [1, 2], "mode": "a"},
    }
    assert check_inputs(SPECS, {"text": "x", "count": 4, "tags": [3]})["count"] == 4


@pytest.mark.spec("DEF-11")
def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as wrong:
        check_inputs(SPECS, {"count": "1.5", "deep": "maybe", "tags": ["x"], "mode": "c", "extra": 1, "ratio": True})

    message = str(wrong.value)
    for name in ("text", "count", "deep", "tags", "mode", "extra", "ratio"):
        assert f"'{name}'" in message
