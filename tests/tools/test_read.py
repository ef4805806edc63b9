import base64
import json
import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from retinue.ports.tool import ToolContext
from retinue.schema.agent import ToolOverride
from retinue.tools.read import Read


async def read(context: ToolContext, **arguments: object) -> str:
    return (await Read().run(arguments, context)).text


@pytest.mark.spec("TOOL-01")
async def test_lines_come_with_numbers_and_can_be_paged(workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 8)))

    assert await read(context, path="a.txt", offset=3, limit=2) == (
        "     3\tline 3\n     4\tline 4\n[Lines 3 to 4 of 7; go on with offset=5.]"
    )
    assert await read(context, path="a.txt", offset=7) == "     7\tline 7"
    assert await read(context, path="a.txt", offset=8) == "[Line 8 is past the end (7 lines).]"


@pytest.mark.spec("TOOL-03")
async def test_a_long_file_stops_within_the_bounds_and_says_where_to_go_on(
    workspace: Path, context: ToolContext
) -> None:
    (workspace / "wide.txt").write_text("".join(f"{n} {'x' * 5000}\n" for n in range(100)))
    (workspace / "long.txt").write_text("x\n" * 5000)

    wide, long = await read(context, path="wide.txt"), await read(context, path="long.txt")

    assert len(wide.encode()) <= 50_000
    assert max(map(len, wide.splitlines())) <= 2000
    assert "go on with offset=" in wide
    assert len(long.splitlines()) <= 2000
    small = msgspec.structs.replace(context, override=ToolOverride(max_output_length=500))
    assert len(await read(small, path="long.txt")) <= 500


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("größe\n".encode(), "größe"),
        ("\ufeffgröße\n".encode(), "größe"),
        ("größe\r\n".encode("utf-16"), "größe"),
        ("größe\n".encode("latin-1"), "größe"),
        (b"one\x0ctwo\xe2\x80\xa8three\n", "one\x0ctwo\u2028three"),
    ],
)
async def test_encodings_are_understood(data: bytes, shown: str, workspace: Path, context: ToolContext) -> None:
    (workspace / "a.txt").write_bytes(data)

    text = await read(context, path="a.txt")

    assert text.endswith(f"     1\t{shown}")
    assert ("Latin-1" in text) == (data == "größe\n".encode("latin-1"))


async def test_binary_empty_and_missing_files_and_folders_are_told(workspace: Path, context: ToolContext) -> None:
    (workspace / "empty").touch()
    (workspace / "binary").write_bytes(b"\x00\x01\x02" * 100)
    (workspace / "readme.md").touch()

    assert await read(context, path="empty") == "[The file is empty.]"
    assert await read(context, path="binary") == "binary is a binary file of 300 bytes; it has no lines to show."
    assert await read(context, path="raedme.md") == "raedme.md does not exist. Did you mean readme.md?"
    assert await read(context, path=".") == ". is a folder; use `list` or `glob`."
    assert await read(context, path="empty/x") == "empty/x does not exist."


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


@pytest.mark.spec("TOOL-01")
async def test_an_image_is_attached(workspace: Path, context: ToolContext) -> None:
    (workspace / "dot.png").write_bytes(png())

    result = await Read().run({"path": "dot.png"}, context)

    assert [(m.mime, m.name) for m in result.media] == [("image/png", "dot.png")]
    assert base64.b64decode(result.media[0].data or "") == png()


@pytest.mark.spec("TOOL-01")
async def test_a_notebook_comes_as_its_cells(workspace: Path, context: ToolContext) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "source": "1 / 0",
            "outputs": [
                {"output_type": "stream", "text": ["out\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "execute_result", "data": {"text/plain": ["42"], "text/html": "<b>"}},
                {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"},
            ],
        },
    ]
    (workspace / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))

    assert (await read(context, path="n.ipynb")).splitlines() == [
        *("--- cell 0 (markdown)", "# Title", "text", "--- cell 1 (code)", "1 / 0"),
        *("--- output of cell 1", "out", "", "--- output of cell 1", "[image/png]"),
        *("--- output of cell 1", "42", "--- output of cell 1", "ZeroDivisionError: division by zero"),
    ]
    (workspace / "odd.ipynb").write_text("not a notebook")
    assert "not a notebook" in await read(context, path="odd.ipynb")


async def test_a_huge_file_is_read_by_ranges(workspace: Path, context: ToolContext) -> None:
    with (workspace / "huge.log").open("wb") as file:
        for start in range(0, 400_000, 10_000):
            file.write(b"".join(b"%060d\n" % n for n in range(start, start + 10_000)))

    text = await read(context, path="huge.log", offset=399_990, limit=3)

    assert text.startswith("[24,400,000 bytes]\n399990\t")
    assert text.endswith("[Lines 399990 to 399992; go on with offset=399993.]")
