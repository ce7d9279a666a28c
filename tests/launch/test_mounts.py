"""Mounts are what Pyxis can express, or are refused by name."""

from pathlib import Path

import pytest

from trainwright.launch.mounts import Mount, host_path, merge_mounts, parse_mount

CWD = Path("/home/me/work")


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("/data", "/data:/data"),
        ("/data:/d", "/data:/d"),
        ("/data:/d:ro", "/data:/d:ro"),
        ("/data:/d:ro+rprivate", "/data:/d:ro+rprivate"),
        (".", "/home/me/work:/home/me/work"),
        ("sub/x:/d", "/home/me/work/sub/x:/d"),
        ("./sub:/d", "/home/me/work/sub:/d"),
        # `..` is the file system's to resolve: a link may stand before it.
        ("../x:/d", "/home/me/work/../x:/d"),
        ("/with space:/d e", "/with space:/d e"),
        ("/日本:/d", "/日本:/d"),
        ("/a'b:/d", "/a'b:/d"),
        ("tmpfs:/tmp", "tmpfs:/tmp"),
        ("umount:/etc/x", "umount:/etc/x"),
        ("/a~b:/d", "/a~b:/d"),
    ],
)
def test_a_mount_is_read_and_made_absolute(text: str, rendered: str) -> None:
    """A relative HOST is taken from the working directory; spaces and Unicode stay."""
    assert str(parse_mount(text, cwd=CWD)) == rendered


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/a,b", "comma"),
        ("/a:/b:ro:x", "colon cannot be mounted"),
        ("", "HOST is empty"),
        (":/b", "HOST is empty"),
        ("/a:", "CONTAINER is empty"),
        ("/a::ro", "CONTAINER is empty"),
        ("/a:/b:", "FLAGS is empty"),
        ("/a:b", "CONTAINER b must be an absolute path"),
        ("/a:ro", "CONTAINER ro must be an absolute path"),
        ("/a:/b:rx", "unknown flag 'rx': allowed are ro, rw,"),
        ("/a:/b:ro+", "unknown flag ''"),
        ("~/x:/b", "`~` is not expanded here"),
        ("$HOME/x:/b", "`$` is not expanded here"),
        ("/a$b:/b", "`$` is not expanded here"),
        ("/a\nb:/b", "only printable text"),
        ("/a:/nemo_run", "the job's own directory is mounted at /nemo_run"),
        ("/a:/nemo_run/", "the job's own directory is mounted at /nemo_run"),
        ("/a:/x/../nemo_run/data", "the job's own directory is mounted at /nemo_run"),
        ("/a:/", "it would hide the image"),
        ("tmpfs", "needs a place in the container: tmpfs:CONTAINER"),
    ],
)
def test_what_pyxis_cannot_express_is_refused(text: str, problem: str) -> None:
    """One line that names the part."""
    with pytest.raises(ValueError) as caught:
        parse_mount(text, cwd=CWD)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("folder", ["/home/a,b", "/home/a:b", "/home/a\nb"])
def test_a_working_directory_that_cannot_be_mounted_is_named(folder: str) -> None:
    """`--mount .` is no way round the rules."""
    with pytest.raises(ValueError, match="cannot be mounted"):
        parse_mount(".", cwd=Path(folder))


def test_repetitions_collapse_and_contradictions_do_not() -> None:
    """The same mount twice is one; two sources of one place are an error."""
    one, other = Mount("/a", "/x", ""), Mount("/b", "/x/", "")
    assert merge_mounts([one, Mount("/c", "/y", "ro"), one]) == (one, Mount("/c", "/y", "ro"))
    inside = Mount("/d", "/x/sub", "")
    assert merge_mounts([inside, one]) == (one, inside)
    with pytest.raises(ValueError, match="are both mounted at /x"):
        merge_mounts([one, other])
    with pytest.raises(ValueError, match="are both mounted at /x"):
        merge_mounts([one, Mount("/a", "/x", "ro")])


@pytest.mark.parametrize(
    ("path", "on_host"),
    [
        ("/runs/a", "/scratch/me/a"),
        ("/runs", "/scratch/me"),
        ("/runs/../runs/a", "/scratch/me/a"),
        ("/runs/deep/b", "/fast/b"),
        ("/runs/tmp/b", None),
        ("/runs2/a", None),
        ("/elsewhere", None),
    ],
)
def test_the_closest_mount_decides_where_a_path_is(path: str, on_host: str | None) -> None:
    """A mount inside another one, and one that is no host path at all."""
    mounts = (Mount("/scratch/me", "/runs", ""), Mount("/fast", "/runs/deep", "rw"), Mount("tmpfs", "/runs/tmp", ""))
    assert host_path(path, mounts) == on_host
