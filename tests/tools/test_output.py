from pathlib import Path

import pytest

from retinue.ports.tool import Result, ToolContext
from retinue.schema.agent import ToolOverride
from retinue.tools.output import bound


def test_what_fits_is_left_alone(context: ToolContext) -> None:
    result = Result(text="a\nb\n", metadata={"x": 1})

    assert bound(result, context) is result


@pytest.mark.spec("TOOL-03")
def test_too_many_lines_are_cut_in_the_middle_and_the_whole_is_saved(context: ToolContext) -> None:
    text = "\n".join(f"line {i}" for i in range(5000))

    result = bound(Result(text=text), context)

    lines = result.text.splitlines()
    saved = str(result.metadata["saved"])
    assert len(lines) <= 2001
    assert lines[0] == "line 0"
    assert lines[-1] == "line 4999"
    assert saved in result.text
    assert Path(saved).is_relative_to(context.files)
    assert Path(saved).read_text() == text


@pytest.mark.spec("TOOL-03")
@pytest.mark.parametrize("text", ["x" * 200_000, "é" * 40_000, "\n".join(["wide " * 100] * 300)])
def test_the_text_stays_within_the_bytes_and_a_line_within_its_length(text: str, context: ToolContext) -> None:
    result = bound(Result(text=text), context)

    assert len(result.text.encode()) < 52_000
    assert max(map(len, result.text.splitlines())) < 2_100
    assert Path(str(result.metadata["saved"])).read_text() == text


@pytest.mark.spec("TOOL-02", "TOOL-03")
def test_an_override_sets_the_length(context: ToolContext) -> None:
    import msgspec

    small = msgspec.structs.replace(context, override=ToolOverride(max_output_length=100))

    assert len(bound(Result(text="word " * 200), small).text) < 400


def test_a_single_huge_line_keeps_its_beginning(context: ToolContext) -> None:
    import msgspec

    small = msgspec.structs.replace(context, override=ToolOverride(max_output_length=100))

    assert bound(Result(text="0123456789" * 1000), small).text.startswith("0123456789")
