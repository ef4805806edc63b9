"""Seals secrets before they reach the log: what is stored can't be read without the key file beside it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from retinue.schema.errors import StoreUnavailable

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


class Seal:
    """One key per data folder, made when it is first needed."""

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._fernet: Fernet | None = None

    def seal(self, value: str) -> str:
        return self._cipher().encrypt(value.encode()).decode()

    def unseal(self, token: str) -> str:
        """Raises `StoreUnavailable` when the key is not the one that sealed it."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher().decrypt(token.encode()).decode()
        except InvalidToken as error:
            raise StoreUnavailable(
                f"a secret can't be opened with {self._key_file}",
                hint="restore the key file, or set the variable again",
            ) from error

    def _cipher(self) -> "Fernet":
        if self._fernet is None:
            from cryptography.fernet import Fernet

            self._fernet = Fernet(self._key())
        return self._fernet

    def _key(self) -> bytes:
        from cryptography.fernet import Fernet

        try:
            file = os.open(self._key_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return self._key_file.read_bytes()
        with os.fdopen(file, "wb") as handle:
            key = Fernet.generate_key()
            handle.write(key)
        return key
