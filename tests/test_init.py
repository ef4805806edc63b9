import subprocess
import sys

import retinue


def test_the_public_names_are_these() -> None:
    assert retinue.__all__ == [
        "AgentDefinition",
        "Catalog",
        "DefinitionError",
        "Retinue",
        "RetinueError",
        "RetinueSync",
        "define_agent",
        "load_agent",
        "load_catalog",
        "tool",
    ]
    assert dir(retinue) == retinue.__all__
    assert all(getattr(retinue, name).__name__ == name for name in retinue.__all__)


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = "import sys, retinue; print(*[m for m in sys.modules if m.startswith('retinue')])"

    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        == "retinue\n"
    )
