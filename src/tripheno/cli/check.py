"""``tripheno check``: what would go wrong, before anything starts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tripheno.cli.console import Format, FormatOption, out, print_json, table
from tripheno.cli.study_files import FederationOption, SiteOption


def check(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    form: FormatOption = Format.text,
) -> None:
    """Look over this machine before it takes part: one line a check."""
    from tripheno.cli.checks import CheckResult, coordinator_checks, site_checks

    if site_file.is_file():
        found = site_checks(site_file, federation_file)
    else:
        found = coordinator_checks(federation_file)
    if form is Format.json:
        print_json([asdict(one) for one in found])
    else:
        shown = table(
            "", {"Check": False, "Problem": False, "How to fix, or what was found": False}
        )
        for one in found:
            shown.add_row(one.name, one.problem or "none", one.fix)
        out().print(shown)
    worst: CheckResult | None = next((one for one in found if one.exit_code), None)
    if worst is not None:
        raise SystemExit(worst.exit_code)
