# SPDX-License-Identifier: Apache-2.0
"""The text of a plugin that sets an environment variable."""

from __future__ import annotations

PLUGIN = """#!{python}
from nri_scope.plugin import api, run

class Plugin:
    def create_container(self, pod, container):
        return api.ContainerAdjustment(env=[api.KeyValue(key="{variable}", value="1")])

run(Plugin(), name="plugin")
"""
