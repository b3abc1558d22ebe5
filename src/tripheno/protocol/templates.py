"""Settings files written for a person to fill in: every key with its default and what it means."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tripheno.protocol.agreed import AgreedMember, EvidenceSettings, Operation, SetAside
from tripheno.protocol.limits import Budgets, Thresholds
from tripheno.solver.settings import SolverSettings

_FEDERATION = """\
# The protocol of a study. Every hospital has the same file: its hash stands in every approval and
# in every result. A line that begins with # shows a default; remove the # to change it.

[study]
name = {study}
# test = false        # true: keys follow the seed. For rehearsals on synthetic data only.
# allow_two = false   # true: two hospitals are enough, and each sees the other's contribution.
# accept_division_leak = false   # true: `trip` may show peers how patients are divided.

[data]
modes = ["medication", "diagnosis"]   # two or more: medication, diagnosis, lab, procedure
window = "visit"                      # visit, person, same-day; sliding: 3h, 6h, 1d, 7d
# cap = 3                             # largest count of a cell; none if not given

[alignment]
mode = "tokens"       # tokens: local codes. vocabulary: codes of a public list, which you name:
# [alignment.lists]
# medication = "rxnorm.txt"           # a file beside this one, one code a line
# diagnosis = "icd9cm.txt"

# [set_aside]          # codes that say nothing about a disease take no part
# carriers = true      # fluids and bags that only carry a drug, as `tripheno ingest` marks them
# common = {common}         # codes that a larger share of all patients has; 1: none

[model]
rank = {rank}                # how many phenotypes; `tripheno rank` helps to choose
method = "{method}"      # exact; trip is the paper's; local shows each hospital's own phenotypes
# variant = "{variant}"
# constraint = "{constraint}"   # nonnegative, sparse, none
# loss = "{loss}"              # what a good fit is: squared, or poisson (counts as counts)
# seed = {seed}
# max_iter = {max_iter}
# tol = {tol}
# starts = {starts}                   # of the tournament; 1: one random start
# influence = "{influence}"         # no patient counts for more than the typical one; or none
# bias = false

# [penalties]
# distinctness = 0.0             # λ, as the paper prints it
# relative_distinctness = 0.0    # λ as a multiple of the data's size, so that it acts on any data
# sparsity = {sparsity}               # weight of the L1 term where the constraint is sparse
# consensus_penalty = 1.0        # ω; follows the data when not given
# split_penalty = 1.0            # μ; follows λ when not given
# penalty_scale = {penalty_scale}

# [guides."Heart failure"]       # phenotypes you have in mind: codes or labels by mode
# diagnosis = ["428.0", "428.1"]

[evidence]
# resamples = {resamples}                 # of the patients: do phenotypes come back?
# ranks = [4, 6, 8]              # other numbers of phenotypes to weigh

[thresholds]
min_cell_count = {min_cell_count}      # codes that fewer people in the network have never enter
min_site_patients = {min_site_patients}  # fewer: stays out, unless its site.toml allows less

[budgets]
max_rounds = {max_rounds}        # of one hospital in one run
max_megabytes = {max_megabytes}     # that may leave one hospital in one run
max_codes = {max_codes}        # of one mode, in the whole network
max_runs = {max_runs}             # of the study on the same data of one hospital

[coordinator]
address = "{address}"
{fingerprint}    # of the key that countersigns the audit logs
# round_seconds = {round_seconds}
# checkpoint_every = {checkpoint_every}

# One [[members]] for every hospital; all of them are needed in every step, none can be left out.
# Fingerprints are read out on the telephone, not mailed.
{members}"""

_MEMBER = """\
[[members]]
name = {name}
fingerprint = {fingerprint}
# institution = "…"    # members of one institution count as one
"""

_SITE = """\
# What this hospital decides for itself. This file stays here.

[hospital]
name = {name}            # as in federation.toml
events = {events}        # the folder that `tripheno ingest` writes

[thresholds]
# min_cell_count = {min_cell_count}       # a higher one than the study's then holds for all
# min_site_patients = {min_site_patients}  # with fewer this hospital stays out; you may lower it

[keys]
identity = "keys/hospital.key"     # the hospital's long-term key; only its owner may read it
# officer = ""                     # fingerprint of the privacy officer's key, who approves

[folders]
approval = "approved"    # manifest.json and approval.json
state = "state"          # checkpoints and the audit log

[shards]
# number = 1             # processes that share its patients; the others see one hospital
# engine = "processes"   # or "ray": a cluster of its own

# `tripheno ingest flat` reads its column mapping from here too: [[source.tables]], see the how-to.
"""


def federation_toml(
    study: str = "my study",
    members: Sequence[AgreedMember] = (),
    *,
    address: str = "coordinator.example.org:8002",
    fingerprint: str = "",
) -> str:
    """A `federation.toml` with every key in it, ready to be read once it has its members."""
    shown = "\n".join(
        _MEMBER.format(name=json.dumps(one.name), fingerprint=json.dumps(one.fingerprint))
        for one in members
    )
    example = _MEMBER.format(name='"northfield"', fingerprint='"64 hexadecimal digits"')
    commented = "".join(f"# {line}\n" for line in example.splitlines())
    solver = SolverSettings().to_dict()
    return _FEDERATION.format(
        **{**solver, "rank": solver["n_components"]},
        study=json.dumps(study, ensure_ascii=False),
        address=address,
        fingerprint=f'{"" if fingerprint else "# "}fingerprint = "{fingerprint}"',
        round_seconds=Operation.round_seconds,
        checkpoint_every=Operation.checkpoint_every,
        common=SetAside.common,
        resamples=EvidenceSettings.resamples,
        min_cell_count=Thresholds.min_cell_count,
        min_site_patients=Thresholds.min_site_patients,
        max_rounds=Budgets.max_rounds,
        max_megabytes=Budgets.max_megabytes,
        max_codes=Budgets.max_codes,
        max_runs=Budgets.max_runs,
        members=shown or commented,
    )


def site_toml(name: str, events: str = "events") -> str:
    """A `site.toml` with every key in it."""
    return _SITE.format(
        name=json.dumps(name, ensure_ascii=False),
        events=json.dumps(events, ensure_ascii=False),
        min_cell_count=Thresholds.min_cell_count,
        min_site_patients=Thresholds.min_site_patients,
    )
