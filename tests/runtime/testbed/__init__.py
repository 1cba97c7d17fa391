# SPDX-License-Identifier: Apache-2.0
"""A real containerd that starts real containers under real NRI, on a plain Debian machine."""
