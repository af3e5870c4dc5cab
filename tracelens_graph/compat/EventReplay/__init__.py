"""TraceLens's `EventReplay`: its class, and beside this file a program for many events and what goes with it."""

from __future__ import annotations

from tracelens_graph.compat.event_replay import EventReplayer

__all__ = ["EventReplayer"]
