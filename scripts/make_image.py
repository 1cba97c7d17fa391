# SPDX-License-Identifier: Apache-2.0
"""Build the container image without a registry or a daemon, as an OCI archive.

``python -m scripts.make_image ARCHIVE`` packs this Python, the locked packages of
requirements/runtime.txt, nri-scope, and the shared libraries that they need, with their licences.
The same checkout, Python and system libraries give the same archive.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from nri_scope import __version__

ROOT = Path(__file__).parent.parent
NAME = f"localhost/nri-scope:{__version__}"
USER = 65532
"""User and group of processes for which a pod names no other user. All files belong to root: no
process can replace what it runs."""
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # No user has a home folder in the image.
    "HOME": "/tmp",
    "PYTHONDONTWRITEBYTECODE": "1",
    # As in Python's official images.
    "PYTHON_VERSION": platform.python_version(),
}
LABELS = {
    "org.opencontainers.image.title": "nri-scope",
    "org.opencontainers.image.description": "Record, inspect, compare and replay the "
    "messages between container runtimes and NRI plugins",
    "org.opencontainers.image.version": __version__,
    # Of nri-scope, Python, its packages and the shared libraries. liblzma is in the public domain.
    "org.opencontainers.image.licenses": "Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause "
    "AND GPL-3.0-or-later WITH GCC-exception-3.1 AND LGPL-2.1-or-later AND LicenseRef-SCOWL "
    "AND MIT AND PSF-2.0 AND Python-2.0.1 AND X11-distribute-modifications-variant AND Zlib "
    "AND blessing AND bzip2-1.0.6",
}

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LIB = f"usr/local/lib/{_PYTHON}"
_UNUSED = re.compile(
    r"(test|tests|idlelib|turtledemo|turtle\.py|tkinter|lib2to3|ensurepip|pydoc_data|venv|"
    r"__pycache__|site-packages|dist-packages|config-[^/]*)(/|$)"
    # readline is GPL-3.0, and the others need libraries that nothing else needs.
    r"|lib-dynload/(_test|_ctypes_test|_tkinter|_xxtestfuzz|xx|readline|nis|ossaudiodev|_crypt)"
    r"|.*\.(a|pyi)$"
)
"""Parts of the standard library that nri-scope never imports, by path below its folder."""
_UNUSED_PACKAGES = re.compile(r"multidict/_testcapi|zstandard/(__pycache__/)?(_cffi|backend_cffi)")
"""The same of the locked packages: tests, and what PyPy needs."""
_TERMINALS = (
    *("ansi", "dumb", "linux", "rxvt", "rxvt-unicode-256color", "screen", "screen-256color"),
    *("tmux", "tmux-256color", "vt100", "vt220", "xterm", "xterm-256color", "xterm-color"),
)
_TERMINFO = ("/lib/terminfo", "/usr/share/terminfo")
_FOLDERS = ("etc", "proc", "sys", "dev", "run", "var/lib", "root")
_V = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
Files = dict[str, Path | bytes]
"""Contents by path in the image."""


def main(archive: Path) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as work:
        packages = Path(work, "packages")
        install_packages(packages)
        application = dict(package_files(packages))
        library = Path(work, "library")
        base = dict(python_files(library))
        libraries = list(shared_libraries([*base.values(), *application.values()], packages))
        base |= {place: path for path, place in libraries}
        debian = debian_packages(path for path, _ in libraries)
        base |= licence_files(debian)
        base |= {f"var/lib/dpkg/status.d/{name}": status(name) for name in debian}
        base |= system_files()
        archive.parent.mkdir(parents=True, exist_ok=True)
        write_archive(archive, [layer(base, folders=True), layer(application)])


def install_packages(target: Path) -> None:
    """Install the locked packages and nri-scope to a folder, with deterministic bytecode."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    into = ("--no-compile", "--no-deps", f"--target={target}")
    environment = os.environ | {"SOURCE_DATE_EPOCH": "0"}
    locked = ("--require-hashes", "--only-binary=:all:", "-r", ROOT / "requirements/runtime.txt")
    subprocess.run([*pip, *into, *locked], check=True, env=environment)
    # --upgrade replaces the folder of commands: only those of nri-scope stay.
    subprocess.run(
        [*pip, *into, "--upgrade", "--no-build-isolation", ROOT], check=True, env=environment
    )
    compile_all(target)


def compile_all(folder: Path) -> None:
    """Write bytecode that does not depend on the time of the sources; they never change."""
    subprocess.run(
        [
            *(sys.executable, "-m", "compileall", "-q", "-j0"),
            *("--invalidation-mode", "unchecked-hash", "-s", folder, "-p", f"/{_LIB}", folder),
        ],
        check=True,
    )


def package_files(packages: Path) -> Iterator[tuple[str, Path | bytes]]:
    """Yield the installed files with their places in the image."""
    for path in _files(packages):
        name = path.relative_to(packages).as_posix()
        if name.startswith("bin/"):
            if name.partition("/")[2] in ("nri-scope", "kubectl-nri_scope"):
                script = path.read_bytes().partition(b"\n")[2]
                yield f"usr/local/{name}", b"#!/usr/local/bin/python3\n" + script
        # RECORD has the path of the build; direct_url.json that of the checkout.
        elif (
            path.name not in ("RECORD", "direct_url.json")
            and not name.startswith("share/")
            and _UNUSED_PACKAGES.match(name) is None
        ):
            yield f"{_LIB}/site-packages/{name}", path


