"""A server's request for input as questions to a person: one for each field, because every surface can ask one."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from retinue.ports.tool import Inquiry

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

Ask = Callable[[Inquiry], Awaitable[object]]
Value = str | int | float | bool | list[str] | None
DECLINE, SKIP = "decline", "skip"
_TRIES = 3


class _Option(msgspec.Struct, frozen=True):
    const: str


class _Field(msgspec.Struct, frozen=True):
    """The part of JSON Schema that a form may use."""

    type: str = "string"
    title: str = ""
    description: str = ""
    enum: tuple[str, ...] = ()
    oneOf: tuple[_Option, ...] = ()
    default: Value = None

    @property
    def choices(self) -> tuple[str, ...]:
        return self.enum or tuple(option.const for option in self.oneOf)


class _Form(msgspec.Struct, frozen=True):
    properties: Mapping[str, _Field] = {}
    required: tuple[str, ...] = ()


class _Ended(Exception):
    """The person said no, or nobody answered."""


async def elicited(server: str, params: "ElicitRequestParams", ask: Ask) -> "ElicitResult":
    from mcp.types import ElicitResult

    said = f"The MCP server {server} asks: {params.message}"
    if params.mode == "url":
        agreed = await ask(Inquiry(kind="approval", prompt=f"{said}\nOpen {params.url} yourself. Is it done?"))
        return ElicitResult(action="cancel" if agreed is None else "accept" if agreed is True else "decline")
    form = msgspec.convert(params.requested_schema, _Form)
    try:
        if not form.properties and await _answer(ask, Inquiry(kind="approval", prompt=said)) is not True:
            return ElicitResult(action="decline")
        content: dict[str, Value] = {}
        for name, field in form.properties.items():
            value = await _value(ask, said, name, field, optional=name not in form.required)
            if value is not None:
                content[name] = value
    except _Ended as ended:
        return ElicitResult(action="decline" if ended.args else "cancel")
    return ElicitResult(action="accept", content=content)


async def _value(ask: Ask, said: str, name: str, field: _Field, *, optional: bool) -> Value:
    prompt = f"{said}\n{field.title or name}{f': {field.description}' if field.description else ''}"
    if field.type == "boolean":
        return await _answer(ask, Inquiry(kind="approval", prompt=prompt)) is True
    ways = f"`{DECLINE}` refuses" + (f", `{SKIP}` leaves it out" if optional else "")
    inquiry = Inquiry(kind="text", prompt=f"{prompt}\n({ways})")
    if field.choices and field.type != "array":
        more = (SKIP, DECLINE) if optional else (DECLINE,)
        inquiry = Inquiry(kind="choice", prompt=prompt, choices=(*field.choices, *more))
    for _ in range(_TRIES):
        answer = str(await _answer(ask, inquiry)).strip()
        if answer == DECLINE and DECLINE not in field.choices:
            raise _Ended(DECLINE)
        if optional and answer in (SKIP, "") and answer not in field.choices:
            return field.default
        try:
            return _parsed(answer, field)
        except ValueError as error:
            inquiry = msgspec.structs.replace(inquiry, prompt=f"{prompt}\n({error}; {ways})")
    raise _Ended


async def _answer(ask: Ask, inquiry: Inquiry) -> object:
    answer = await ask(inquiry)
    if answer is None:
        raise _Ended
    return answer


def _parsed(answer: str, field: _Field) -> Value:
    match field.type:
        case "integer" | "number":
            try:
                return int(answer) if field.type == "integer" else float(answer)
            except ValueError:
                raise ValueError(f"{answer!r} is not a number") from None
        case "array":
            return [part.strip() for part in answer.split(",") if part.strip()]
        case _:
            return answer
