"""``tripheno withdraw``: take an approval back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tripheno.cli.console import Format, FormatOption, out, print_json
from tripheno.cli.study_files import FederationOption, SiteOption


def withdraw(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    form: FormatOption = Format.text,
) -> None:
    """Take the approval back: the very next message of this hospital is stopped."""
    from tripheno.cli.layers import layers_over
    from tripheno.federation.journal import Journal
    from tripheno.privacy.approval import withdraw as take_back
    from tripheno.protocol.site import read_site

    del federation_file  # whatever became of it: an approval can always be taken back
    site = read_site(site_file, layers_over("site"))
    path = take_back(site.approval, datetime.now(UTC).isoformat("T", "seconds"))
    Journal(site.state).note("withdrawn", "the approval was taken back")
    if form is Format.json:
        print_json({"withdrawal": str(path)})
        return
    out().print(f"Withdrawn: nothing more leaves {site.name}. What left before stays outside.")