def python_files(copy: Path) -> Iterator[tuple[str, Path | bytes]]:
    """Yield the files of this Python, of whose library ``copy`` becomes a compiled copy."""
    library = Path(sysconfig.get_path("stdlib"))
    for path in _files(library):
        name = path.relative_to(library).as_posix()
        if _UNUSED.match(name) is None and "/test/" not in name and "/tests/" not in name:
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    compile_all(copy)
    for path in _files(copy):
        yield f"{_LIB}/{path.relative_to(copy).as_posix()}", path
    yield f"usr/local/bin/{_PYTHON}", Path(os.path.realpath(sys.executable))


def shared_libraries(files: Iterable[Path | bytes], packages: Path) -> Iterator[tuple[Path, str]]:
    """Yield the libraries outside of ``packages`` that the files need, with their places.

    All libraries are beside the C library, where the loader looks for them without a cache.
    """
    found: set[str] = set()
    for path in files:
        if isinstance(path, Path) and (".so" in path.name or path.name == _PYTHON):
            listed = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
            found.update(word for word in listed.split() if word.startswith("/"))
    found = {each for each in found if not Path(each).is_relative_to(packages)}
    folder = next(Path(each).parent for each in found if Path(each).name.startswith("libc.so"))
    for each in sorted(found):
        name = Path(each).name
        place = Path(each) if name.startswith("ld-linux") else folder / name
        yield Path(os.path.realpath(each)), str(place).lstrip("/")


def debian_packages(libraries: Iterable[Path]) -> list[str]:
    """Return the names of the Debian packages of libraries.

    A library outside of Debian's packages is Python's, whose licence is in its standard library.
    On other distributions, say that licences are missing.
    """
    if shutil.which("dpkg") is None:
        print("no dpkg: the image has no licences of shared libraries", file=sys.stderr)
        return []
    names: set[str] = set()
    for library in libraries:
        # Packages name files in /lib, which is a link to /usr/lib.
        paths = {str(library), str(library).removeprefix("/usr")}
        output = subprocess.run(["dpkg", "--search", *paths], capture_output=True, text=True).stdout
        names.update(re.split("[:,]", line)[0] for line in output.splitlines())
    return sorted(names)


def licence_files(packages: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield the licences of Debian packages, with their places."""
    for name in packages:
        text = Path("/usr/share/doc", name, "copyright")
        yield str(text).lstrip("/"), text
        for each in re.findall(r"/usr/share/common-licenses/[\w.-]*\w", text.read_text("utf-8")):
            yield each.lstrip("/"), Path(each)


def status(package: str) -> bytes:
    """Return what dpkg knows of a package, for scanners, in the form of distroless images."""
    return subprocess.run(["dpkg", "--status", package], capture_output=True, check=True).stdout


def system_files() -> Files:
    """Return accounts and descriptions of terminals."""
    files: Files = {
        "etc/passwd": f"root:x:0:0:root:/tmp:/sbin/nologin\n"
        f"nri-scope:x:{USER}:{USER}::/tmp:/sbin/nologin\n".encode(),
        "etc/group": f"root:x:0:\nnri-scope:x:{USER}:\n".encode(),
    }
    for name in _TERMINALS:
        for folder in _TERMINFO:
            path = Path(folder, name[0], name)
            if path.exists():
                files.setdefault(f"usr/share/terminfo/{name[0]}/{name}", path.read_bytes())
    return files


def layer(files: Files, *, folders: bool = False) -> bytes:
    """Return an uncompressed layer; ``folders``: with the folders of the whole file system."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        parents = {str(parent) for name in files for parent in Path(name).parents}
        parents |= {str(each) for name in _FOLDERS for each in (Path(name), *Path(name).parents)}
        for name in sorted(parents - {"."}) if folders else ():
            tar.addfile(_entry(name, tarfile.DIRTYPE, 0o755))
        if folders:
            tar.addfile(_entry("tmp", tarfile.DIRTYPE, 0o1777))
            for name, target in (
                ("usr/local/bin/python3", _PYTHON),
                # Where Debian's own Python looks for packages.
                (f"{_LIB}/dist-packages", "site-packages"),
            ):
                link = _entry(name, tarfile.SYMTYPE, 0o777)
                link.linkname = target
                tar.addfile(link)
        for name, source in sorted(files.items()):
            data = source if isinstance(source, bytes) else source.read_bytes()
            entry = _entry(name, tarfile.REGTYPE, 0o755 if _is_program(name) else 0o644)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def write_archive(path: Path, layers: list[bytes]) -> None:
    """Write an OCI image layout as a tar file."""
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ["nri-scope"],
            "Labels": LABELS,
        },
        "rootfs": {"type": "layers", "diff_ids": [_digest(each) for each in layers]},
    }
    with tarfile.open(path, "w") as tar:
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_V}.manifest.v1+json",
            "config": _blob(tar, f"{_V}.config.v1+json", _json(config)),
            "layers": [
                _blob(tar, f"{_V}.layer.v1.tar+gzip", gzip.compress(each, 6, mtime=0))
                for each in layers
            ],
        }
        descriptor = _blob(tar, f"{_V}.manifest.v1+json", _json(manifest))
        descriptor["annotations"] = {
            "io.containerd.image.name": NAME,
            "org.opencontainers.image.ref.name": __version__,
        }
        index = {
            "schemaVersion": 2,
            "mediaType": f"{_V}.index.v1+json",
            "manifests": [descriptor],
        }
        _add(tar, "index.json", _json(index))
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path


def _is_program(name: str) -> bool:
    return name.startswith("usr/local/bin/") or ".so" in name.rpartition("/")[2]


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, mode
    entry.uid = entry.gid = 0
    return entry


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(tar: tarfile.TarFile, media_type: str, data: bytes) -> dict[str, object]:
    digest = _digest(data)
    _add(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}", data)
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: {NAME}, {Path(sys.argv[1]).stat().st_size / 1e6:.0f} MB")
