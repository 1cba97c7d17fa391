# SPDX-License-Identifier: Apache-2.0
"""Our plugin and runtime against programs built on the upstream Go packages."""
