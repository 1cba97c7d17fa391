# SPDX-License-Identifier: Apache-2.0
"""Decide what is known to be harmless: numbers, times, versions, known words, hosts, registries.

The words are English, and those of NRI, OCI, CRI, Kubernetes and programs.
``vocabulary.txt.gz``, with a line for each first letter, is written by
``scripts/update_vocabulary.py`` and names its sources.
"""

from __future__ import annotations

import calendar
import gzip
import re
from functools import cache, lru_cache
from pathlib import Path

MIN_PART = 3
"""Minimum length of a word that is joined to others by its case alone."""
_PART = re.compile(r"[A-Z]{2,}(?=s(?![a-z]))|[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_MORE_WORDS = frozenset(
    {
        *("s3", "x86", "x64", "k8s", "k3s", "e2e", "i18n", "l10n", "h2", "b64", "p2p", "v1alpha1"),
        *("fi", "esac", "awk", "getopts", "keygen", "ln", "tr", "uniq", "wc", "xargs"),
        # Fields whose last word is shorter than `MIN_PART`.
        *("containerid", "iopriority", "rdtclosid", "traceid", "spanid", "parentspanid"),
        # The vocabulary has no names.
        *map(str.lower, (*calendar.day_name, *calendar.month_name[1:])),
    }
)


def words(text: str) -> frozenset[str]:
    """Return the words of ``text``."""
    return frozenset(text.split())


# All repetitions in repetitions are bounded, so it takes linear time.
_PLAIN = re.compile(
    r"""
    [+-]?[0-9]{1,13}(\.[0-9]{1,9})?                      # numbers, but for long ones
    | 1[5-9][0-9]{17}                                    # nanoseconds since 1970
    | [0-9]{1,10}(\.[0-9]{1,6})?(%|[kKMGTPE]i?B?(/s)?|B|m|n|u|µ|ns|us|µs|ms|s|h|d|Z|x|px
        |Hz|[KMG]bps)
    | ([0-9]{1,6}(\.[0-9]{1,9})?(h|ms|m|s|ns|us|µs)){1,4}
    | [0-9]{1,4}-[0-9]{1,4}(:[0-9]{1,3})?                # ranges of processors
    | 0[xX][0-9a-fA-F]{1,12}
    | [vV]?[0-9]{1,4}(\.[0-9]{1,5}){1,3}([-+~.]?         # versions
        (alpha|beta|rc|dev|post|pre|final|ga|release|build|snapshot|r|p|deb|el|k3s|eks|gke)?[-.]?[0-9]{1,4}){0,3}
    | [vV][0-9]{1,3}((alpha|beta|rc)[0-9]{1,3})?
    | [0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2})?             # dates
    | [IWEF][01][0-9][0-3][0-9]                          # klog's
    | ([a-z]{2}_[A-Z]{2}|C|POSIX)(\.[A-Za-z0-9-]{3,12})? # locales
    | -X(mx|ms|mn|ss)[0-9]{1,6}[kmgKMG]?                 # Java's memory
    | kubepods(-besteffort|-burstable)?(-pod[0-9a-f_]{8,40})?\.slice
    | pod[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}
    | [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]          # PCI addresses
    | 00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}           # traces
    | [A-Za-z]
    """,
    re.VERBOSE,
)
_JOINT = re.compile(r"[^A-Za-z0-9]+")
_OPTION = re.compile(r"--[a-z][a-z]*(?:[-.][a-z0-9]+)*")
_MAX_DIGITS = 9
_MAX_CHUNK = 200
_MAX_WORD = 80

