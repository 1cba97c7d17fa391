# SPDX-License-Identifier: Apache-2.0
"""Serve the images of OCI layouts as a registry, for runtimes that only pull images."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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


def serve(port: int, archives: Iterable[str]) -> None:
    """Serve the images named ``localhost/NAME:TAG`` of archives."""
    _Handler.blobs, _Handler.tags = {}, {}
    for archive in archives:
        with tarfile.open(archive) as tar:
            files = {
                member.name: stream.read()
                for member in tar
                if (stream := tar.extractfile(member)) is not None
            }
        for name, content in files.items():
            if name.startswith("blobs/"):
                _Handler.blobs[f"sha256:{name.rpartition('/')[2]}"] = content
        for one in json.loads(files["index.json"])["manifests"]:
            name = one["annotations"]["io.containerd.image.name"]
            _Handler.tags[name.removeprefix("localhost/")] = one["digest"]
    ThreadingHTTPServer(("127.0.0.1", port), _Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
