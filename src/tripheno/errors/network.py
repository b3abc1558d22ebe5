"""Connections, certificates, messages and peers: exits 5 and 6, TRIP-E5xx and E6xx."""

from __future__ import annotations

from tripheno.errors.base import TriphenoError


class NetworkError(TriphenoError):
    """A connection failed or a message was refused."""

    code, exit_code = "TRIP-E500", 5


class BadMessage(NetworkError):
    """A message is truncated, malformed, of the wrong shape or carries values that are not finite.

    It was refused and nothing of it was used.
    """

    code = "TRIP-E501"


class BadSignature(BadMessage):
    """A message was not signed by the hospital whose name it bears, or was changed on its way."""

    code = "TRIP-E502"


class WrongStep(BadMessage):
    """A message belongs to another run, step or hospital: repeated, or sent to a wrong place."""

    code = "TRIP-E503"


class OlderBackup(WrongStep):
    """The coordinator's machine was restored from an older backup: this attempt was made before.

    An attempt is never made twice, for its keys would be used again, so a hospital refuses. Nothing
    is lost: `tripheno run` counts on, 25 attempts at a start, until it comes to one that nobody has
    made, and goes on from the last iteration that every hospital kept. If it ends with this error,
    start it again; or give the run up with `tripheno run --abort` and begin a new one.
    """

    code = "TRIP-E506"


class CannotAgreeOnScale(BadMessage):
    """A contribution is too large for every scale that was tried. Nothing was clipped or sent."""

    code = "TRIP-E504"


class BrokenSum(BadMessage):
    """What a hospital got back is not the sum of what all hospitals sent.

    A message was changed on its way, or hospitals were told different things. Nothing of it was
    used, and the hospital forgot the keys of this epoch. Start the run again: it goes on from the
    last checkpoint under new keys. If it happens again, the coordinator's machine or a member is at
    fault.
    """

    code = "TRIP-E505"


class CoordinatorUnreachable(NetworkError):
    """Nobody answers at the coordinator's address, or what answers is not our server.

    Hospitals need one outbound TCP port to the address in `federation.toml`. Ask your network team
    for it: host, port, TCP, outbound, TLS that must not be opened on the way (no inspecting proxy).
    """

    code = "TRIP-E511"


class BadCertificate(NetworkError):
    """A certificate was refused: another authority, a wrong fingerprint, or no member's request.

    Compare the authority's fingerprint with the coordinator by telephone. A certificate is asked
    for with `tripheno cert request`, approved by the coordinator and put in place with
    `tripheno cert install`.
    """

    code = "TRIP-E512"


class ExpiredCertificate(BadCertificate):
    """A certificate is not valid today: it ran out, or this machine's clock is wrong.

    Check the clock first (`timedatectl`). If it is right, request a new certificate.
    """

    code = "TRIP-E513"


class NameNotInCertificate(BadCertificate):
    """The server's certificate was made for another name than the address says.

    The host in `coordinator.address` must be the name the coordinator's server was started with.
    """

    code = "TRIP-E514"


class NoKit(NetworkError):
    """There is no certificate on this machine yet.

    At a hospital: `tripheno cert request`, have it approved, `tripheno cert install`. At the
    coordinator: `tripheno serve` makes its own.
    """

    code = "TRIP-E515"


class NameTaken(NetworkError):
    """A process under this hospital's name is already at work; a second one is refused.

    Stop the other one first. If it does not run here, somebody else holds a copy of this
    hospital's certificate: tell the coordinator.
    """

    code = "TRIP-E516"


class EngineRefused(NetworkError):
    """The federation's engine refused a command, a job or a login. The message says which."""

    code = "TRIP-E517"


class ForeignJob(NetworkError):
    """The engine was given a job with other files than tripheno's own; nothing of it was run.

    A hospital runs only code it installed. The job never changes within a version, so this is
    another version at the coordinator, or somebody who tries to send code.
    """

    code = "TRIP-E518"


class PortTaken(NetworkError):
    """The coordinator's server cannot use its port: it is taken, or this account may not use it.

    `ss -ltnp` names the program. Two studies on one machine need two ports.
    """

    code = "TRIP-E519"


class DatabaseUnreachable(NetworkError):
    """The hospital's database could not be reached or refused the connection.

    The message never repeats the address, for it may hold a password.
    """

    code = "TRIP-E531"


class PeerLost(TriphenoError):
    """A hospital or the coordinator did not answer in time."""

    code, exit_code = "TRIP-E600", 6


class SessionLost(PeerLost):
    """A hospital was started again and holds no keys of this run any more.

    Nothing is wrong: the run goes on from the last iteration that every member kept, under new
    keys.
    """

    code = "TRIP-E601"
