# SPDX-License-Identifier: Apache-2.0
"""Values that may be shown: plain values and well-known names."""

from __future__ import annotations

import re

from .word_lists import words

# No pattern here has nested repetitions, so all take linear time.
_PLAIN_VALUE = re.compile(
    r"""
    [+-]?[0-9]{1,10}(\.[0-9]{1,6})?                      # numbers, but for long ones
    | [0-9]{1,10}(\.[0-9]{1,6})?(%|[kKMGTPE]i?B?|B|m|n|u|µ|ns|us|µs|ms|s|h|d)  # quantities
    | ([0-9]{1,6}(h|ms|m|s)){1,4}
    | [0-9]{1,4}([-,][0-9]{1,4}){1,64}                   # lists of processors
    | 0[xX][0-9a-fA-F]{1,8}
    | v?[0-9]{1,4}(\.[0-9]{1,5}){1,3}([-+~.]?            # versions
        (alpha|beta|rc|dev|post|pre|final|ga|release|build|snapshot|r|p)?[-.]?[0-9]{1,4}){0,3}
    | [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](,[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]){0,24}
    | ([a-z]{2}_[A-Z]{2}|C|POSIX)(\.(?i:                 # locales, with an encoding
        utf-?8|us-ascii|ascii|iso-?8859-?[0-9]{1,2}|cp-?[0-9]{3,4}|windows-?125[0-9]|koi8-?[rtu]
        |gb-?2312|gbk|gb-?18030|big5|euc-?(jp|kr|tw|cn)|shift-?jis|sjis|tis-?620))?
    | (tcp|udp|sctp)
    """,
    re.VERBOSE,
)
_PLAIN_WORDS = words(
    "true false yes no on off y n t f none null nil enabled disabled enable disable default auto "
    "always never debug info warn warning error fatal trace notice critical all json text plain "
    "production development staging test prod dev stage linux amd64 arm64 x86_64 aarch64 "
    "utf-8 utc gmt oci systemd containerd docker podman cri-o compute utility graphics video "
    "compute,utility ipv4 ipv6 tcp udp http https noninteractive xterm xterm-256color dumb "
    # Methods of authentication, and results.
    "basic bearer digest negotiate ldap ldaps oidc oauth oauth2 saml kerberos gssapi x509 mtls tls "
    "ssl cert certificate token tokens webhook rbac abac node alwaysallow alwaysdeny iam anonymous "
    "plain scram-sha-256 scram-sha-512 sha1 sha256 sha512 md5 bcrypt argon2 optional required "
    "require prefer allow deny strict permissive verify-full verify-ca file env vault external "
    "internal simple expired invalid missing unauthorized forbidden denied failed unknown"
)
_ROOTS = (
    "app bin boot config data dev etc go home host lib lib64 media mnt opt proc root run sbin srv "
    "sys tmp usr var workspace"
)
_PLAIN_PATH = re.compile(
    rf"/(?:(?:{'|'.join(_ROOTS.split())})(?:/[A-Za-z0-9._@+~-]{{1,40}}){{0,24}}/?)?"
)

ENV_NAMES = words(
    "PATH LANG LANGUAGE LC_* TZ TERM HOME SHELL PWD SHLVL LD_LIBRARY_PATH PYTHONPATH "
    "NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES CUDA_VISIBLE_DEVICES NVIDIA_REQUIRE_* "
    "ETCD_INITIAL_CLUSTER_TOKEN"
)
"""Variables whose values stay, except for credentials, addresses and so on inside them."""

HOSTS = words(
    "localhost localhost.localdomain *.svc *.cluster.local cluster.local example.com "
    "*.example.com example.net *.example.net example.org *.example.org kubernetes.io "
    "*.kubernetes.io k8s.io *.k8s.io *.sigs.k8s.io containerd.io cri-o.io cncf.io "
    "opencontainers.org github.com golang.org nvidia.com intel.com amd.com"
)
"""Host names that always stay; annotations' keys are not searched anyway."""

REGISTRIES = words(
    "docker.io index.docker.io registry-1.docker.io quay.io ghcr.io gcr.io k8s.gcr.io "
    "registry.k8s.io mcr.microsoft.com public.ecr.aws nvcr.io registry.access.redhat.com "
    "registry.redhat.io registry.gitlab.com docker.elastic.co"
)
"""Public registries."""

NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})

ENDINGS = words(
    "com net org io dev app cloud ai co me gov edu mil int info biz tech xyz online site group "
    "internal local lan corp home intra intranet private priv localdomain domain "
    "at au be br ca ch cn cz de dk es eu fi fr gr hu ie il in is it jp kr lu mx nl no nz pl pt ro "
    "ru se sg sk tr tv tw ua uk us za"
)
"""Endings by which a dotted name is recognized as a host name."""

UNIT_ENDINGS = words("service slice scope socket mount target timer")
"""Endings of systemd units, which look like mail addresses (``user@1000.service``)."""

SHOWN_LABELS = re.compile(
    r"(?:app|k8s-app|name|component|tier|role|run|track|environment|env|instance|"
    r"pod-template-hash|controller-revision-hash|pod-template-generation|"
    r"app\.kubernetes\.io/.{1,63}|statefulset\.kubernetes\.io/pod-name|"
    r"batch\.kubernetes\.io/.{1,63}|job-name|controller-uid)"
)
"""Labels that identify workloads, whose values are names and are shown."""


def is_plain(value: str) -> bool:
    """Return whether a value identifies nothing, such as a number, a size or "true"."""
    return (
        not value
        or value.lower() in _PLAIN_WORDS
        or (len(value) <= 400 and _PLAIN_VALUE.fullmatch(value) is not None)
    )


def is_plain_path(value: str) -> bool:
    """Return whether a path may exist on any system; its parts may still be searched."""
    return len(value) <= 400 and _PLAIN_PATH.fullmatch(value) is not None


# Forms of names, each with the form of values that are harmless for these names.
_PLAIN_FOR_NAME = (
    (
        re.compile(
            r"(?i)(?:.*_)?(?:commit|revision|sha|sha1|sha256|sha512|digest|checksum|gpg_key)"
        ),
        re.compile(r"(?i)(?:sha(?:1|256|512):)?[0-9a-f]{7,128}"),
    ),
    (
        re.compile(r"(?i)(?:.*_)?(?:version|ver|release|tag|major|minor)"),
        re.compile(
            r"(?i)(?:[a-z]{1,10}-?)?[0-9]{1,8}(?:\.[0-9]{1,8}){0,4}(?:[-+~._](?:[a-z]{1,12}|"
            r"[a-z]{0,8}[0-9]{1,8}|g?[0-9a-f]{7,12})){0,6}"
        ),
    ),
)


def is_plain_for(name: str, value: str) -> bool:
    """Return whether a variable's value fits its name: a version, or a hash of sources."""
    return any(
        names.fullmatch(name) is not None and values.fullmatch(value) is not None
        for names, values in _PLAIN_FOR_NAME
    )
