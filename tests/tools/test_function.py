import asyncio
import enum
import threading
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from retinue.ports.tool import Result, Tool, ToolContext
from retinue.tools.function import tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Size(msgspec.Struct):
    width: float


class Options(TypedDict, total=False):
    verbose: bool


class Inner(BaseModel):
    text: str


class Model(BaseModel):
    inner: Inner


@tool(effect="read")
def weather(city: str, days: int = 1) -> str:
    """Tells the weather.

    Ask for one city at a time.

    Args:
        city: Where; a name
            or a code.
        days (int): How far ahead.

    Returns:
        A sentence.
    """
    return f"{city} in {days}: rain"


@tool
async def everything(
    colour: Colour,
    point: Point,
    size: Size,
    options: Options,
    model: Model,
    kind: Literal["a", "b"] = "a",
    tags: list[str] | None = None,
    count: Annotated[int, msgspec.Meta(ge=1)] = 1,
    *,
    context: ToolContext,
) -> dict[str, object]:
    return {
        "types": [type(v).__name__ for v in (colour, point, size, options, model)],
        "inner": model.inner,
        "thread": context.thread,
        "rest": [kind, tags, count],
    }


@pytest.mark.spec("TOOL-05")
def test_the_schema_comes_from_types_and_docstring() -> None:
    assert msgspec.to_builtins(weather.spec) == {
        "name": "weather",
        "description": "Tells the weather.\n\nAsk for one city at a time.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where; a name or a code."},
                "days": {"type": "integer", "description": "How far ahead.", "default": 1},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
        "effect": "read",
    }


@pytest.mark.spec("TOOL-05")
async def test_a_plain_function_runs_in_a_thread_and_can_still_be_called(context: ToolContext) -> None:
    @tool
    def where() -> str:
        return threading.current_thread().name

    typed: Tool = where
    assert (await typed.run({}, context)).text != threading.current_thread().name
    assert where() == threading.current_thread().name
    assert where.spec.effect == "write"
    assert (await weather.run({"city": "Ulm"}, context)) == Result(text="Ulm in 1: rain")


@pytest.mark.spec("TOOL-05")
async def test_arguments_become_the_types_of_the_parameters(context: ToolContext) -> None:
    arguments: dict[str, object] = {
        "colour": "red",
        "point": {"x": 1},
        "size": {"width": 2},
        "options": {"verbose": True},
        "model": {"inner": {"text": "t"}},
        "tags": ["q"],
    }

    result = await everything.run(arguments, context)

    assert msgspec.json.decode(result.text) == {
        "types": ["Colour", "Point", "Size", "dict", "Model"],
        "inner": {"text": "t"},
        "thread": context.thread,
        "rest": ["a", ["q"], 1],
    }


@pytest.mark.spec("TOOL-05")
def test_nested_types_are_definitions_of_one_schema_that_validates() -> None:
    from jsonschema_rs import validator_for

    parameters = dict(everything.spec.parameters)
    validator = validator_for(parameters)

    assert "context" not in str(parameters["properties"])
    assert parameters["required"] == ["colour", "point", "size", "options", "model"]
    good = {"colour": "red", "point": {"x": 1}, "size": {"width": 2}, "options": {}, "model": {"inner": {"text": ""}}}
    assert validator.is_valid(good)
    assert not validator.is_valid(good | {"colour": "green"})
    assert not validator.is_valid(good | {"model": {"inner": {}}})
    assert not validator.is_valid(good | {"count": 0})


@pytest.mark.parametrize(
    "docstring",
    [
        "Does it.\n\nArgs:\n    a: The first.\n    *b (str): The second,\n        continued.\n\nRaises:\n    x: no",
        "Does it.\n\nParameters\n---\na : int\n    The first.\nb\n    The second,\n    continued.\n\nReturns\n---\n",
        "Does it.\n\n:param a: The first.\n:param str b: The second,\n    continued.\n:returns: a thing",
    ],
)
@pytest.mark.spec("TOOL-05")
def test_three_docstring_forms_are_read(docstring: str) -> None:
    from retinue.tools.docstring import Documentation, document

    expected = Documentation(summary="Does it.", parameters={"a": "The first.", "b": "The second, continued."})
    assert document(docstring) == expected


async def test_an_exception_is_an_error_outcome_and_a_bad_value_says_where(context: ToolContext) -> None:
    @tool(name="boom", description="Fails.")
    async def fails(n: int) -> None:
        await asyncio.sleep(0)
        raise ValueError(f"no {n}")

    assert await fails.run({"n": 3}, context) == Result(status="error", text="ValueError: no 3")
    assert "`$.n`" in (await fails.run({"n": "x"}, context)).text
    assert (fails.spec.name, fails.spec.description) == ("boom", "Fails.")


async def test_a_result_passes_through_and_none_is_empty(context: ToolContext) -> None:
    made = Result(text="x", taints=("private",))

    @tool
    def given() -> Result:
        return made

    @tool
    def nothing(a: int, /) -> None:
        assert a == 1

    assert await given.run({}, context) is made
    assert await nothing.run({"a": 1}, context) == Result()


def test_rules_match_the_named_parameter_or_the_whole_arguments() -> None:
    @tool(resource="city")
    def forecast(city: str) -> str:
        return city

    assert forecast.resource({"city": "Ulm"}) == "Ulm"
    assert weather.resource({"city": "Ulm"}) == '{"city":"Ulm"}'
    with pytest.raises(TypeError, match="no parameter 'town'"):
        tool(resource="town")(forecast)
    with pytest.raises(TypeError, match="name each parameter"):

        @tool
        def loose(*parts: str) -> str:
            return str(parts)
