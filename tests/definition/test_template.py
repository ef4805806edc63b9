import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.definition.template import Listed, agent_list, placeholders, render


@pytest.mark.spec("DEF-10")
def test_both_forms_are_filled_and_only_inputs_use_the_dollar() -> None:
    text = "{{agent_name}} looks at ${path} and {{path}}, {{ path }}"

    assert render(text, {"agent_name": "a"}, {"path": "src"}) == "a looks at src and src, src"
    assert render("${agent_name}", {"agent_name": "a"}, {}) == "${agent_name}"


@pytest.mark.spec("DEF-10")
def test_what_nobody_declared_stays_as_it_is() -> None:
    text = "{{unknown}} ${unknown} {{.Go}} ${{ github.token }} {{#each x}} $HOME"

    assert render(text, {"a": "b"}, {"c": "d"}) == text


@pytest.mark.spec("DEF-10")
def test_a_value_is_never_a_template() -> None:
    values = {"prompt": "{{secret}} ${secret}", "secret": "s"}

    assert render("{{prompt}}", values, {"secret": "s"}) == "{{secret}} ${secret}"


@pytest.mark.spec("DEF-10")
def test_the_prompt_is_the_runs_message_whatever_an_input_is_called() -> None:
    assert render("{{prompt}}", {"prompt": "real"}, {"prompt": "fake"}) == "real"


@given(st.text(), st.text())
def test_one_pass_puts_any_value_in_literally(before: str, value: str) -> None:
    safe = before.replace("{", "").replace("$", "")

    assert render(f"{safe}{{{{x}}}}", {"x": value}, {}) == safe + value


def test_placeholders_are_found_with_their_places() -> None:
    assert list(placeholders("a {{b}} ${c} {{ {{d }}")) == [("b", 2), ("d", 16)]


@pytest.mark.spec("DEF-10")
def test_agents_are_listed_as_in_s0() -> None:
    agents = [
        Listed(name="billing", description="Knows bills", examples=("Refund it", "Explain it")),
        Listed(name="legal", description="Knows law", external=True),
        Listed(name="plain"),
    ]

    assert agent_list(agents) == (
        "- **billing**: Knows bills\n  Examples: Refund it, Explain it\n- **legal (external)**: Knows law\n- **plain**"
    )
