"""From a request to an endpoint's arguments, by the endpoint's own signature.

FastAPI reads the same signatures for the OpenAPI document. Requests do not go through it: its
layers cost more than the work of most operations.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from fastapi.params import Header
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from starlette.requests import Request

from retinue.web.problem import Fault, Refused

DEEPEST = 100
"""Levels of JSON: what is kept is read again inside other values, and must not be the one too many there."""
_INSIDE: dict[type, Callable[[Any], Iterable[Any]]] = {dict: lambda held: held.values(), list: iter}
Where = Literal["given", "path", "query", "header", "body"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    name: str
    where: Where
    kind: type
    adapter: TypeAdapter[Any]
    default: Any
    """`inspect.Parameter.empty` when the caller must say it."""


class Binding:
    """What one endpoint wants of a request.

    Args:
        endpoint: Its parameters are named as in the path, the query, the headers and the body.
        path: Names the parameters of the path.
    """

    def __init__(self, endpoint: Callable[..., object], path: str) -> None:
        hints = get_type_hints(endpoint, include_extras=True)
        signature = inspect.signature(endpoint).parameters
        self._parameters = [_parameter(p, hints[p.name], path) for p in signature.values()]
        self._has_body = any(p.where == "body" for p in self._parameters)

    async def arguments(self, request: Request, path: Mapping[str, str], given: Mapping[type, Any]) -> dict[str, Any]:
        """The values, checked.

        Args:
            path: What the path's parameters are.
            given: Values for parameters of these types.

        Raises:
            Refused: 400 when the body is no JSON, 422 with all that is wrong otherwise.
        """
        body = await _body(request) if self._has_body else inspect.Parameter.empty
        values: dict[str, Any] = {}
        faults: list[Fault] = []
        for parameter in self._parameters:
            if parameter.where == "given":
                values[parameter.name] = given[parameter.kind]
                continue
            raw = body if parameter.where == "body" else _raw(parameter, request, path)
            if raw is inspect.Parameter.empty and parameter.default is not inspect.Parameter.empty:
                values[parameter.name] = parameter.default
                continue
            try:
                values[parameter.name] = _checked(parameter, raw)
            except ValidationError as error:
                faults += _faults(parameter, error)
        if faults:
            text = "; ".join(f"{_bare(fault.where)}: {fault.message}" for fault in faults[:3])
            raise Refused(422, "invalid", text, faults=tuple(faults))
        return values


def _parameter(parameter: inspect.Parameter, hint: Any, path: str) -> _Parameter:
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    where: Where = "query"
    if f"{{{parameter.name}}}" in path or f"{{{parameter.name}:" in path:
        where = "path"
    elif any(isinstance(mark, Header) for mark in marks):
        where = "header"
    elif kind is Request or any(not isinstance(mark, FieldInfo) and hasattr(mark, "dependency") for mark in marks):
        where = "given"
    elif get_origin(kind) is dict or any(_is_model(k) for k in (kind, *get_args(kind))):
        where = "body"
    adapter: TypeAdapter[Any] = TypeAdapter(object if where == "given" else hint)
    return _Parameter(name=parameter.name, where=where, kind=kind, adapter=adapter, default=parameter.default)


def _is_model(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _raw(parameter: _Parameter, request: Request, path: Mapping[str, str]) -> Any:
    """The text, or several; `empty` when the request does not say it."""
    match parameter.where:
        case "path":
            return path[parameter.name]
        case "header":
            return request.headers.get(parameter.name.replace("_", "-"), inspect.Parameter.empty)
        case _ if get_origin(parameter.kind) is list:
            return request.query_params.getlist(parameter.name) or inspect.Parameter.empty
        case _:
            return request.query_params.get(parameter.name, inspect.Parameter.empty)


async def _body(request: Request) -> Any:
    """Read as the log reads: no NaN, no lone surrogates, nothing that could not be written again."""
    data = await request.body()
    if not data:
        return inspect.Parameter.empty
    media, _, _ = request.headers.get("content-type", "").partition(";")
    if media.strip().lower() != "application/json" and not media.strip().lower().endswith("+json"):
        fault = Fault(where="body", message="send JSON, with Content-Type: application/json")
        raise Refused(422, "invalid", f"body: {fault.message}", faults=(fault,))
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as e:
        raise Refused(400, "bad_request", f"the body is not JSON: {e}") from e
    except RecursionError:
        raise _too_deep() from None
    if data.count(b"[") + data.count(b"{") > DEEPEST:
        _measure(value, DEEPEST)
    return value


def _measure(value: Any, left: int) -> None:
    if not left:
        raise _too_deep()
    for item in _INSIDE[type(value)](value) if type(value) in _INSIDE else ():
        _measure(item, left - 1)


def _too_deep() -> Refused:
    return Refused(400, "bad_request", f"the body is nested more than {DEEPEST} levels deep")


def _checked(parameter: _Parameter, raw: Any) -> Any:
    if raw is inspect.Parameter.empty:
        raise ValidationError.from_exception_data(parameter.name, [{"type": "missing", "loc": (), "input": None}])
    return parameter.adapter.validate_python(raw)


def _faults(parameter: _Parameter, error: ValidationError) -> list[Fault]:
    """Where and what, without repeating what was sent: it may hold secrets."""
    first = "body" if parameter.where == "body" else f"{parameter.where}.{parameter.name}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [Fault(where=".".join([first, *map(str, e["loc"])]), message=e["msg"]) for e in found]


def _bare(where: str) -> str:
    return where.split(".", 1)[1] if "." in where else where
