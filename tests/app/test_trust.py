import stat
from pathlib import Path

import pytest

from retinue.app.trust import distrust, read_trust, trust
from retinue.schema.errors import SettingsError


@pytest.mark.spec("REG-02")
def test_trust_is_kept_per_folder_and_agent_in_the_users_folder_and_can_be_taken_back(tmp_path: Path) -> None:
    home, one, two = tmp_path / "home", tmp_path / "one", tmp_path / "two"

    trust(home, one, {"a": "1", "b": "2"})
    trust(home, two, {"a": "3"})
    trust(home, one, {"a": "4"})
    distrust(home, one, ["b"])
    distrust(home, two, ["a"])

    assert read_trust(home) == {str(one): {"a": "4"}}
    assert stat.S_IMODE((home / "trust.json").stat().st_mode) == 0o600


def test_without_a_file_nothing_is_trusted(tmp_path: Path) -> None:
    assert read_trust(tmp_path) == {}


def test_a_damaged_trust_file_is_an_error_and_not_trust(tmp_path: Path) -> None:
    (tmp_path / "trust.json").write_text('{"/x": 3}')

    with pytest.raises(SettingsError, match=r"trust\.json"):
        read_trust(tmp_path)
