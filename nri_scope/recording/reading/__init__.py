# SPDX-License-Identifier: Apache-2.0
"""Read the rows of a recording as values, whatever is in them.

In: the path of a recording or a bundle. Out: a connection that only reads, with temporary views
(`opening`); sessions, events, messages, gaps and other rows as values of `nri_scope.events`
(`reader.Recording`); all of them as one stream (`entries`), in pages and within a budget of work.
This package never derives what no row says: `..query` does.
"""
