"""The one primitive: hospitals contribute named arrays, the server sees the sum and broadcasts."""

from tripheno.exchange.channel import Channel, Guard, InProcessChannel, Listener, Responder
from tripheno.exchange.messages import Broadcast, Contribution, Message
from tripheno.exchange.sums import Exchange, MakeSums, PlainSums, Sums, plain_sums

__all__ = [
    "Broadcast",
    "Channel",
    "Contribution",
    "Exchange",
    "Guard",
    "InProcessChannel",
    "Listener",
    "MakeSums",
    "Message",
    "PlainSums",
    "Responder",
    "Sums",
    "plain_sums",
]
