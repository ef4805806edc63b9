"""How agents look as tools: names, descriptions, schemas."""

import pytest

from retinue.runtime.delegation_specs import described, named_spec, tool_name
from retinue.schema.agent import InputSpec
from support.agents import agent


@pytest.mark.spec("SUB-02")
def test_a_tool_name_fits_providers_and_gets_a_hash_when_cut_or_clashing() -> None:
    assert tool_name("sales/pr-agent", set()) == "agent_sales_pr-agent"
    long = tool_name("x" * 100, set())
    assert len(long) == 64
    assert long != tool_name("x" * 101, set())
    assert tool_name("a/b", {"agent_a_b"}) not in ("agent_a_b", tool_name("a/b", set()))


@pytest.mark.spec("SUB-02")
def test_a_description_carries_examples_and_falls_back_to_s2s_text() -> None:
    assert described(agent("x", description="Digs.", examples=("dig here",))) == "Digs.\nExamples:\n- dig here"
    bare = agent("x", description="", provider="openai", model="o3")
    assert described(bare) == "Named agent: x (Provider: openai, Model: o3)"


@pytest.mark.spec("SUB-02", "DEF-11")
def test_declared_inputs_are_the_schema_of_the_agents_tool() -> None:
    spec = named_spec("agent_x", agent("x", inputs=(InputSpec(name="target", description="Where"),)))
    assert spec.parameters["required"] == ["target"]
