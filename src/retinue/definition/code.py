"""Agents defined in Python, with the keys of the frontmatter."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard

import msgspec

from retinue.definition.load import load_fields
from retinue.definition.node import is_collection, is_map
from retinue.schema.agent import AgentDefinition, Category, CompletionMode, ExecutionMode
from retinue.schema.errors import DefinitionError
from retinue.schema.ids import AgentId
from retinue.schema.tool import ToolSpec


class HasSpec(Protocol):
    """A Python tool, whatever made it."""

    @property
    def spec(self) -> ToolSpec: ...


class ModelClass(Protocol):
    """A Pydantic model's class."""

    def model_json_schema(self) -> dict[str, object]: ...


class CodeAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A definition and the Python tools it brings."""

    definition: AgentDefinition
    tools: tuple[HasSpec, ...] = ()


def define_agent(
    *,
    name: str,
    description: str = "",
    prompt: str = "",
    id: str | None = None,
    model: str | Sequence[str] | None = None,
    tools: Sequence[str | HasSpec] | None = None,
    disallowed_tools: Sequence[str] = (),
    inputs: ModelClass | Mapping[str, object] | None = None,
    output: ModelClass | Mapping[str, object] | None = None,
    permissions: Mapping[str, object] | str | None = None,
    allowed_agents: Sequence[str] | None = None,
    category: Category | None = None,
    execution_mode: ExecutionMode | None = None,
    completion: CompletionMode | None = None,
    max_steps: int | None = None,
    timeout: float | str | None = None,
    temperature: float | None = None,
    budget: float | str | Mapping[str, object] | None = None,
    **keys: object,
) -> CodeAgent:
    """An agent from Python. Any other key of the frontmatter is a keyword too; None means not given.

    Raises `DefinitionError` with every problem.
    """
    objects = tuple(tool for tool in tools or () if not isinstance(tool, str))
    given = {
        "name": name,
        "description": description or None,
        "model": model,
        "disallowed_tools": disallowed_tools or None,
        "inputs": _simple(inputs.model_json_schema()) if _is_model(inputs) else inputs,
        "output": {"schema": output.model_json_schema()} if _is_model(output) else output,
        "permissions": permissions,
        "allowed_agents": allowed_agents,
        "category": category,
        "execution_mode": execution_mode,
        "completion": completion,
        "max_steps": max_steps,
        "timeout": timeout,
        "temperature": temperature,
        "budget": budget,
        **keys,
    }
    fields = {key: value for key, value in given.items() if value is not None}
    if tools is not None:
        fields["tools"] = [tool if isinstance(tool, str) else tool.spec.name for tool in tools]
    loaded = load_fields(
        fields,
        file=f"python:{name}",
        id=AgentId(id) if id else None,
        prompt=prompt,
        known_tools={tool.spec.name for tool in objects},
    )
    if loaded.definition is None:
        wrong = "; ".join(p.message for p in loaded.problems if p.severity == "error")
        raise DefinitionError(f"agent '{name}': {wrong}", loaded.problems)
    return CodeAgent(definition=loaded.definition, tools=objects)


def _is_model(value: object) -> TypeGuard[ModelClass]:
    return isinstance(value, type) and callable(getattr(value, "model_json_schema", None))


def _simple(schema: Mapping[str, object]) -> dict[str, object]:
    """A model's schema with references resolved and `X | None` as X, which is all that inputs can say."""
    definitions = schema.get("$defs")

    def plain(value: object) -> object:
        if not is_map(value):
            return value
        ref = value.get("$ref")
        if isinstance(ref, str) and is_map(definitions):
            target = definitions.get(ref.rpartition("/")[2])
            return plain({**(target if is_map(target) else {}), **{k: v for k, v in value.items() if k != "$ref"}})
        options = value.get("anyOf")
        if is_collection(options):
            real = [o for o in options if not (is_map(o) and o.get("type") == "null")]
            if len(real) == 1 and is_map(real[0]):
                return plain({**real[0], **{k: v for k, v in value.items() if k != "anyOf"}})
        return {k: v for k, v in value.items() if k != "title"}

    properties = schema.get("properties")
    flat = {str(k): plain(v) for k, v in properties.items()} if is_map(properties) else {}
    return {"type": "object", "properties": flat, "required": schema.get("required", [])}
