"""Delegation tools."""

from typing import TYPE_CHECKING

from retinue.runtime.system_tools import SystemTool
from retinue.schema.agent import AgentDefinition

if TYPE_CHECKING:
    from retinue.runtime.work import Work

PREFIX = "agent_"
NAMES = frozenset({"call_agent", "task", "delegate_to_agent", "subagent_create", "subagent_message"})


def tools(work: "Work", definition: AgentDefinition) -> dict[str, SystemTool]:
    return {}


def listed(work: "Work", definition: AgentDefinition) -> tuple[AgentDefinition, ...]:
    return ()
