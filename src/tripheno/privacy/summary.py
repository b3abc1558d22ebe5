"""The data-protection summary of one hospital in one study, with the facts filled in.

Markdown, for the file of a privacy officer or an ethics committee. It says what the manifest says,
and no more than the protocol can keep. What has to be read stands on two screens; the table of
every message follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from tripheno.exchange.registry import How
from tripheno.privacy.labels import LABELS
from tripheno.privacy.manifest import LEAVES, Listed, Manifest, holds
from tripheno.protocol.agreed import StudyProtocol, words_of

SUMMARY = "data-protection-summary.md"
CLEAR = "IN CLEAR"  # the registry says so of what everybody who gets it can read
_ALIGNMENT = {
    "tokens": "as opaque tokens under secrets that only hospitals hold. The coordinator sees how "
    "many codes a hospital has and how many two hospitals share, not which",
    "vocabulary": "over public code lists: capped counts of people, in a blind sum. The "
    "coordinator sees no hospital's list, hospitals see the sum",
    "polynomial": "BY THE PAPER'S INSECURE PROTOCOL: the coordinator reads every hospital's list",
}


def summary_of(manifest: Manifest, protocol: StudyProtocol) -> str:
    """The whole page."""
    parts = (_opening, _members, _what_leaves, _thresholds, _not_protected, _checks, _messages)
    return "\n".join(line for part in parts for line in part(manifest, protocol)) + "\n"


def _opening(manifest: Manifest, protocol: StudyProtocol) -> Iterator[str]:
    facts = manifest.facts
    modes = " and ".join(f"{n:,} {mode} codes" for mode, n in facts.codes.items())
    yield f"# Data-protection summary: {manifest.study}, at {manifest.hospital}"
    yield ""
    yield f"Written by tripheno {manifest.tripheno} (`tripheno preview`)."
    yield ""
    if protocol.test:
        yield "**A TEST: ALL KEYS FOLLOW THE SEED, AND NOTHING IS HIDDEN.**"
        yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| Study protocol | `{manifest.protocol_sha256}` |"
    yield f"| Manifest | `{manifest.sha256}` |"
    yield f"| Data used here | {facts.patients:,} patients, {modes}, {facts.cells:,} cells |"
    yield f"| Counted by | {protocol.rule.window} |"
    solver = protocol.solver
    yield f"| Method | {solver.method}, {solver.n_components} phenotypes |"
    yield f"| Code lists are aligned | {_ALIGNMENT[protocol.alignment]} |"
    yield ""


def _members(_manifest: Manifest, protocol: StudyProtocol) -> Iterator[str]:
    yield "## Who takes part"
    yield ""
    if not protocol.members:
        yield "Not named yet."
        yield ""
        return
    if len(protocol.members) == 2:
        yield "EACH OF THE TWO SEES THE OTHER'S CONTRIBUTION (the sum less its own)."
        yield ""
    yield "| | institution | fingerprint of its key |"
    yield "|---|---|---|"
    for one in protocol.members:
        yield f"| {one.name} | {one.institution or one.name} | `{one.fingerprint}` |"
    yield f"| the coordinator | | {f'`{protocol.coordinator}`' if protocol.coordinator else '-'} |"
    yield ""
    yield f"Study words, to be compared with another hospital's: **{words_of(protocol)}**"
    yield ""


def _what_leaves(manifest: Manifest, _protocol: StudyProtocol) -> Iterator[str]:
    yield "## What leaves this hospital"
    yield ""
    kinds: dict[How, list[Listed]] = {}
    for message in manifest.messages:
        kinds.setdefault(message.how, []).append(message)
    for how, some in kinds.items():
        named = ", ".join(f"`{one.name}`" for one in some)
        clear = [
            one
            for one in some
            if CLEAR in one.rows and (one.name != LABELS.name or manifest.labels)
        ]
        rows = "".join(f". `{one.name}`: {one.rows}" for one in clear)
        yield f"- {LEAVES[how].capitalize()}: {named}{rows}."
    yield ""
    yield (
        f"In all at most {manifest.most_bytes:,} bytes and {manifest.most_rounds:,} rounds, upper "
        "limits: a run ends when it has converged. Every message is listed below."
    )
    yield ""
    yield "What is never sent: " + "; ".join(manifest.never_sent) + "."
    yield ""


def _messages(manifest: Manifest, _protocol: StudyProtocol) -> Iterator[str]:
    yield "## Every message"
    yield ""
    yield "| message | leaves | rows are | fields | bytes here | at most, a message | times |"
    yield "|---|---|---|---|---:|---:|---:|"
    for message in manifest.messages:
        yield (
            f"| {message.name} | {LEAVES[message.how]} | {message.rows} | "
            f"{holds(message.fields)} | {manifest.bytes_here(message):,} | "
            f"{message.most_bytes:,} | {manifest.times(message):,} |"
        )


def _thresholds(manifest: Manifest, protocol: StudyProtocol) -> Iterator[str]:
    facts, few = manifest.facts, manifest.min_cell_count
    yield "## Small numbers"
    yield ""
    yield (
        f"Codes that fewer than {few} people in the whole network have never enter. "
        f"A hospital with fewer than {manifest.min_site_patients} patients takes no part."
    )
    for mode, fewest in facts.fewest_patients.items():
        under = facts.codes_under_threshold[mode]
        yield (
            f"Here the rarest {mode} code has {_some(fewest, few)}; {under:,} {mode} codes have "
            f"fewer than {few} patients here, and stay only if other hospitals have enough more."
        )
    if protocol.solver.method == "local":
        yield "THE METHOD `local` SENDS THIS HOSPITAL'S OWN PHENOTYPES IN CLEAR."
    if manifest.labels:
        yield "This hospital releases the names of its codes in the final phenotypes."
    yield ""


def _some(people: int, few: int) -> str:
    return f"{people:,} patients" if people >= few else f"fewer than {few} patients"


def _not_protected(manifest: Manifest, protocol: StudyProtocol) -> Iterator[str]:
    yield "## What this rests on, and what it does not protect"
    yield ""
    if len(protocol.members) != 2:
        yield (
            "- The coordinator reads no sum before the release; hospitals read every sum, so each "
            "sees the others together. A hospital hides among the honest ones if at least two are."
        )
    yield (
        "- A sum itself is exact and not protected: it may tell something about a rare "
        "combination of codes. Whether a given person's record took part is not hidden. "
        "There is no differential privacy."
    )
    yield (
        "- A second run with other patients, codes or hospitals gives a second sum, and the "
        "difference of two sums speaks of what changed."
    )
    yield (
        "- A hospital that contributes false numbers is not detected (a changed sum is). It can "
        "keep a code that few people of the others have, and read them."
    )
    yield (
        f"- Beside this page lie the very bytes of the first round ({len(manifest.round_one)} "
        "messages), with their content before the mask, in `local/`."
    )
    yield ""


def _checks(_manifest: Manifest, _protocol: StudyProtocol) -> Iterator[str]:
    yield "## How to check"
    yield ""
    yield "`tripheno audit verify` checks the record of everything that left, `tripheno audit show`"
    yield "lists it, and `tripheno audit attack` attacks what others would have seen."
    yield ""
