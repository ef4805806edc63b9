import msgspec
import pytest

from support.scripted import Setup


@pytest.mark.spec("API-02")
def test_the_demo_interrupts_a_team_and_lets_it_finish(scripted: Setup) -> None:
    ran = scripted.retinue("demo", "--json", code=0)

    tree = msgspec.json.decode(ran.stdout, type=dict[str, object])
    assert (tree["agent"], tree["status"]) == ("sales/assistant", "completed")
    assert "interrupted. To go on: retinue threads resume" in ran.stderr
    assert "Acme: qualified" in ran.stderr
    assert scripted.threads() == []
