import os
from pathlib import Path

import pytest

from retinue.sandbox.descriptors import beneath, folder_of, locate, readable


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    base = tmp_path.resolve() / "base"
    (base / "deep" / "er").mkdir(parents=True)
    (base / "file").write_text("file")
    (base / "deep" / "er" / "leaf").write_text("leaf")
    (base / "to-file").symlink_to("file")
    (base / "to-deep").symlink_to(base / "deep")
    (base / "chain").symlink_to("to-deep/er/../er")
    (base / "up").symlink_to("..")
    (base / "dangling").symlink_to("nowhere/at/all")
    (base / "loop").symlink_to("loop")
    (tmp_path / "outside").write_text("outside")
    return base


def found(path: str, base: Path, *, kernel: bool) -> tuple[str, tuple[str, ...]] | str:
    try:
        place = locate(path, str(base), kernel=kernel)
    except OSError as error:
        return os.strerror(error.errno or 0)
    os.close(place.fd)
    return place.path, place.missing


@pytest.mark.spec("PERM-03")
@pytest.mark.parametrize(
    "name",
    [
        *(
            "file",
            "deep/er/leaf",
            "to-file",
            "to-deep/er/leaf",
            "chain/leaf",
            "up/outside",
            "../outside",
            "deep/../file",
        ),
        *("", ".", "deep/", "to-deep/..", "up/up/base", "new", "deep/new/er/still", "to-deep/new", "up/new"),
        *("dangling", "dangling/x", "loop", "file/x", "new/../file", "..", "./.././base/./file", "deep//er//leaf"),
    ],
)
def test_walking_by_hand_finds_what_the_kernel_finds(name: str, tree: Path) -> None:
    path = f"{tree}/{name}"

    assert found(path, tree, kernel=True) == found(path, tree, kernel=False)


@pytest.mark.spec("PERM-03")
def test_magic_links_are_not_followed(tree: Path) -> None:
    with (tree / "file").open() as file:
        assert isinstance(found(f"/proc/self/fd/{file.fileno()}", tree, kernel=True), str)
    assert isinstance(found("/proc/self/root/etc", tree, kernel=True), str)


@pytest.mark.parametrize("kernel", [True, False])
def test_the_descriptor_still_holds_the_file_after_its_name_went_to_another(tree: Path, kernel: bool) -> None:
    place = locate(f"{tree}/file", str(tree), kernel=kernel)
    (tree / "other").write_text("other")
    (tree / "other").rename(tree / "file")

    with os.fdopen(readable(place), "rb") as file:
        assert file.read() == b"file"
    with pytest.raises(OSError, match="another file took its place"):
        folder_of(place)
    os.close(place.fd)


@pytest.mark.parametrize("kernel", [True, False])
def test_what_is_beneath_a_held_folder_is_reached_without_links(tree: Path, kernel: bool) -> None:
    root = locate(str(tree), str(tree))
    leaf = beneath(root, "deep/er/leaf", kernel=kernel)

    assert leaf is not None
    assert leaf.path == f"{tree}/deep/er/leaf"
    for name in ("to-file", "to-deep/er/leaf", "../outside", "/etc/passwd", "", "gone"):
        assert beneath(root, name, kernel=kernel) is None
    os.close(leaf.fd)
    os.close(root.fd)
