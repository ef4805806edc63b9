"""Forms of servers as questions, field by field."""

from collections.abc import Iterable

import pytest
from mcp.types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from retinue.ports.tool import Inquiry
from retinue.remotes.mcp.elicit import elicited

FORM: dict[str, object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer"},
        "plan": {"type": "string", "enum": ["free", "paid"]},
        "agree": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "age", "plan", "agree"],
}


async def answered(answers: Iterable[object], schema: dict[str, object] = FORM) -> tuple[ElicitResult, list[Inquiry]]:
    given, asked = iter(answers), list[Inquiry]()

    async def ask(inquiry: Inquiry) -> object:
        asked.append(inquiry)
        return next(given)

    params = ElicitRequestFormParams(message="Sign up", requested_schema=schema)
    return await elicited("shop", params, ask), asked


@pytest.mark.spec("TOOL-06")
async def test_every_field_is_a_question_of_its_kind() -> None:
    result, asked = await answered(["Ada", "36", "paid", True, "a, b"])

    assert result.action == "accept"
    assert result.content == {"name": "Ada", "age": 36, "plan": "paid", "agree": True, "tags": ["a", "b"]}
    assert [inquiry.kind for inquiry in asked] == ["text", "text", "choice", "approval", "text"]
    assert asked[0].prompt.startswith("The MCP server shop asks: Sign up\nYour name")
    assert asked[2].choices == ("free", "paid", "decline")


async def test_what_is_no_number_is_asked_again_and_what_is_optional_may_be_left_out() -> None:
    result, asked = await answered(["Ada", "old", "36", "free", False, "skip"])

    assert result.content == {"name": "Ada", "age": 36, "plan": "free", "agree": False}
    assert "'old' is not a number" in asked[2].prompt


@pytest.mark.parametrize(("answers", "action"), [(["decline"], "decline"), ([None], "cancel")])
async def test_a_person_may_decline_and_silence_cancels(answers: list[object], action: str) -> None:
    result, _ = await answered(answers)

    assert (result.action, result.content) == (action, None)


async def test_a_form_without_fields_is_a_yes_or_no() -> None:
    assert (await answered([True], {"type": "object", "properties": {}}))[0].action == "accept"
    assert (await answered([False], {"type": "object", "properties": {}}))[0].action == "decline"


async def test_an_address_is_shown_and_never_opened() -> None:
    asked: list[Inquiry] = []

    async def ask(inquiry: Inquiry) -> object:
        asked.append(inquiry)
        return True

    params = ElicitRequestURLParams(message="Sign in", url="https://example.com/x", elicitation_id="1")
    result = await elicited("shop", params, ask)

    assert result.action == "accept"
    assert asked[0].kind == "approval"
    assert "https://example.com/x" in asked[0].prompt
