import pytest

from retinue.ports.tool import Rejected
from retinue.schema.agent import ToolOverride
from retinue.schema.tool import ToolSpec
from retinue.tools.arguments import check

READ = ToolSpec(
    name="read",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
)
EMPTY = ToolSpec(name="now", description="", parameters={"type": "object"})


def message(found: dict[str, object] | Rejected) -> str:
    assert isinstance(found, Rejected), f"accepted as {found}"
    return found.message


@pytest.mark.spec("TOOL-04")
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('{"path": 3}', "at `path`: 3 is not of type"),
        ("{}", '"path" is a required property'),
        ('{"path": "a", "lines": 3}', "'lines' was unexpected"),
        ('{"path": "a"', "not JSON"),
        ("[1]", "must be a JSON object, not a list"),
        ("3", "not a number"),
        ("true", "not a boolean"),
        ('"hello"', "not a string"),
        ('{"path": null}', '"path" is a required property'),
    ],
)
def test_arguments_that_do_not_fit_come_back_with_what_was_wrong_and_the_schema(text: str, wrong: str) -> None:
    told = message(check(text, READ))

    assert wrong in told
    assert '"required":["path"]' in told
    assert "Nothing was run" in told


@pytest.mark.parametrize("text", ["", "  ", "{}", "null", '"{}"'])
def test_no_arguments_at_all_are_an_empty_object(text: str) -> None:
    assert check(text, EMPTY) == {}


def test_arguments_encoded_twice_are_decoded() -> None:
    assert check('"{\\"path\\": \\"a\\"}"', READ) == {"path": "a"}


def test_a_null_for_what_may_be_left_out_is_left_out_unless_null_is_a_value_there() -> None:
    assert check('{"path": "a", "limit": null, "note": null}', READ) == {"path": "a", "note": None}


@pytest.mark.spec("TOOL-02")
def test_defaults_of_the_override_fill_in_and_the_call_wins() -> None:
    override = ToolOverride(default_arguments={"path": "README.md", "limit": 5})

    assert check("{}", READ, override) == {"path": "README.md", "limit": 5}
    assert check('{"limit": 9}', READ, override) == {"path": "README.md", "limit": 9}


def test_a_schema_that_refers_elsewhere_is_refused_and_nothing_is_fetched() -> None:
    spec = ToolSpec(name="odd", description="", parameters={"$ref": "http://127.0.0.1:9/schema.json"})

    assert "not valid JSON Schema" in message(check("{}", spec))


def test_a_long_list_of_problems_is_cut() -> None:
    spec = ToolSpec(name="t", description="", parameters={"additionalProperties": {"type": "string"}})
    text = "{" + ",".join(f'"k{i}": {i}' for i in range(50)) + "}"

    assert message(check(text, spec)).count("\n- ") == 8
