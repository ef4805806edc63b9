"""What commands see from the current folder."""

from retinue.app.settings import Settings
from retinue.app.settings_file import load_settings
from retinue.cli.output import Progress
from retinue.registry.catalog import Catalog


def settings_here() -> Settings:
    return load_settings()


def catalog_here(settings: Settings) -> Catalog:
    """Read all agents, with a bar when that takes long."""
    from retinue.app.catalog import read_catalog

    with Progress(100, "reading agents") as bar:
        return read_catalog(settings, progress=bar.part)
