"""An engine's leavings go after a month; nothing of a study does."""

import os
import time
from uuid import UUID

from tripheno.federation.journal import LOG, Journal
from tripheno.federation.pruning import MOST_BYTES, keep_short, prune

DAY = 86_400


def job(place, number, days):
    folder = place / str(UUID(int=number))
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "log.txt").write_text("over")
    when = time.time() - days * DAY
    for path in (folder / "app" / "log.txt", folder / "app", folder):
        os.utime(path, (when, when))
    return folder


def test_folders_of_old_jobs_go_and_the_last_stays(tmp_path):
    workspace = tmp_path / "kits" / "tripheno" / "prod_00" / "harbour"
    store = tmp_path / "store" / "harbour" / "jobs-storage"
    young, old = job(workspace, 1, 3), job(workspace, 2, 31)
    stored = [job(store, number, days) for number, days in ((3, 90), (4, 60))]
    for name in ("startup", "local", "runs"):
        (workspace / name).mkdir()
        os.utime(workspace / name, (0, 0))
    assert prune(workspace) == 2
    assert young.exists()
    assert not old.exists()
    assert [folder.exists() for folder in stored] == [False, True]
    assert sorted(path.name for path in workspace.iterdir())[1:] == ["local", "runs", "startup"]


def test_a_log_that_grew_long_is_put_aside(tmp_path):
    log = tmp_path / LOG
    with log.open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    Journal(tmp_path).note("joined", "joined")
    assert len(log.read_text().splitlines()) == 1
    assert log.with_name(LOG + ".1").stat().st_size == MOST_BYTES + 1
    keep_short(log)
    assert log.exists()
