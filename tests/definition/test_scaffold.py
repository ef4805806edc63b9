import pytest

from retinue.definition.load import load_text
from retinue.definition.render import to_canonical
from retinue.definition.scaffold import scaffold


@pytest.mark.spec("DEF-14")
@pytest.mark.parametrize("description", ["", "Answers: questions about 'it'"])
def test_a_new_agent_loads_without_a_word_and_is_canonical(description: str) -> None:
    text = scaffold("sales/assistant", description=description, model="sonnet")
    loaded = load_text(text, file="assistant.md")

    assert loaded.problems == ()
    assert loaded.definition is not None
    assert (loaded.definition.name, loaded.definition.model) == ("assistant", "sonnet")
    assert loaded.definition.description == (description or loaded.definition.description)
    assert to_canonical(text.encode(), file="assistant.md")[0] == text.encode()
