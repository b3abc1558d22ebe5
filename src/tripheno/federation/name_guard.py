"""At the server: a hospital's name belongs to the process that holds it, while that one is alive.

The engine lets a newcomer under a known name take over, connection and all. A process from a copied
kit is refused instead. One that was killed and started again looks the same at first; it is let in
once the heartbeats of the one before it have stopped for a while.
"""

from __future__ import annotations

import time
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from tripheno.federation.supervision import SECONDS_BETWEEN_HEARTBEATS

HEARTBEATS_TO_MISS = 6


class NameGuard(FLComponent):  # type: ignore[misc]
    """Asked by the engine whenever somebody registers."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Refuse a second holder of a name."""
        if event_type != EventType.CLIENT_REGISTER_RECEIVED:
            return
        if fl_ctx.get_prop(FLContextKey.CLIENT_TYPE) != ClientType.REGULAR:
            return
        name = fl_ctx.get_peer_context().get_identity_name()
        holder = fl_ctx.get_engine().client_manager.name_to_clients.get(name)
        if holder is not None and alive(holder.last_connect_time, time.time()):
            raise NotAuthenticated(f"{name} is at work already")


def alive(heard: float, now: float) -> bool:
    """Whether the last heartbeat is so young that its sender must be taken for alive."""
    return now - heard < HEARTBEATS_TO_MISS * SECONDS_BETWEEN_HEARTBEATS
