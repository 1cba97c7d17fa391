# SPDX-License-Identifier: Apache-2.0
"""Write an SBOM (CycloneDX 1.6, JSON) for the wheel, the image and the Helm chart.

``python -m scripts.make_sboms WHEEL IMAGE FOLDER`` needs the packages of
requirements/supply-chain.txt.
The components of the image are read from its layers: Python packages by their ``dist-info``, Debian
packages by ``var/lib/dpkg/status.d``, and Python by the variable ``PYTHON_VERSION``. Those of the
wheel are the locked packages that its metadata requires, with the versions of
requirements/runtime.txt; none of them is in the wheel.
The same input gives the same SBOM. Each is validated against the schema of CycloneDX.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import yaml
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).parent.parent
CHART = ROOT / "deploy/helm/nri-scope/Chart.yaml"
RUNTIME_LOCK = ROOT / "requirements/runtime.txt"
_LICENCES = LicenseFactory()


def main(wheel: Path, image: Path, folder: Path) -> None:
    """Write the three files."""
    write(folder / "nri-scope-wheel.cdx.json", wheel_bom(wheel))
    bom = image_bom(image)
    write(folder / "nri-scope-image.cdx.json", bom)
    write(folder / "nri-scope-chart.cdx.json", chart_bom(bom.metadata.component))


def wheel_bom(wheel: Path) -> Bom:
    """Return the SBOM of a wheel: itself, and the locked versions of what it needs."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        root = python_component(Parser().parsestr(archive.read(name).decode()))
    root.hashes.add(_hash(wheel))
    lock = re.findall(r"^([\w.-]+)==([^\s;\\]+)", RUNTIME_LOCK.read_text(), re.MULTILINE)
    return _bom(root, [_python(name, version) for name, version in lock])


def image_bom(image: Path) -> Bom:
    """Return the SBOM of an image: the packages in its layers."""
    components: list[Component] = []
    with tarfile.open(image) as archive:
        (descriptor,) = _json(archive, "index.json")["manifests"]
        manifest = _blob(archive, descriptor)
        config = _blob(archive, manifest["config"])
        for layer in manifest["layers"]:
            components += _packages(_read(archive, _blob_name(layer)))
    variables = dict(variable.split("=", 1) for variable in config["config"]["Env"])
    version = variables["PYTHON_VERSION"]
    python = Component(name="python", version=version, bom_ref=f"python@{version}")
    python.type, python.purl = (
        ComponentType.PLATFORM,
        PackageURL("generic", None, "python", version),
    )
    python.licenses.add(_LICENCES.make_from_string("PSF-2.0"))
    labels = {name.rpartition(".")[2]: value for name, value in config["config"]["Labels"].items()}
    digest = descriptor["digest"]
    root = Component(
        name="nri-scope",
        version=labels["version"],
        type=ComponentType.CONTAINER,
        bom_ref="image",
        purl=PackageURL("oci", None, "nri-scope", digest, {"arch": config["architecture"]}),
        licenses=[_LICENCES.make_from_string(labels["licenses"])],
    )
    return _bom(root, [python, *components])


def chart_bom(image: Component) -> Bom:
    """Return the SBOM of the chart, which consists of templates for one image."""
    chart = yaml.safe_load(CHART.read_text())
    root = Component(
        name=f"{chart['name']}-chart",
        version=chart["version"],
        type=ComponentType.APPLICATION,
        bom_ref="chart",
        description=chart["description"],
        licenses=[_LICENCES.make_from_string("Apache-2.0")],
    )
    return _bom(root, [image])


def python_component(metadata: Message) -> Component:
    """Return a Python package, with the licences that its metadata states."""
    component = _python(metadata["Name"], metadata["Version"])
    licence = metadata["License-Expression"] or metadata["License"] or ""
    if licence and len(licence) < 60:
        component.licenses.add(_LICENCES.make_from_string(licence))
    else:
        for classifier in metadata.get_all("Classifier") or ():
            if classifier.startswith("License ::"):
                component.licenses.add(_LICENCES.make_with_name(classifier.rpartition(" :: ")[2]))
    return component


def write(path: Path, bom: Bom) -> None:
    """Validate and write an SBOM without its random serial number and its time."""
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"{path}: {error}")
    path.write_text(text)
    print(f"{path}: {len(bom.components)} components")


def _bom(root: Component, components: Iterable[Component]) -> Bom:
    bom = Bom(components=components)
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    return bom


def _packages(layer: bytes) -> Iterator[Component]:
    """Yield the packages of a compressed layer."""
    with tarfile.open(fileobj=io.BytesIO(layer), mode="r:gz") as files:
        for entry in files:
            python = entry.name.endswith(".dist-info/METADATA")
            debian = entry.isfile() and entry.name.startswith("var/lib/dpkg/status.d/")
            if python or debian:
                content = files.extractfile(entry)
                assert content is not None
                metadata = Parser().parsestr(content.read().decode())
                yield python_component(metadata) if python else _debian(metadata)


def _python(name: str, version: str) -> Component:
    name = re.sub(r"[-_.]+", "-", name).lower()
    return Component(
        name=name,
        version=version,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("pypi", None, name, version),
    )


def _debian(metadata: Message) -> Component:
    name, version = metadata["Package"], metadata["Version"]
    return Component(
        name=name,
        version=version,
        bom_ref=f"deb-{name}@{version}",
        purl=PackageURL("deb", "debian", name, version, {"arch": metadata["Architecture"]}),
    )


def _hash(path: Path) -> HashType:
    return HashType(
        alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest()
    )


def _blob_name(descriptor: dict[str, str]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _blob(archive: tarfile.TarFile, descriptor: dict[str, str]) -> dict[str, Any]:
    return _json(archive, _blob_name(descriptor))


def _json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(_read(archive, name))
    return value


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    content = archive.extractfile(name)
    assert content is not None
    return content.read()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
