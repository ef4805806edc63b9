"""Python functions as tools: the schema comes from the types and the docstring.

    @tool(effect="read")
    def weather(city: str, days: int = 1) -> str:
        '''Tells the weather.

        Args:
            city: Where.
            days: How far ahead.
        '''

A parameter of type `ToolContext` is given by the runtime and left out of the
schema. Finding such functions in files and packages is in `retinue.tools.discovery`.
"""

import asyncio
import functools
import inspect
import logging
import typing
from collections.abc import Callable, Mapping
from typing import Generic, ParamSpec, TypeVar, overload

import msgspec

from retinue.ports.tool import Result, ToolContext
from retinue.schema.tool import Effect, ToolSpec
from retinue.tools.docstring import Documentation, document

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger(__name__)
_REFS = "#/$defs/{name}"


class FunctionTool(Generic[P, R]):
    """A function that is a tool; calling it still calls the function."""

    def __init__(self, function: Callable[P, R], spec: ToolSpec, arguments: type[msgspec.Struct], about: str) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        self._spec = spec
        self._arguments = arguments
        self._about = about
        self._async = inspect.iscoroutinefunction(function)
        self._contexts = _context_parameters(function)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def resource(self, arguments: Mapping[str, object]) -> str:
        """The parameter that was named `resource`, else the arguments as JSON."""
        if self._about:
            return str(arguments.get(self._about, ""))
        return msgspec.json.encode(arguments).decode() if arguments else ""

    async def run(self, arguments: Mapping[str, object], context: ToolContext) -> Result:
        try:
            values = msgspec.convert(arguments, self._arguments, dec_hook=_from_pydantic)
        except msgspec.ValidationError as error:
            return Result(status="error", text=f"The arguments of `{self.spec.name}` do not fit: {error}")
        given = {name: getattr(values, name) for name in arguments}
        given |= dict.fromkeys(self._contexts, context)
        try:
            return _result(await self._called(given))
        except Exception as error:
            _log.exception("tool %s failed", self.spec.name)
            return Result(status="error", text=f"{type(error).__name__}: {error}")

    async def _called(self, given: dict[str, object]) -> object:
        bound = self._signature.bind_partial()
        bound.arguments |= {name: given[name] for name in self._signature.parameters if name in given}
        call = functools.partial(_untyped(self._function), *bound.args, **bound.kwargs)
        value = call() if self._async else await asyncio.to_thread(call)
        return await value if inspect.isawaitable(value) else value


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, effect: Effect = "write", resource: str = ""
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "write",
    resource: str = "",
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool.

    Args:
        function: The function, when the decorator is used bare.
        name: Its name for the model; the function's own by default.
        description: What it does; the docstring by default.
        effect: `read`, `idempotent` or `write`; recovery repeats only the first two.
        resource: The parameter that permission rules match on.
    """

    def made(function: Callable[P, R]) -> FunctionTool[P, R]:
        documentation = document(inspect.getdoc(function) or "")
        arguments = _arguments_of(function)
        if resource and resource not in arguments.__struct_fields__:
            raise TypeError(f"{function.__qualname__} has no parameter {resource!r} to be its resource")
        spec = ToolSpec(
            name=name or function.__name__,
            description=description or documentation.summary,
            parameters=_schema(arguments, documentation, inspect.signature(function)),
            effect=effect,
        )
        return FunctionTool(function, spec, arguments, resource)

    return made if function is None else made(function)


def _untyped(function: Callable[..., R]) -> Callable[..., R]:
    """The same function for a call whose arguments were checked against its own signature at run time."""
    return function


def _hints(function: Callable[..., object]) -> dict[str, object]:
    return typing.get_type_hints(function, include_extras=True)


def _context_parameters(function: Callable[..., object]) -> list[str]:
    return [name for name, hint in _hints(function).items() if hint is ToolContext and name != "return"]


def _arguments_of(function: Callable[..., object]) -> type[msgspec.Struct]:
    """A struct of the function's parameters; one with a default may be left out."""
    hints, given = _hints(function), _context_parameters(function)
    fields: list[tuple[str, type] | tuple[str, type, object]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in given:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"{function.__qualname__}: a tool can't take *{name}; name each parameter")
        hint: typing.Any = hints.get(name, typing.Any)  # msgspec takes any annotation here, not only classes
        required = parameter.default is parameter.empty
        fields.append((name, hint) if required else (name, hint, msgspec.UNSET))
    return msgspec.defstruct("arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _schema(
    arguments: type[msgspec.Struct], documentation: Documentation, signature: inspect.Signature
) -> dict[str, object]:
    _, components = msgspec.json.schema_components([arguments], schema_hook=_pydantic_schema, ref_template=_REFS)
    defs = dict(components)
    schema = defs.pop("arguments")
    schema.pop("title", None)
    for name, wanted in schema["properties"].items():
        if name in documentation.parameters:
            wanted.setdefault("description", documentation.parameters[name])
        default = signature.parameters[name].default
        if isinstance(default, str | int | float | bool):
            wanted.setdefault("default", msgspec.to_builtins(default))
        for key, definition in wanted.pop("$defs", {}).items():
            defs.setdefault(key, definition)
    return schema | ({"$defs": defs} if defs else {})


def _pydantic_schema(kind: type) -> dict[str, object]:
    build = getattr(kind, "model_json_schema", None)
    if build is None:
        raise NotImplementedError(kind)
    schema: dict[str, object] = build(ref_template="#/$defs/{model}")
    return schema


def _from_pydantic(kind: type, value: object) -> object:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        raise NotImplementedError(kind)
    return validate(value)


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json")


def _result(value: object) -> Result:
    match value:
        case Result():
            return value
        case None:
            return Result()
        case str():
            return Result(text=value)
        case _:
            return Result(text=msgspec.json.encode(value, enc_hook=_plain).decode())
