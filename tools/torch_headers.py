"""Fetches the headers of torch releases out of their wheels, without the gigabytes around them.

A wheel is a zip file, and a release's headers stand in one stretch of it: some 10 MB, which one
range request of pip's own session gets from whatever index pip is configured to use. The bridges
that the wheel of Stepscope carries are compiled with them.

    python tools/torch_headers.py                    # of each minor that a bridge serves
    python tools/torch_headers.py --for 2.13.0       # what the bridge to one release needs
    python tools/torch_headers.py 2.12 2.15 --to X   # of some

A release whose headers cannot be had is named, and the others are fetched; the exit code tells how
many are missing. It needs pip 25.1 or newer, whose internals it uses.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import zipfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src/stepscope/frameworks/torch/bridge"))

# The file alone: nothing is built or installed yet.
from families import CUDA_HEADERS, FAMILIES, family_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFAULT_FOLDER = ROOT / "build/torch-headers"
# What the bridges include of a wheel, and where it goes in the release's folder.
_TORCH_PARTS = {f"torch/include/{part}/": part for part in ("ATen", "c10", "torch/headeronly")}
ALL = "all"
AT_A_TIME = 4  # fetched: an index that has to look for a file answers late
_LOCAL_HEADER = 30  # bytes of a zip entry before its name


class Wanted(NamedTuple):
    """A package's headers, and where they go."""

    package: str
    version: str
    folder: str
    prefixes: dict[str, str]


def main() -> int:
    """Fetch what is asked for; return how many could not be had."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("minors", nargs="*", help="torch's minors, such as 2.12")
    parser.add_argument("--for", dest="release", default=ALL, help="one release, or all of them")
    parser.add_argument("--to", type=Path, default=DEFAULT_FOLDER, help="the folder to fill")
    args = parser.parse_args()
    wanted = [*_of_torch(args.minors or _minors_for(args.release))]
    if args.minors or args.release == ALL:
        wanted += _of_cuda()
    wanted = [item for item in wanted if not (args.to / item.folder).exists()]
    return fetch(wanted, args.to) if wanted else 0


def _minors_for(release: str) -> list[str]:
    """Return the minors whose headers the bridges to a release's operators are compiled with."""
    if release == ALL:
        return [minor for family in FAMILIES for minor in family.minors]
    family = family_of(".".join(release.split(".")[:2]))
    return [family.name] if family else []


def _of_torch(minors: Sequence[str]) -> Iterator[Wanted]:
    releases = {minor: version for family in FAMILIES for minor, version in family.releases.items()}
    for minor in minors:
        yield Wanted("torch", releases.get(minor, f"{minor}.0"), minor, _TORCH_PARTS)


def _of_cuda() -> Iterator[Wanted]:
    for folder, (package, version) in CUDA_HEADERS.items():
        yield Wanted(package, version, folder, {"*/include/": "."})


def fetch(wanted: Sequence[Wanted], to: Path) -> int:
    """Fill a folder for each of them; return how many could not be had."""
    to.mkdir(parents=True, exist_ok=True)
    shares = [wanted[i::AT_A_TIME] for i in range(min(AT_A_TIME, len(wanted)))]
    with ProcessPoolExecutor(len(shares)) as processes:  # pip's session is one thread's
        return sum(processes.map(_fetch_share, shares, [to] * len(shares)))


def _fetch_share(wanted: Sequence[Wanted], to: Path) -> int:
    missing = 0
    with _Index() as index:
        for item in wanted:
            try:
                count, megabytes = _fetch_one(index, item, to)
            except Exception as error:  # of the network, of pip's internals, of a proxy
                missing += 1
                text = f"no headers: {error or type(error).__name__}"
            else:
                text = f"{count} headers, {megabytes:.1f} MB fetched"
            print(f"{item.package} {item.version}: {text}", flush=True)
    return missing


