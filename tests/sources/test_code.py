import pytest

from retinue.definition.code import define_agent
from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.sources.code import CodeSource


@pytest.mark.spec("DEF-12")
async def test_definitions_of_python_code_are_entries() -> None:
    definition = AgentDefinition(id=AgentId("mine"), name="mine", prompt="p", hash="h")

    snapshot = await CodeSource([definition]).load(None)
    made = await CodeSource([define_agent(name="Made Here", description="d", prompt="p")]).load(None)

    assert list(made.entries) == ["made-here"]
    [(id, entry)] = snapshot.entries.items()
    assert (snapshot.kind, id, entry.definition, entry.location) == ("code", "mine", definition, "python:mine")
