"""Mirrors against real servers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from retinue.schema.errors import GitError, NotFound
from retinue.sources.git_program import Limits
from retinue.sources.mirror import Fetched, File, Mirror
from retinue.sources.repository import AuthType, RepositoryConfig

if TYPE_CHECKING:
    from tests.sources.conftest import HttpServer, Repo, SshServer

AGENT = "---\nname: a\n---\nbody\n"


@pytest.fixture
def environ() -> dict[str, str]:

    return {"PATH": os.environ["PATH"]}


Make = Callable[..., Mirror]


@pytest.fixture
def mirror(tmp_path: Path, environ: dict[str, str], token: str) -> Make:
    def make(
        url: str,
        *,
        auth: AuthType = "none",
        branch: str = "main",
        key: Path | None = None,
        folder: str = "mirror",
        limits: Limits | None = None,
        given: str | None = None,
        local: bool = True,
    ) -> Mirror:
        config = RepositoryConfig(
            name="agents",
            git_url=url,
            branch=branch,
            auth_type=auth,
            auth_token="env(GIT_TOKEN)" if auth == "token" else None,
            ssh_key_path=str(key) if key else None,
        )
        env = environ | {"GIT_TOKEN": token if given is None else given}
        return Mirror(config, tmp_path / folder, env, allow_local=local, limits=limits)

    return make


@pytest.mark.spec("REG-05", "REG-03")
async def test_a_private_repository_is_fetched_over_http_with_a_token(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("private-token")
    commit = repo.commit({"a.md": AGENT, "b/c.txt": "x"})
    one = mirror(http.address(repo), auth="token")

    assert await one.fetch(1.0) == Fetched(commit=commit, changed=True)
    assert await one.tree(commit) == {
        "a.md": File("100644", repo.blob(AGENT.encode()), len(AGENT)),
        "b/c.txt": File("100644", repo.blob(b"x"), 1),
    }
    assert await one.show(commit, "a.md") == AGENT.encode()
    assert one.state().commit == commit


@pytest.mark.spec("REG-06")
async def test_an_unchanged_branch_costs_one_ref_query_and_no_objects(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("unchanged")
    commit = repo.commit({"a.md": AGENT})
    one = mirror(http.address(repo), auth="token")
    await one.fetch(1.0)
    before = len(http.asked(repo))

    assert await one.fetch(2.0) == Fetched(commit=commit, changed=False)
    assert http.asked(repo)[before:] == ["refs", "ls-refs"]
    assert one.state().checked == 2.0


@pytest.mark.spec("REG-05", "REG-03")
async def test_a_deploy_key_fetches_over_ssh(ssh: SshServer, mirror: Make) -> None:
    repo = ssh.repo("over-ssh")
    commit = repo.commit({"a.md": AGENT})
    one = mirror(ssh.address(repo), auth="ssh-key", key=ssh.key, folder="a folder, 100%h")

    assert await one.fetch(1.0) == Fetched(commit=commit, changed=True)
    assert f"[127.0.0.1]:{ssh.port}" in (one.folder / "known_hosts").read_text()

    with pytest.raises(GitError, match="the ssh server refused our key"):
        await mirror(ssh.address(repo), auth="ssh-key", key=ssh.stranger, folder="other").fetch(1.0)


async def test_another_host_key_is_refused(ssh: SshServer, mirror: Make) -> None:
    repo = ssh.repo("other-host")
    repo.commit({"a.md": AGENT})
    one = mirror(ssh.address(repo), auth="ssh-key", key=ssh.key)
    one.folder.mkdir()
    public = ssh.stranger.with_suffix(".pub").read_text()
    (one.folder / "known_hosts").write_text(f"[127.0.0.1]:{ssh.port} {public}")

    with pytest.raises(GitError, match="host key is not the one seen before"):
        await one.fetch(1.0)


async def test_a_wrong_token_is_told_without_showing_it(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("wrong-token")
    repo.commit({"a.md": AGENT})
    one = mirror(http.address(repo), auth="token", given="tok-wrong")

    with pytest.raises(GitError, match="wrong or missing credentials") as caught:
        await one.fetch(1.0)
    assert "tok-wrong" not in f"{caught.value} {caught.value.hint} {one.state()}"
    with pytest.raises(GitError, match=r"GIT_TOKEN is not set"):
        await mirror(http.address(repo), auth="token", given="").fetch(1.0)


@pytest.mark.spec("REG-03")
async def test_a_token_is_never_in_arguments_or_files(http: HttpServer, mirror: Make, token: str) -> None:
    repo = http.repo("held")
    repo.commit({"a.md": AGENT})
    http.held[repo.path.name] = threading.Event()
    one = mirror(http.address(repo), auth="token")
    http.reached.clear()
    fetch = asyncio.create_task(one.fetch(1.0))
    await asyncio.to_thread(http.reached.wait, 10)

    arguments = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    http.held[repo.path.name].set()
    await fetch

    hidden = _disguises(token)
    assert any(str(one.folder).encode() in text for text in arguments), "git was not seen"
    assert not [text for text in arguments for secret in hidden if secret in text]
    files = [path for path in one.folder.rglob("*") if path.is_file()]
    assert not [path for path in files for secret in hidden if secret in path.read_bytes()]


def _disguises(token: str) -> list[bytes]:
    import base64
    from urllib.parse import quote

    basic = base64.b64encode(f"x-access-token:{token}".encode())
    return [token.encode(), base64.b64encode(token.encode()), basic, quote(token, safe="").encode()]


async def test_a_server_that_says_the_token_back_is_not_quoted(http: HttpServer, mirror: Make, token: str) -> None:
    repo = http.repo("echo")
    with pytest.raises(GitError) as caught:
        await mirror(http.address(repo, area="echo"), auth="token").fetch(1.0)
    assert not [secret for secret in _disguises(token) if secret in f"{caught.value} {caught.value.hint}".encode()]


@pytest.mark.spec("REG-05")
async def test_redirects_are_not_followed(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("moved")
    repo.commit({"a.md": AGENT})
    with pytest.raises(GitError, match="redirects are not followed"):
        await mirror(http.address(repo, area="moved")).fetch(1.0)


async def test_a_force_push_is_followed_and_costs_one_commit(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("forced")
    repo.commit({"a.md": AGENT})
    one = mirror(http.address(repo, area="public"))
    await one.fetch(1.0)
    for index in range(5):
        repo.commit({"z.md": str(index)}, force=index == 0)

    assert await one.fetch(2.0) == Fetched(commit=repo.head(), changed=True)
    assert list(await one.tree(repo.head())) == ["z.md"]
    assert await one.changed("0" * 40, repo.head()) is None


async def test_a_push_during_the_fetch_yields_the_commit_that_was_fetched(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("raced")
    repo.commit({"a.md": AGENT})
    hold = http.held[repo.path.name] = threading.Event()
    one = mirror(http.address(repo, area="public"))
    http.reached.clear()
    fetch = asyncio.create_task(one.fetch(1.0))
    await asyncio.to_thread(http.reached.wait, 10)
    repo.commit({"b.md": AGENT})
    hold.set()

    fetched = await fetch
    assert await one.tree(fetched.commit)
    assert one.state().commit == fetched.commit


@pytest.mark.spec("REG-06")
async def test_a_deleted_branch_and_a_vanished_repository_keep_the_last_commit(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("vanishing")
    commit = repo.commit({"a.md": AGENT})
    repo.commit({"a.md": AGENT}, branch="other")
    one = mirror(http.address(repo, area="public"))
    await one.fetch(1.0)

    repo.git("update-ref", "-d", "refs/heads/main")
    with pytest.raises(GitError, match="no branch 'main'; it has other"):
        await one.fetch(2.0)
    repo.path.rename(repo.path.with_suffix(".away"))
    with pytest.raises(GitError, match="no repository at this address"):
        await one.fetch(3.0)

    state = one.state()
    assert (state.commit, state.checked) == (commit, 3.0)
    assert state.error is not None and "no repository at this address" in state.error
    assert await one.show(commit, "a.md") == AGENT.encode()


async def test_an_empty_repository_says_so(http: HttpServer, mirror: Make) -> None:
    with pytest.raises(GitError, match="no branch 'main'; it is empty"):
        await mirror(http.address(http.repo("empty"), area="public")).fetch(1.0)


async def test_a_server_that_is_not_there_says_so(mirror: Make) -> None:
    with pytest.raises(GitError, match="can't be reached"):
        await mirror("http://127.0.0.1:9/x.git").fetch(1.0)


@pytest.mark.spec("REG-05")
async def test_local_repositories_need_leave(local_repo: Callable[[str], Repo], mirror: Make) -> None:
    repo = local_repo("here")
    commit = repo.commit({"a.md": AGENT})

    for url in (str(repo.path), f"file://{repo.path}"):
        with pytest.raises(GitError, match="local repositories are off"):
            await mirror(url, local=False).fetch(1.0)
        assert (await mirror(url, folder=f"m{len(url)}").fetch(1.0)).commit == commit


@pytest.mark.spec("REG-05")
async def test_hooks_and_configuration_of_users_are_not_used(
    local_repo: Callable[[str], Repo], mirror: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever git would run from somebody's configuration must not run."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f"[core]\nsshCommand={program}\nfsmonitor={program}\nhooksPath={tmp_path}\n[credential]\nhelper=!{program}\n"
        f'[url "ext::{program} "]\ninsteadOf=/\n'
    )
    for hook in ("reference-transaction", "post-update", "pre-auto-gc"):
        (tmp_path / hook).symlink_to(program)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    repo = local_repo("here")
    commit = repo.commit({"a.md": AGENT})

    assert (await mirror(str(repo.path)).fetch(1.0)).commit == commit
    assert not ran.exists()


async def test_a_damaged_mirror_is_made_anew(local_repo: Callable[[str], Repo], mirror: Make) -> None:
    repo = local_repo("here")
    repo.commit({"a.md": AGENT})
    one = mirror(str(repo.path))
    await one.fetch(1.0)
    commit = repo.commit({"b.md": AGENT})
    for file in one.folder.glob("repository.git/objects/*/*"):
        file.chmod(0o644)
        file.write_bytes(b"damaged")

    assert (await one.fetch(2.0)).commit == commit
    assert sorted(await one.tree(commit)) == ["a.md", "b.md"]


async def test_a_mirror_that_lost_an_object_is_made_anew(local_repo: Callable[[str], Repo], mirror: Make) -> None:
    repo = local_repo("here")
    commit = repo.commit({"a.md": AGENT})
    one = mirror(str(repo.path))
    await one.fetch(1.0)
    sha = repo.blob(AGENT.encode())
    objects = one.folder / "repository.git" / "objects"
    pack = next(objects.glob("pack/*.pack")).rename(one.folder / "pack")
    type(repo)(one.folder / "repository.git").git("unpack-objects", "-q", stdin=pack.read_bytes())
    (objects / sha[:2] / sha[2:]).unlink()

    with pytest.raises(GitError, match="lost the object"):
        await one.show(commit, "a.md")
    one.distrust()
    await one.fetch(2.0)
    assert await one.show(commit, "a.md") == AGENT.encode()


async def test_a_fetch_that_was_killed_leaves_a_usable_mirror(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("killed")
    first = repo.commit({"a.md": AGENT})
    one = mirror(http.address(repo, area="public"))
    await one.fetch(1.0)
    hold = http.held[repo.path.name] = threading.Event()
    second = repo.commit({"b.md": AGENT})
    http.reached.clear()
    fetch = asyncio.create_task(one.fetch(2.0))
    await asyncio.to_thread(http.reached.wait, 10)
    running = _children(one)
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    hold.set()

    assert running and not [pid for pid in running if _alive(pid)]
    assert one.state().commit == first
    assert await one.show(first, "a.md") == AGENT.encode()
    assert (await one.fetch(3.0)).commit == second


def _children(one: Mirror) -> list[Path]:
    found: list[Path] = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str(one.folder).encode() in (path / "cmdline").read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


def _alive(process: Path) -> bool:
    try:
        return (process / "stat").read_text().split()[2] != "Z"
    except OSError:
        return False


async def test_a_fetch_that_takes_too_long_is_stopped(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("slow")
    repo.commit({"a.md": AGENT})
    hold = http.held[repo.path.name] = threading.Event()
    one = mirror(http.address(repo, area="public"), limits=Limits(timeout=0.5))
    with pytest.raises(GitError, match=r"took longer than 0\.5 s"):
        await one.fetch(1.0)
    hold.set()
    assert not [pid for pid in _children(one) if _alive(pid)]


async def test_mirrors_of_one_folder_can_sync_at_the_same_time(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("together")
    commit = repo.commit({f"a{n}.md": AGENT for n in range(50)})
    several = [mirror(http.address(repo, area="public")) for _ in range(4)]

    fetched = await asyncio.gather(*(one.fetch(1.0) for one in several))
    assert {one.commit for one in fetched} == {commit}
    assert [one.changed for one in fetched].count(True) == 1


async def test_a_fetch_writes_no_more_than_its_limit(http: HttpServer, mirror: Make) -> None:
    import random

    repo = http.repo("large")
    repo.commit({"a.md": AGENT, "noise.bin": random.Random(1).randbytes(300_000)})
    with pytest.raises(GitError, match="larger than one fetch may be"):
        await mirror(http.address(repo, area="public"), limits=Limits(pack=100_000)).fetch(1.0)


@pytest.mark.spec("REG-05")
async def test_a_tree_of_endless_names_is_stopped(local_repo: Callable[[str], Repo], mirror: Make) -> None:
    """Ten trees of ten times the one below: ten objects, ten thousand million files."""
    repo = local_repo("bomb")
    sha, mode = repo.blob(AGENT.encode()), "100644"
    for _ in range(10):
        lines = "".join(f"{mode} {'blob' if mode == '100644' else 'tree'} {sha}\tn{i}.md\n" for i in range(10))
        sha, mode = repo.git("mktree", stdin=lines.encode()), "040000"
    repo.git("update-ref", "refs/heads/main", repo.git("commit-tree", "-m", "bomb", sha))
    one = mirror(str(repo.path), limits=Limits(output=1 << 20))
    commit = (await one.fetch(1.0)).commit

    opened = set(Path("/dev/fd").iterdir())
    with pytest.raises(GitError, match="printed more than"):
        await one.tree(commit)
    assert set(Path("/dev/fd").iterdir()) <= opened


async def test_progress_is_told(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("progress")
    repo.commit({f"a{n}.md": f"{AGENT}{n}" for n in range(300)})
    heard: list[tuple[str, float]] = []
    await mirror(http.address(repo, area="public")).fetch(1.0, lambda stage, part: heard.append((stage, part)))
    assert heard and all(0 <= part <= 1 for _, part in heard)


async def test_revisions_are_found_here_or_on_the_server(http: HttpServer, mirror: Make) -> None:
    repo = http.repo("revisions")
    commits = [repo.commit({"a.md": f"{AGENT}{n}"}) for n in range(4)]
    other = repo.commit({"o.md": AGENT}, branch="release/1.2", force=True)
    repo.git("tag", "v1", commits[1])
    one = mirror(http.address(repo, area="public"))
    await one.fetch(1.0)

    assert await one.resolve("HEAD") == commits[3]
    assert await one.resolve("HEAD~2") == commits[1]
    assert await one.resolve(commits[0]) == commits[0]
    assert await one.resolve(commits[2][:10]) == commits[2]
    assert await one.resolve("v1") == commits[1]
    assert await one.resolve("v1~1") == commits[0]
    assert await one.resolve("release/1.2") == other
    assert await one.show(commits[1], "a.md") == f"{AGENT}1".encode()
    assert [c.sha for c in await one.log("a.md")] == commits[::-1]
    for wrong in ("HEAD~9", "nothing", "--upload-pack=x", "a..b", "HEAD:a.md", "@{-1}", "f" * 40):
        with pytest.raises(NotFound):
            await one.resolve(wrong)


async def test_a_folder_that_cant_be_written_is_told(
    local_repo: Callable[[str], Repo], mirror: Make, tmp_path: Path
) -> None:
    repo = local_repo("here")
    repo.commit({"a.md": AGENT})
    (tmp_path / "file").write_text("")
    with pytest.raises(GitError, match="the mirror can't be written"):
        await mirror(str(repo.path), folder="file/mirror").fetch(1.0)


async def test_a_mirror_of_another_address_starts_anew(http: HttpServer, mirror: Make) -> None:
    repo, other = http.repo("first-address"), http.repo("second-address")
    repo.commit({"a.md": AGENT})
    commit = other.commit({"b.md": AGENT})
    await mirror(http.address(repo, area="public")).fetch(1.0)
    moved = mirror(http.address(other, area="public"))

    assert moved.state().commit is None
    assert await moved.fetch(2.0) == Fetched(commit=commit, changed=True)
