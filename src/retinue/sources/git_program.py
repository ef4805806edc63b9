"""Runs the git program so that nothing outside our own words can steer it.

The environment is built from nothing: no configuration of the user or the
system, no hooks, no helpers, no prompts, no redirects, and only the transports
that were checked. A token travels in the environment of the one process that
needs it, never in arguments or files, and is taken out of whatever git prints.
Which commands to run is for `retinue.sources.mirror`.
"""

import asyncio
import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from retinue.schema.errors import GitError
from retinue.sources.repository import Remote, RepositoryConfig, secret

Progress = Callable[[str, float], None]
"""Told what is being done and the part of it that is done, 0 to 1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    blob: int = 1 << 20
    """Bytes of one file."""
    pack: int = 1 << 30
    """Bytes that one fetch may write."""
    output: int = 64 << 20
    """Bytes that git may print: a few objects can make a tree of any number of names."""
    timeout: float = 300.0
    """Seconds for one command."""


class Git:
    """The git program over one bare repository."""

    def __init__(self, repository: Path, env: Mapping[str, str], limits: Limits, secrets: Iterable[str] = ()) -> None:
        self._command = ("git", f"--git-dir={repository}")
        self._env = env
        self._limits = limits
        self._secrets = tuple(secrets)

    async def run(self, *args: str, progress: Progress | None = None) -> bytes:
        """What git prints.

        Raises:
            GitError: It failed, took too long or printed too much; its whole process group is gone.
        """
        process = await self._start(args)
        _limit_files(process.pid, self._limits.pack)
        try:
            async with asyncio.timeout(self._limits.timeout):
                out, err = await asyncio.gather(
                    self._read(process, process.stdout),
                    self._read(process, process.stderr, progress and _reporter(progress)),
                )
                code = await process.wait()
        except BaseException as error:
            _kill(process)
            await process.communicate()
            if isinstance(error, TimeoutError):
                raise GitError(f"git {args[0]} took longer than {self._limits.timeout:g} s and was stopped") from None
            raise
        if out is None or err is None:
            raise GitError(f"git {args[0]} printed more than {self._limits.output} bytes and was stopped")
        if code:
            raise self._failure(args[0], code, err)
        return out

    def blobs(self, shas: Iterable[str]) -> Iterator[bytes]:
        """The contents of blobs in order, through one process. Blocks: call it from a thread."""
        pending = list(shas)
        # names from a file: neither side ever waits for the other, and git need not write blob by blob
        with tempfile.TemporaryFile() as names:
            names.write("".join(f"{sha}\n" for sha in pending).encode())
            names.seek(0)
            with subprocess.Popen(
                (*self._command, "cat-file", "--batch", "--buffer"),
                env=self._env,
                stdin=names,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=1 << 18,
            ) as process:
                assert process.stdout is not None
                try:
                    for sha in pending:
                        yield self._blob(process.stdout.readline(), sha, process.stdout.read)
                finally:
                    process.kill()

    def _blob(self, header: bytes, sha: str, read: Callable[[int], bytes]) -> bytes:
        fields = header.split()
        if len(fields) != 3 or fields[1] != b"blob" or int(fields[2]) > self._limits.blob:
            raise GitError(f"the mirror has lost the object {sha}; it is made anew by the next sync")
        content = read(int(fields[2]) + 1)
        if len(content) != int(fields[2]) + 1:
            raise GitError(f"the mirror has lost the end of the object {sha}; it is made anew by the next sync")
        return content[:-1]

    async def _start(self, args: tuple[str, ...]) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                *args,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise GitError("the git program is not installed", hint="install git 2.31 or later") from None

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        stream: asyncio.StreamReader | None,
        heard: Callable[[bytes], None] | None = None,
    ) -> bytes | None:
        """All of a stream; None when it is too much. It is read to its end either way: else the pipe stays open."""
        assert stream is not None
        chunks: list[bytes] = []
        size = 0
        while chunk := await stream.read(1 << 18):
            size += len(chunk)
            if size > self._limits.output:
                _kill(process)
                continue
            chunks.append(chunk)
            if heard:
                heard(chunk)
        return b"".join(chunks) if size <= self._limits.output else None

    def _failure(self, command: str, code: int, stderr: bytes) -> GitError:
        text = stderr.decode("utf-8", "replace")
        for secret_text in self._secrets:
            text = text.replace(secret_text, "***")
        for pattern, message, hint in _EXPLAINED:
            if re.search(pattern, text):
                return GitError(message, hint=hint)
        said = [line for line in re.split(r"[\r\n]+", text) if line.startswith(("fatal:", "error:", "ssh:"))]
        detail = re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", "; ".join(said[-3:]) or text.strip()[-300:])
        return GitError(f"git {command} failed ({code}): {detail[:300]}")


def environment(
    config: RepositoryConfig, remote: Remote | None, folder: Path, env: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The whole environment of git, and the texts that may never be printed.

    Args:
        remote: None for commands that stay on this machine.
        env: Where the token's variable, proxies and certificates are found.
    """
    made = {name: env[name] for name in _PASSED if name in env} | _FIXED | {"HOME": str(folder)}
    settings = dict(_SETTINGS)
    secrets: tuple[str, ...] = ()
    if remote is None:
        made["GIT_ALLOW_PROTOCOL"] = ""
    else:
        made["GIT_ALLOW_PROTOCOL"] = remote.transport
        if remote.transport == "ssh":
            made["GIT_SSH_COMMAND"] = _ssh(config, folder)
        elif config.auth_type == "token":
            token = secret(config, "auth_token", env)
            # Bitbucket alone cares what the user is called
            user = "x-token-auth" if remote.host == "bitbucket.org" else "x-access-token"
            header = base64.b64encode(f"{user}:{token}".encode()).decode()
            settings[f"http.{remote.url}.extraHeader"] = f"Authorization: Basic {header}"
            secrets = (token, header, quote(token, safe=""))
    made["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings.items()):
        made[f"GIT_CONFIG_KEY_{index}"] = key
        made[f"GIT_CONFIG_VALUE_{index}"] = value
    return made, secrets


_PASSED = (
    *("PATH", "TMPDIR", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_SSH_VARIANT": "ssh",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "credential.helper": "",
    "fetch.recurseSubmodules": "false",
    "gc.autoDetach": "false",
    "maintenance.autoDetach": "false",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "protocol.version": "2",
    "transfer.fsckObjects": "true",
    # names that only a checkout could follow; we never check out, and skip them one by one
    "fetch.fsck.hasDot": "warn",
    "fetch.fsck.hasDotdot": "warn",
    "fetch.fsck.hasDotgit": "warn",
    # old tools wrote trees like this; git reads them well
    "fetch.fsck.zeroPaddedFilemode": "ignore",
}

_EXPLAINED = (
    (
        r"could not read (Username|Password)|Authentication failed|requested URL returned error: 40[13]",
        "the server refused: wrong or missing credentials",
        "check that authToken's variable holds a token that may read the repository",
    ),
    (
        r"Permission denied \(|Load key|Identity file .* not accessible",
        "the ssh server refused our key",
        "check sshKeyPath (mode 600) and that its public key is a deploy key of the repository",
    ),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed",
        "the ssh server's host key is not the one seen before",
        "if the server's key was changed on purpose, remove known_hosts in the mirror's folder",
    ),
    (
        r"requested URL returned error: 30\d|unable to update url base from redirection",
        "the server redirects, and redirects are not followed",
        "give the final address as gitUrl",
    ),
    (
        r"repository '.*' not found|does not appear to be a git repository|requested URL returned error: 404",
        "there is no repository at this address, or it is private",
        "check gitUrl, and authType if the repository is private",
    ),
    (
        r"Could not resolve host|Failed to connect|Connection refused|Connection timed out|Couldn't connect",
        "the server can't be reached",
        "check gitUrl and the network",
    ),
    (
        r"file size limit exceeded|File too large|signal 25",
        "the repository is larger than one fetch may be",
        "keep agents in a repository of their own",
    ),
)
"""What git prints, what we say instead, and what helps."""


def _ssh(config: RepositoryConfig, folder: Path) -> str:
    command = ["ssh", "-F", os.devnull, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new"]
    command += ["-o", f'UserKnownHostsFile="{str(folder / "known_hosts").replace("%", "%%")}"']
    command += ["-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=15"]
    if config.ssh_key_path is not None:
        key = str(Path(config.ssh_key_path).expanduser())
        command += ["-o", "IdentitiesOnly=yes", "-i", key.replace("%", "%%")]
    return shlex.join(command)


def _kill(process: asyncio.subprocess.Process) -> None:
    """With whatever it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _limit_files(pid: int, size: int) -> None:
    """Bound what the process and its children may write; where the system can't, the timeout bounds it."""
    import resource

    if hasattr(resource, "prlimit"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))


def _reporter(progress: Progress) -> Callable[[bytes], None]:
    def heard(chunk: bytes) -> None:
        for stage, percent in re.findall(rb"([A-Z][a-z ]+):\s+(\d+)%", chunk)[-1:]:
            progress(stage.decode().lower(), int(percent) / 100)

    return heard
