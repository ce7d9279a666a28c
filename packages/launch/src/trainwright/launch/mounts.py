"""Container mounts as Pyxis understands them: `HOST[:CONTAINER[:FLAGS]]`, with no way to escape a comma or a colon."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

JOB_MOUNT = "/nemo_run"
"""Where the job's own directory is mounted in the container; NeMo-Run fixes the name."""

_WITHOUT_SOURCE = ("tmpfs", "umount")
_FLAGS = ("ro", "rw", *(f"{r}{kind}" for kind in ("private", "shared", "slave", "unbindable") for r in ("", "r")))
_FLAGS += ("bind", "rbind", "nosuid", "nodev", "noexec")


@dataclass(frozen=True)
class Mount:
    """One path of a node, seen in the container."""

    host: str
    container: str
    flags: str

    def __str__(self) -> str:
        """As `--container-mounts` takes it."""
        return ":".join(filter(None, (self.host, self.container, self.flags)))


def parse_mount(text: str, *, cwd: Path) -> Mount:
    """Read `HOST[:CONTAINER[:FLAGS]]`; a relative HOST is taken from `cwd`.

    Raises `ValueError` with what is wrong, without naming `text`.
    """
    if not text.isprintable():
        raise ValueError("only printable text is allowed")
    if "," in text:
        raise ValueError("a path with a comma cannot be mounted: Pyxis splits its list of mounts there")
    parts = text.split(":")
    if len(parts) > 3:
        raise ValueError("more than HOST:CONTAINER:FLAGS: a path with a colon cannot be mounted")
    if "" in parts:
        empty = ("HOST", "CONTAINER", "FLAGS")[parts.index("")]
        raise ValueError(f"{empty} is empty: write HOST, HOST:CONTAINER or HOST:CONTAINER:FLAGS")
    host = parts[0] if parts[0] in _WITHOUT_SOURCE else _absolute_host(parts[0], cwd)
    if len(parts) == 1 and host in _WITHOUT_SOURCE:
        raise ValueError(f"{host} needs a place in the container: {host}:CONTAINER")
    container = parts[1] if len(parts) > 1 else host
    return Mount(host, _checked_container(container), _checked_flags(parts[2]) if len(parts) > 2 else "")


def merge_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    """The mounts without exact repetitions; one inside another one's place comes after it, or it would be hidden.

    Raises `ValueError` where two different ones have the same place in the container.
    """
    by_target: dict[str, Mount] = {}
    for mount in mounts:
        earlier = by_target.setdefault(posixpath.normpath(mount.container), mount)
        if earlier != mount:
            raise ValueError(f"{earlier} and {mount} are both mounted at {mount.container}: give one")
    return tuple(sorted(by_target.values(), key=lambda mount: len(Path(posixpath.normpath(mount.container)).parts)))


def host_path(container_path: str, mounts: Sequence[Mount]) -> str | None:
    """Where a path of the container is on the host: under the mount that holds it most closely.

    None where no mount of a host path holds it.
    """
    wanted = posixpath.normpath(container_path)
    holding = [mount for mount in mounts if _inside(wanted, posixpath.normpath(mount.container)) is not None]
    if not holding:
        return None
    closest = max(holding, key=lambda mount: len(posixpath.normpath(mount.container)))
    if closest.host in _WITHOUT_SOURCE:
        return None
    below = _inside(wanted, posixpath.normpath(closest.container))
    return posixpath.join(closest.host, below) if below else closest.host


def _inside(path: str, folder: str) -> str | None:
    """`path` relative to `folder`: "" for the folder itself, None outside it."""
    if path == folder:
        return ""
    prefix = folder.rstrip("/") + "/"
    return path.removeprefix(prefix) if path.startswith(prefix) else None


def _absolute_host(host: str, cwd: Path) -> str:
    if host.startswith("~"):
        raise ValueError("`~` is not expanded here: write the whole path")
    if "$" in host:
        raise ValueError("`$` is not expanded here: let your shell expand it, or write the whole path")
    absolute = str(cwd / host)
    if "," in absolute or ":" in absolute or not absolute.isprintable():
        raise ValueError(f"{absolute!r} cannot be mounted: a comma, a colon or a control character stands in it")
    return absolute


def _checked_container(container: str) -> str:
    if not container.startswith("/"):
        raise ValueError(f"CONTAINER {container} must be an absolute path")
    normal = posixpath.normpath(container)
    if normal == "/":
        raise ValueError(f"nothing can be mounted at {container}: it would hide the image")
    if _inside(normal, JOB_MOUNT) is not None:
        raise ValueError(f"nothing can be mounted at {container}: the job's own directory is mounted at {JOB_MOUNT}")
    return container


def _checked_flags(flags: str) -> str:
    for flag in flags.split("+"):
        if flag not in _FLAGS:
            raise ValueError(f"unknown flag {flag!r}: allowed are {', '.join(_FLAGS)}, joined by +")
    return flags
