"""What leaves in clear at the end of a study, signed, so that nobody changes it on its way.

Sums hang on everything that was said before them. After the last one nothing is added up any more:
the result goes to the coordinator and names of codes go to everybody, each under its hospital's key
and bound to the study, the run and the attempt.
"""

from __future__ import annotations

from tripheno.exchange.keys import SIGNATURE_BYTES, Identity, check_signature
from tripheno.exchange.roster import digest_of

_PURPOSE = b"sums 2 in clear"


def occasion_of(study: bytes, run: str, epoch: int) -> bytes:
    """The attempt of a run for which something is signed."""
    return digest_of("occasion", study, run.encode(), epoch.to_bytes(8, "little"))


def signed(identity: Identity, occasion: bytes, label: str, data: bytes) -> bytes:
    """The data, and behind them a signature that is good for this message of this attempt."""
    return data + identity.sign(_PURPOSE, digest_of("said", occasion, label.encode(), data))


def verified(data: bytes, public: bytes, occasion: bytes, label: str, where: str) -> bytes:
    """The data, if whoever has this key signed them for this message of this attempt."""
    said, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
    content = digest_of("said", occasion, label.encode(), said)
    check_signature(public, _PURPOSE, content, signature, where)
    return said
