"""Real git servers for the tests of repositories: http-backend behind Basic auth, and a private sshd."""

import base64
import getpass
import gzip
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

TOKEN = "tok-3n/Z+secret="
"""With characters that change in base64 and in URLs."""


def missing(reason: str) -> None:
    """Skip, except in CI, where nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def git(*args: str, cwd: Path, stdin: bytes = b"") -> str:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(cwd)}
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return (
        subprocess.run(["git", *args], cwd=cwd, input=stdin, env=env | who, check=True, capture_output=True)
        .stdout.decode()
        .strip()
    )


@dataclass
class Repo:
    """A bare repository on the server's side."""

    path: Path

    def commit(self, files: Mapping[str, str | bytes | None], *, branch: str = "main", force: bool = False) -> str:
        """Commit onto the branch (None removes a file), or with `force` in place of all it had."""
        has_branch = not force and self.git("for-each-ref", f"refs/heads/{branch}")
        lines = [f"commit refs/heads/{branch}\ncommitter a <a@b.c> 1700000000 +0000\ndata 4\nwork\n".encode()]
        lines += [f"from refs/heads/{branch}^0\n".encode()] if has_branch else [b""]
        for path, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            lines.append(
                f"D {path}\n".encode()
                if data is None
                else f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n"
            )
        self.git("fast-import", "--quiet", "--force", stdin=b"".join(lines))
        return self.head(branch)

    def raw_commit(self, entries: list[tuple[str, bytes, str]]) -> str:
        """Commit a tree of (mode, name, object) exactly as given, whatever git thinks of it."""
        tree = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(sha) for mode, name, sha in entries)
        sha = self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=tree)
        commit = self.git("commit-tree", "-m", "raw", sha)
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def blob(self, data: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=data)

    def head(self, branch: str = "main") -> str:
        return self.git("rev-parse", f"refs/heads/{branch}")

    def git(self, *args: str, stdin: bytes = b"") -> str:
        return git(*args, cwd=self.path, stdin=stdin)


@dataclass
class HttpServer:
    """git http-backend; every request is noted, and a fetch can be held."""

    root: Path
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Path, and what was asked: `refs`, `ls-refs` or `fetch`."""
    held: dict[str, threading.Event] = field(default_factory=dict[str, threading.Event])
    reached: threading.Event = field(default_factory=threading.Event)

    def repo(self, name: str) -> Repo:
        path = self.root / f"{name}.git"
        git("init", "-q", "--bare", "-b", "main", str(path), cwd=self.root)
        return Repo(path)

    def address(self, repo: Repo, *, area: str = "private") -> str:
        return f"{self.url}/{area}/{repo.path.name}"

    def asked(self, repo: Repo) -> list[str]:
        return [what for path, what in self.requests if repo.path.name in path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: HttpServer

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        _, area, path = parts.path.split("/", 2)
        self.state.requests.append((parts.path, _asked(body, self.headers.get("Content-Encoding"))))
        wanted = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
        if area == "moved":
            self._answer(301, [("Location", self.path.replace("/moved/", "/public/"))], b"")
        elif area == "echo":
            self._answer(500, [("Content-Type", "text/plain")], f"you sent {self.headers['Authorization']}".encode())
        elif area == "private" and self.headers.get("Authorization") != wanted:
            self._answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
        else:
            if (hold := self.state.held.get(path.split("/")[0])) and b"command=fetch" in body:
                self.state.reached.set()
                hold.wait(30)
            self._backend(f"/{path}", parts.query, body)

    def _backend(self, path: str, query: str, body: bytes) -> None:
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        headers = [(k, v) for k, _, v in (line.partition(": ") for line in head.decode().splitlines())]
        status = next((int(v.split()[0]) for k, v in headers if k == "Status"), 200)
        self._answer(status, [(k, v) for k, v in headers if k != "Status"], content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _asked(body: bytes, encoding: str | None) -> str:
    text = gzip.decompress(body) if encoding == "gzip" else body
    return next((what for what in ("fetch", "ls-refs") if f"command={what}".encode() in text), "refs")


@pytest.fixture(scope="session")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """`/private/` asks for the token, `/public/` is open, `/moved/` redirects, `/echo/` fails and says what it got."""
    server = HttpServer(tmp_path_factory.mktemp("http"))
    handler = type("Handler", (_Handler,), {"state": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        server.url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        listener.shutdown()
        thread.join()


@dataclass
class SshServer:
    root: Path
    port: int
    key: Path
    stranger: Path
    """A key that the server does not know."""

    def repo(self, name: str) -> Repo:
        path = self.root / f"{name}.git"
        git("init", "-q", "--bare", "-b", "main", str(path), cwd=self.root)
        return Repo(path)

    def address(self, repo: Repo) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}{repo.path}"


@pytest.fixture(scope="session")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """An sshd of our own that only runs git, one process a connection."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None or shutil.which("git-shell") is None:
        missing("sshd or git-shell is not installed")
        raise AssertionError
    folder = tmp_path_factory.mktemp("ssh deploy")
    for name in ("host", "deploy", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    lines = [
        f'HostKey "{folder / "host"}"',
        f'AuthorizedKeysFile "{folder / "deploy.pub"}"',
        "AcceptEnv GIT_PROTOCOL",
        "PasswordAuthentication no",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
        'ForceCommand git-shell -c "$SSH_ORIGINAL_COMMAND"',
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    command = [sshd, "-i", "-f", str(folder / "sshd_config")]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, command))
        thread.start()
        yield SshServer(folder, listener.getsockname()[1], folder / "deploy", folder / "stranger")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _accept(listener: socket.socket, command: list[str]) -> None:
    running: list[subprocess.Popen[bytes]] = []
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        with connection:
            running.append(
                subprocess.Popen(
                    command, stdin=connection.fileno(), stdout=connection.fileno(), stderr=subprocess.DEVNULL
                )
            )
    for process in running:
        process.wait(10)


@pytest.fixture
def local_repo(tmp_path: Path) -> Callable[[str], Repo]:
    def make(name: str) -> Repo:
        path = tmp_path / f"{name}.git"
        git("init", "-q", "--bare", "-b", "main", str(path), cwd=tmp_path)
        return Repo(path)

    return make


@pytest.fixture
def token() -> str:
    return TOKEN
