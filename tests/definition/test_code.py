from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from retinue.definition.code import define_agent
from retinue.schema.agent import InputSpec, OutputSpec, ToolFilter
from retinue.schema.errors import DefinitionError
from retinue.schema.tool import ToolSpec


class Lookup:
    spec = ToolSpec(name="crm_lookup", description="Looks it up", parameters={"type": "object"})


class Depth(Enum):
    LOW = "low"
    HIGH = "high"


class Target(BaseModel):
    path: str = Field(description="Where to look")
    depth: Depth = Depth.LOW
    kind: Literal["a", "b"] = "a"
    count: int | None = None
    tags: list[str] = []


class Report(BaseModel):
    summary: str
    score: float


@pytest.mark.spec("DEF-12")
def test_an_agent_is_defined_with_the_keys_of_the_frontmatter() -> None:
    agent = define_agent(
        name="Sales Helper",
        description="Helps",
        prompt="You help.",
        tools=["read", Lookup()],
        max_steps=5,
        timeout="5m",
        budget="$1",
        maxInstances=2,
        allowed_agents=["billing"],
    )
    definition = agent.definition

    assert (definition.id, definition.name, definition.prompt) == ("sales-helper", "Sales Helper", "You help.")
    assert definition.tools == ToolFilter(only=(("read", "crm_lookup"),))
    assert (definition.max_steps, definition.timeout, definition.budget.cost) == (5, 300.0, 1_000_000_000)
    assert (definition.max_instances, definition.can_spawn_subagents) == (2, True)
    assert [tool.spec.name for tool in agent.tools] == ["crm_lookup"]


@pytest.mark.spec("DEF-12")
def test_pydantic_models_declare_inputs_and_output() -> None:
    definition = define_agent(name="a", description="d", prompt="p", inputs=Target, output=Report).definition

    assert definition.inputs == (
        InputSpec(name="path", description="Where to look"),
        InputSpec(name="depth", enum=("low", "high"), default="low", required=False),
        InputSpec(name="kind", enum=("a", "b"), default="a", required=False),
        InputSpec(name="count", type="integer", required=False),
        InputSpec(name="tags", type="array", items="string", default=[], required=False),
    )
    assert definition.output == OutputSpec(schema=Report.model_json_schema())


@pytest.mark.spec("DEF-12")
def test_every_problem_is_in_the_error() -> None:
    with pytest.raises(DefinitionError) as wrong:
        define_agent(name="a", description="d", temperature=9, tools=["read"], sandbox="loose")

    assert [p.code for p in wrong.value.problems] == ["bad-value", "bad-value", "missing-prompt"]
    assert "temperature" in str(wrong.value) and "sandbox" in str(wrong.value)


@pytest.mark.spec("DEF-12")
def test_no_list_is_all_tools_and_an_empty_one_is_none() -> None:
    assert define_agent(name="a", description="d", prompt="p").definition.tools == ToolFilter()
    assert define_agent(name="a", description="d", prompt="p", tools=[]).definition.tools == ToolFilter(only=((),))