_CONFIGURATION = words(
    "true false yes no on off y n t f none null nil enabled disabled enable disable default auto "
    "production development staging test prod dev "
    "always never debug info warn warning error fatal trace notice critical all json text plain "
    "basic bearer digest negotiate ldap ldaps oidc oauth oauth2 saml kerberos gssapi x509 mtls tls "
    "ssl cert certificate token tokens webhook rbac abac node alwaysallow alwaysdeny iam anonymous "
    "scram-sha-256 scram-sha-512 sha1 sha256 sha512 md5 bcrypt argon2 optional required password "
    "require prefer allow deny strict permissive verify-full verify-ca file env vault external "
    "internal simple expired invalid missing unauthorized forbidden denied failed unknown"
)
KEPT_VARIABLES = words(
    "PATH LANG LANGUAGE LC_* TZ TERM NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES "
    "CUDA_VISIBLE_DEVICES NVIDIA_REQUIRE_*"
)
"""Variables whose values stay."""
KEPT_KEYS = words(
    "pod-template-hash controller-revision-hash pod-template-generation controller-uid "
    "kubernetes.io/config.hash kubernetes.io/config.seen kubernetes.io/config.source "
    "kubernetes.io/config.mirror io.kubernetes.container.hash checksum/* app k8s-app name "
    "component tier role instance app.kubernetes.io/* statefulset.kubernetes.io/pod-name "
    "batch.kubernetes.io/* job-name cni.projectcalico.org/containerID"
)
"""Annotations and labels whose values stay: they tell workloads and revisions apart."""
HOSTS = words(
    "localhost localhost.localdomain *.svc *.cluster.local cluster.local example.com "
    "*.example.com example.net *.example.net example.org *.example.org kubernetes.io "
    "*.kubernetes.io k8s.io *.k8s.io *.sigs.k8s.io containerd.io *.containerd.io cri-o.io "
    "crio.io *.crio.io cncf.io nri.io *.nri.io noderesource.dev *.noderesource.dev "
    "opencontainers.org github.com golang.org "
    "nvidia.com *.nvidia.com intel.com *.intel.com amd.com *.amd.com "
    # Public registries.
    "docker.io index.docker.io registry-1.docker.io quay.io ghcr.io gcr.io k8s.gcr.io "
    "registry.k8s.io mcr.microsoft.com public.ecr.aws nvcr.io registry.access.redhat.com "
    "registry.redhat.io registry.gitlab.com docker.elastic.co"
)
"""Host names and registries that stay."""
NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
ENDINGS = words(
    "com net org io dev app cloud ai co me gov edu mil int info biz tech xyz online site group "
    "internal svc local lan corp home intra intranet private priv localdomain domain "
    "at au be br ca ch cn cz de dk es eu fi fr gr hu ie il in is it jp kr lu mx nl no nz pl pt ro "
    "ru se sg sk tr tv tw ua uk us za"
)
"""Endings by which a dotted name is recognized as a host name."""
UNIT_ENDINGS = words("service slice scope socket mount target timer")
"""Endings of systemd units, which look like mail addresses (``user@1000.service``)."""


def is_plain(value: str) -> bool:
    """Return whether a value identifies nothing: a number, a size, a word of configurations."""
    return value.lower() in _CONFIGURATION or _PLAIN.fullmatch(value) is not None


def is_harmless(text: str) -> bool:
    """Return whether text without spaces, quotes and separators is known to be harmless.

    That are plain values, options, and words of the vocabulary, joined by punctuation or case.
    """
    # Untrusted texts may be long; only short ones are worth their place in a cache.
    return _is_harmless(text) if len(text) <= _MAX_CHUNK else not any(map(str.isalnum, text))


@lru_cache(maxsize=1 << 16)
def _is_harmless(text: str) -> bool:
    bare = text.strip(".,!?*_~+#$@%^-")
    if not bare or any(_PLAIN.fullmatch(one) is not None for one in {bare, text}):
        return True
    if len(text) <= 80 and _OPTION.fullmatch(text) is not None:
        return True
    if not text.isascii():
        return not any(map(str.isalnum, text))
    parts = [part for part in _JOINT.split(bare) if part]
    if all(part.isdigit() for part in parts):
        return sum(map(len, parts)) <= _MAX_DIGITS
    return all(map(is_word, parts))


@cache
def _lines() -> dict[str, str]:
    content = Path(__file__).with_name("vocabulary.txt.gz").read_bytes()
    # In a quarter of the time of xz.
    text = gzip.decompress(content).decode("ascii")
    return {line[0]: line for line in text.splitlines()}


@cache
def _words(initial: str) -> frozenset[str]:
    """Return the known words that begin with a small letter."""
    return words(_lines()[initial])


def _is_known(word: str) -> bool:
    return "a" <= word[:1] <= "z" and word in _words(word[0])


def is_word(text: str) -> bool:
    """Return whether letters and digits without anything between them are known.

    Known are a word, a number of up to six digits, and words that are joined by their case, such as
    "getUserName". A word with a number behind it is known only if the vocabulary has both
    together ("eth0", "sha256"): people choose such passwords.
    """
    return len(text) <= _MAX_WORD and _is_word(text)


@lru_cache(maxsize=1 << 16)
def _is_word(text: str) -> bool:
    lower = text.lower()
    if _is_known(lower) or lower in _MORE_WORDS:
        return True
    if text.isdigit():
        return len(text) <= 6
    if not (text.isascii() and text.isalpha()):
        return False
    return all(
        part == "s" or (len(part) >= MIN_PART and _is_known(part.lower()))
        for part in _PART.findall(text)
    )
