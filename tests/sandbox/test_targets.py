import os
from pathlib import Path

import pytest

from retinue.sandbox.targets import resolve


@pytest.mark.spec("PERM-03")
def test_a_path_becomes_what_it_leads_to(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    (base / "file").write_text("x")
    (base / "link").symlink_to("file")
    (base / "twin").hardlink_to(base / "file")
    (base / "gone").symlink_to("nowhere")
    os.mkfifo(base / "pipe")
    work = str(base)

    def found(name: str) -> tuple[str, str, tuple[str, ...]]:
        target = resolve("read", f"{work}/{name}", work)
        return target.path, target.kind, target.names

    assert found("link") == (f"{work}/file", "file", (f"{work}/twin",))
    assert found("new/x") == (f"{work}/new/x", "absent", ())
    assert found("gone") == (f"{work}/gone", "absent", ())
    assert found("pipe") == (f"{work}/pipe", "other", ())
    assert found(".") == (work, "folder", ())


def test_names_outside_the_workspace_are_known_to_exist(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/file").write_text("x")
    (tmp_path / "elsewhere").hardlink_to(tmp_path / "work/file")

    assert resolve("read", f"{tmp_path}/work/file", f"{tmp_path}/work").more_names
