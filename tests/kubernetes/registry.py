# SPDX-License-Identifier: Apache-2.0
"""Serve the images of an OCI layout as a registry, for runtimes that only pull images."""

from __future__ import annotations

import json
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Handler(BaseHTTPRequestHandler):
    blobs: dict[str, bytes]
    tags: dict[str, str]

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        parts = self.path.strip("/").split("/")
        content, kind = b"{}", "application/json"
        if len(parts) == 4:
            _, name, place, reference = parts
            digest = self.tags.get(f"{name}:{reference}", reference)
            content = self.blobs[digest]
            kind = "application/octet-stream"
            if place == "manifests":
                kind = json.loads(content)["mediaType"]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)


def serve(archive: Path, port: int) -> None:
    """Serve the images named ``localhost/NAME:TAG`` of an archive."""
    with tarfile.open(archive) as tar:
        files = {
            member.name: stream.read()
            for member in tar
            if (stream := tar.extractfile(member)) is not None
        }
    _Handler.blobs = {
        f"sha256:{name.rpartition('/')[2]}": content
        for name, content in files.items()
        if name.startswith("blobs/")
    }
    _Handler.tags = {
        one["annotations"]["io.containerd.image.name"].removeprefix("localhost/"): one["digest"]
        for one in json.loads(files["index.json"])["manifests"]
    }
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
