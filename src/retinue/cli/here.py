"""What commands see from the current folder."""

import os

from retinue.app.settings import Settings
from retinue.app.settings_file import home_folder, load_settings
from retinue.app.trust import read_trust
from retinue.registry.catalog import Catalog


def settings_here() -> Settings:
    return load_settings(trusted=read_trust(home_folder(os.environ)))


def catalog_here(settings: Settings) -> Catalog:
    from retinue.app.catalog import read_catalog

    return read_catalog(settings)
