"""Thresholds and approvals: exit 4, TRIP-E4xx."""

from __future__ import annotations

from tripheno.errors.base import TriphenoError


class PolicyError(TriphenoError):
    """A threshold or a missing approval forbids this."""

    code, exit_code = "TRIP-E400", 4


class TooFewHospitals(PolicyError):
    """Secure sums need three hospitals: with two, each sees the other's contribution.

    Subtracting one's own part from the sum of two leaves the other's. Find a third hospital, or
    say `allow_two` and accept that the two see each other's contribution.
    """

    code = "TRIP-E401"


class MaskReuse(PolicyError):
    """A step was asked for twice with different content. Two contributions under one mask would
    show their difference, so the second was refused.
    """

    code = "TRIP-E402"


class NothingLeft(PolicyError):
    """Every code of a mode is below the smallest count that may be used, network-wide.

    Lower --min-cell where that is allowed, roll codes up to broader ones, or add hospitals.
    """

    code = "TRIP-E403"


class BrokenChain(PolicyError):
    """An audit log was changed, cut or put together from parts: a line is not the next one.

    The message names the first line that is wrong. The lines before it are intact.
    """

    code = "TRIP-E404"


class InsecureRefused(PolicyError):
    """A protocol known to be insecure was asked for without saying that this is accepted.

    `--align polynomial` is the seed paper's protocol: the server can read every hospital's code
    list. Use it only with synthetic data, and say `--insecure` then.
    """

    code = "TRIP-E405"


class ThresholdTooLow(PolicyError):
    """A hospital's threshold for small cells is too far above the study's, or rose during a run.

    The strictest threshold that a hospital announces holds for all, up to ten times the study's:
    people are counted up to it, so a higher one would show more. Agree on a higher one for all.
    """

    code = "TRIP-E411"


class UnknownMember(PolicyError):
    """A hospital is not one of those that the study's members agreed on, or shows another key.

    Compare fingerprints by telephone, not by the network: ask the hospital to read its own to you
    before you change one in `federation.toml`.
    """

    code = "TRIP-E412"


class GateRefused(PolicyError):
    """A message was stopped at the hospital's gate: it is not one that the manifest allows.

    Its kind, its fields, its shape or the bytes and rounds left did not fit. Nothing of it was
    sent, and the audit log has a line about it. Look at `tripheno preview`, and approve again only
    if you want this to leave.
    """

    code = "TRIP-E413"


class NotApproved(PolicyError):
    """What this hospital would send was not approved, or has changed since.

    The message says what differs: the manifest, the protocol, the version, the data, the officer's
    key, or the date. Run `tripheno preview`, read it, and `tripheno approve` again.
    """

    code = "TRIP-E414"


class SiteTooSmall(PolicyError):
    """A hospital has fewer patients than the study asks for.

    Sums say more about few patients than about many. The hospital may lower `min_site_patients` in
    its own `site.toml` if its privacy officer agrees.
    """

    code = "TRIP-E415"


class Withdrawn(PolicyError):
    """The approval of this hospital was taken back with `tripheno withdraw`: nothing leaves.

    What left before cannot be called back. Run `tripheno preview` and `tripheno approve` to take
    part again.
    """

    code = "TRIP-E416"


class RealDataInTest(PolicyError):
    """A study with `test = true` makes all keys from its seed: it is for made-up records only.

    Whoever has `federation.toml` can read every sum of such a study. Take `test` out of it; or, if
    the records are made up, ingest them again with `--synthetic`.
    """

    code = "TRIP-E417"


class OtherProtocol(PolicyError):
    """A member holds another `federation.toml`, or another version of tripheno, than the rest.

    Hashes are compared before anything else happens. Send everyone the same file; install the same
    version everywhere; approve again.
    """

    code = "TRIP-E421"
