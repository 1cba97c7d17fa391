# SPDX-License-Identifier: Apache-2.0
"""Update the vocabulary of redaction: words that are shown wherever they stand.

    python -m scripts.update_vocabulary

Needs Debian with the package wamerican-small (English words), the package index of apt, and Go. The
sources and their licences are in the header of the written file.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "nri_scope" / "share" / "redaction" / "vocabulary.txt.gz"
ENGLISH = Path("/usr/share/dict/american-english-small")
MODULES = (
    "github.com/containerd/nri@v0.12.4",
    "github.com/containerd/containerd/v2@v2.1.4",
    "github.com/opencontainers/runtime-spec@v1.3.0",
    "k8s.io/api@v0.34.1",
    "k8s.io/cri-api@v0.34.1",
)
MIN_FILES, MIN_PACKAGES = 2, 12
"""In how many files of a module, or descriptions of packages, a word must occur."""
HEADER = """\
# Words that redaction shows. Written by scripts/update_vocabulary.py from:
# - SCOWL's English words (Debian: wamerican-small), copyright 2000-2011 by Kevin Atkinson and
#   others, whose permission to use, copy, modify and distribute the lists is given provided that
#   this notice appears;
# - names of programs, and frequent words of the descriptions, in the index of Debian's packages;
# - identifiers and words of {modules} (Apache License 2.0);
# - words of nri-scope (Apache License 2.0).
"""
_SECTIONS = {
    *("admin", "database", "httpd", "interpreters", "kernel", "mail"),
    *("net", "shells", "utils", "web"),
}
_WORD = re.compile(r"[A-Z]?[a-z]+(?:[0-9]{1,3}(?![0-9A-Za-z]))?|[A-Z]+(?![a-z])")
_LITERAL = re.compile(r'"([A-Za-z][A-Za-z0-9_]{2,24})"')
_HEX = re.compile(r"[a-f]+[0-9]*|x[a-f]*[0-9]+[0-9a-f]*")
_SHORT = """
am an as at be by do go he if in is it me my no of oh ok on or so to up us we id ip io os db ui vm
cp mv rm ls ps sh py js md ns pv rw ro fs fd tx rx gb mb kb tb cd ca tz lc en uk ci ha lb qa ai ml
kv vg lv dm sd st nd rd th un ms hz ec tm pm kt bb re
"""
"""Words of two letters. Others say little; joined, they would make up a part of random text."""


def _words(text: str) -> set[str]:
    """Return the words of a text, and those inside its identifiers, in small letters."""
    return {
        word.lower()
        for word in _WORD.findall(text)
        if 3 <= len(word) <= 24 and not _HEX.fullmatch(word.lower())
    }


def _frequent(texts: Iterable[str], minimum: int) -> Iterator[str]:
    counts = Counter(word for text in texts for word in _words(text))
    return (word for word, count in counts.items() if count >= minimum)


_MORE = """
aufs bpf btrfs ceph cephfs cgroup2 cifs configfs cramfs debugfs devpts devtmpfs ecryptfs efivarfs
erofs exfat ext2 ext3 ext4 fat fuse fuseblk glusterfs hugetlbfs iso9660 jffs2 mqueue nfs nfs3 nfs4
ntfs ntfs3 overlayfs proc pstore ramfs rpc_pipefs securityfs selinuxfs smb smb3 squashfs sysfs
tmpfs tracefs ubifs udf vfat virtiofs xfs zfs relatime noatime nodiratime nosuid nodev noexec
rbind rprivate rslave rshared ptmxmode lowerdir upperdir workdir ro rw stderr stdout stdin sigterm
sigkill errno enoent eacces einval ebusy eperm enospc amd64 arm64 aarch64 x86 riscv64 ppc64le
s390x linux gnu musl glibc libc dac utsns ipcns netns pidns mntns userns containerenv runroot
swapon swapoff cdi nri crio localhost healthz readyz livez metrics pprof
"""
"""File systems and the like."""


def _english() -> Iterator[str]:
    # Names of persons and places begin with a capital.
    lines = ENGLISH.read_text(encoding="utf-8").split()
    return (line for line in lines if line.isascii() and line.islower() and line.isalpha())


def _debian() -> Iterator[str]:
    index = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True)
    descriptions: list[str] = []
    names: Counter[str] = Counter()
    for entry in index.stdout.split("\n\n"):
        fields = dict(re.findall(r"(?m)^(Package|Section|Description\S*): (.*)", entry))
        if fields.get("Section", "").rpartition("/")[2] in _SECTIONS:
            name = fields["Package"]
            names.update(set(re.findall(r"[a-z]{4,16}", name)))
            if re.fullmatch(r"[a-z]{3,16}[0-9]?", name):
                yield name
        descriptions.append(" ".join(value for key, value in fields.items() if "Desc" in key))
    yield from (name for name, count in names.items() if count > 1)
    yield from _frequent(descriptions, MIN_PACKAGES)


def _modules() -> Iterator[str]:
    for module in MODULES:
        command = ["go", "mod", "download", "-json", module]
        folder = Path(
            json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["Dir"]
        )
        files = [
            one
            for one in folder.rglob("*.go")
            if "vendor" not in one.parts and not one.name.endswith("_test.go")
        ]
        texts = [file.read_text(encoding="utf-8") for file in files]
        yield from _frequent(texts, MIN_FILES)
        # System calls, capabilities, file systems.
        yield from _frequent((" ".join(_LITERAL.findall(text)) for text in texts), 1)


def _project() -> Iterator[str]:
    files = [
        *ROOT.glob("nri_scope/**/*.py"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("nri_scope/**/*.j2"),
    ]
    return _frequent((file.read_text(encoding="utf-8") for file in files), MIN_FILES)


def main() -> None:
    """Write the file."""
    found = {*_english(), *_debian(), *_modules(), *_project(), *_words(_MORE)}
    words = {word for word in found if len(word) > 2} | {*_SHORT.split()} | {"dac"}
    print(f"{len(words):,} words")
    header = HEADER.format(modules=", ".join(MODULES))
    by_initial = groupby(sorted(words), key=itemgetter(0))
    content = header + "".join(f"{' '.join(some)}\n" for _, some in by_initial)
    TARGET.write_bytes(gzip.compress(content.encode("ascii"), 9, mtime=0))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
