import stat
from pathlib import Path

from retinue.app.files import write_whole


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_whole(path, "one")
    path.chmod(0o640)

    write_whole(path, "two")

    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_private_file_is_the_owners_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "file", "secret", private=True)

    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
