# SPDX-License-Identifier: Apache-2.0
"""An NRI container and what plugins adjust of it, as parts of an OCI runtime spec."""
