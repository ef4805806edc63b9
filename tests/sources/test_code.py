import pytest

from retinue.schema.agent import AgentDefinition
from retinue.schema.ids import AgentId
from retinue.sources.code import CodeSource


@pytest.mark.spec("DEF-12")
async def test_definitions_of_python_code_are_entries() -> None:
    definition = AgentDefinition(id=AgentId("mine"), name="mine", prompt="p", hash="h")

    snapshot = await CodeSource([definition]).load(None)

    [(id, entry)] = snapshot.entries.items()
    assert (snapshot.kind, id, entry.definition, entry.location) == ("code", "mine", definition, "code:mine")
