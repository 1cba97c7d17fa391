# SPDX-License-Identifier: Apache-2.0
"""Refresh the rules by which redaction knows credentials of services, from those of gitleaks.

    python -m scripts.update_gitleaks_rules                  the newest version of the Go module
    python -m scripts.update_gitleaks_rules --version v8.30.1
    python -m scripts.update_gitleaks_rules --folder DIR     a copy of gitleaks

Expressions and keywords are taken over as they are, with the licence. Entropies are not: these tell
placeholders from credentials, and a placeholder that is replaced is no loss. See
docs/decisions/0001-credential-formats.md for what is left out, and why.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

MODULE = "github.com/zricethezav/gitleaks/v8"
TARGET = Path(__file__).parents[1] / "nri_scope" / "share" / "redaction" / "gitleaks"

LEFT_OUT = {
    "generic-api-key": "any value of a key that sounds secret; our own rules for keys do that",
    "curl-auth-header": "our own rules for headers do that, in every program's arguments",
    "curl-auth-user": "our own rules for arguments do that",
    "jwt": "ours also finds encrypted and short ones",
    "jwt-base64": "we look into base64",
    "private-key": "ours also finds those that are cut off",
    "vault-service-token": "ours also finds short ones; its keyword is in every fourth text",
}
_TAKEN = ("id", "regex", "secretGroup", "keywords")


def taken(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that we use, with what we use of them."""
    return [
        {name: rule[name] for name in _TAKEN if name in rule}
        for rule in config["rules"]
        # Those for files of one name, or for the name alone, say nothing about other texts.
        if "regex" in rule and "path" not in rule and rule["id"] not in LEFT_OUT
    ]


def update(folder: Path, version: str, target: Path = TARGET) -> int:
    """Write rules and licence out of a copy of gitleaks; returns how many rules there are."""
    config = tomllib.loads((folder / "config" / "gitleaks.toml").read_text())
    rules = taken(config)
    document = {"module": MODULE, "version": version, "licence": "MIT", "rules": rules}
    target.mkdir(exist_ok=True)
    (target / "rules.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    shutil.copyfile(folder / "LICENSE", target / "LICENSE")
    return len(rules)


def download(version: str) -> tuple[Path, str]:
    """The folder of the module in Go's cache, and the version that it has."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "Dir" not in answer:
        sys.exit(answer.get("Error") or done.stderr or "go mod download failed")
    return Path(answer["Dir"]), answer["Version"]


def main() -> None:
    """Refresh them, and say how many there are."""
    parser = argparse.ArgumentParser(description="Refresh the rules taken from gitleaks.")
    parser.add_argument("--version", default="latest", help="of the Go module, or of the copy")
    parser.add_argument("--folder", type=Path, help="a copy of gitleaks instead of the Go module")
    options = parser.parse_args()
    folder, version = options.folder, options.version
    if folder is None:
        folder, version = download(version)
    elif version == "latest":
        parser.error("--folder needs --version, to write down which one it is")
    print(f"{update(folder, version)} rules of gitleaks {version}")


if __name__ == "__main__":
    main()
