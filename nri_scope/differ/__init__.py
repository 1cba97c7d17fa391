# SPDX-License-Identifier: Apache-2.0
"""Which plugin changed what of a container: evidence weighed, in OCI terms."""