def _fetch_one(index: _Index, wanted: Wanted, to: Path) -> tuple[int, float]:
    wheel = index.open(wanted.package, wanted.version)
    with zipfile.ZipFile(wheel) as archive:
        places = {
            entry: place for entry in archive.infolist() if (place := _place_of(entry, wanted))
        }
        if not places:
            raise LookupError("the wheel has none")
        contents = _entries_between(wheel, list(places))
    made = Path(tempfile.mkdtemp(dir=to, prefix=".part-"))
    try:
        for entry, place in places.items():
            target = made / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents.read(entry.filename))
        made.chmod(0o755)
        made.rename(to / wanted.folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return len(places), contents.fetched / 1e6


def _place_of(entry: zipfile.ZipInfo, wanted: Wanted) -> str | None:
    if entry.is_dir():
        return None
    for prefix, folder in wanted.prefixes.items():
        before, result, rest = entry.filename.partition(prefix.removeprefix("*"))
        if result and (prefix.startswith("*") or not before):
            return f"{folder}/{rest}"
    return None


class _Entries:
    """Entries of a zip file, read from the stretch of bytes that holds them."""

    def __init__(self, data: bytes, begin: int, entries: Sequence[zipfile.ZipInfo]) -> None:
        self.fetched = len(data)
        self._data = data
        self._begin = begin
        self._entries = {entry.filename: entry for entry in entries}

    def read(self, name: str) -> bytes:
        """Return what the file holds; its checksum is checked."""
        import zlib

        entry = self._entries[name]
        at = entry.header_offset - self._begin
        lengths = self._data[at + 26 : at + _LOCAL_HEADER]
        at += _LOCAL_HEADER + int.from_bytes(lengths[:2], "little")
        at += int.from_bytes(lengths[2:], "little")
        packed = self._data[at : at + entry.compress_size]
        plain = (
            packed if entry.compress_type == zipfile.ZIP_STORED else zlib.decompress(packed, -15)
        )
        if zlib.crc32(plain) != entry.CRC:
            raise ValueError(f"{name} is damaged")
        return plain


def _entries_between(wheel: Any, entries: Sequence[zipfile.ZipInfo]) -> _Entries:
    """Fetch all of them at once: a request for each of thousands would take minutes."""
    begin = min(entry.header_offset for entry in entries)
    last = max(entries, key=lambda entry: entry.header_offset)
    slack = _LOCAL_HEADER + 2 * len(last.filename.encode()) + 1024  # of the last one's header
    wheel.seek(begin)
    data = wheel.read(last.header_offset + slack + last.compress_size - begin)
    return _Entries(data, begin, entries)


class _Index:
    """The package index that pip is configured for, with its session."""

    def __enter__(self) -> _Index:
        from pip._internal.cli.cmdoptions import make_target_python
        from pip._internal.commands.download import DownloadCommand

        # Headers are the same for every Python; the oldest one has a wheel of each release.
        words = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", "--pre", "x"]
        self._command = DownloadCommand("download", "fetch headers")
        options, _ = self._command.parse_args(words)
        self._context = self._command.main_context()
        self._context.__enter__()
        self._session = self._command.get_default_session(options)
        self._finder = self._command._build_package_finder(
            options, self._session, make_target_python(options)
        )
        return self

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)

    def open(self, package: str, version: str) -> Any:
        """Return the release's wheel as a file that is read where it is; one at hand is taken."""
        from pip._internal.network.lazy_wheel import LazyZipOverHTTP

        links = [
            candidate.link
            for candidate in self._finder.find_all_candidates(package)
            if str(candidate.version).partition("+")[0] == version
        ]
        if not links:
            raise LookupError("the package index has no wheel of it for this processor")
        link = min(links, key=lambda entry: not entry.is_file)
        if link.is_file:
            return Path(link.file_path).open("rb")
        return LazyZipOverHTTP(link.url_without_fragment, self._session)


if __name__ == "__main__":
    sys.exit(main())
