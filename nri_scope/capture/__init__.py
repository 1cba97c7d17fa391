# SPDX-License-Identifier: Apache-2.0
"""Take captured exchanges from an event loop that must never block, and queue them for a writer.

In: sessions, captured exchanges, printed lines and gaps (`sink.Sink`), in the thread that replies
or relays. Out: the same entries, in order and in bounded memory: from an `Outbox` to the channel of
a writer process, and from an `Inbox` to that process's writer thread. A full queue becomes a
counted gap. This room never decodes a message or writes a file.
"""
