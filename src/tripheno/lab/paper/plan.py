"""What is measured: which tensor, how many hospitals, which methods, how often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from tripheno.errors import SettingsError
from tripheno.exchange.roster import FEWEST
from tripheno.solver.settings import Constraint, Method, SolverSettings, Variant
from tripheno.study.makers import SumsKind

Data = Literal["synthetic", "mimic", "eicu", "uci"]
DATA: tuple[str, ...] = get_args(Data)

WINDOWS = ("3h", "6h", "1d", "7d")  # of the paper's four tensors
HOSPITALS = (1, 2, 3, 4, 5, 10, 20, 50)  # the paper has 1 to 5
SKEWS = (1 / 3, 0.5, 0.7, 0.9, 0.99)  # the paper goes to 0.9
DIFFERENT = (2, 3, 5, 10)  # hospitals whose patients differ
SUMS_COMPARED = (3, 10, 50)  # hospitals for which blind and clear sums are set beside each other
CURVES = ("3h", "7d")  # the paper draws the error over iterations for these two


@dataclass(frozen=True)
class PaperSettings:
    """Everything a row depends on; equal settings give equal rows, but for the seconds."""

    data: Data = "synthetic"
    path: Path | None = None
    scale: float = 1.0  # share of the grids' patients; the two hospitals stay whole
    repeats: int = 10
    rank: int = 10
    constraint: Constraint = "none"  # as in the paper's tables
    distinctness: float = 0.01  # λ, as in the paper
    max_iter: int = 100
    tol: float = 1e-6
    seed: int = 0
    starts: int = 16  # for naming phenotypes: the same number for everybody
    share: tuple[int, int] = (0, 1)  # every second repeat from the first on would be (0, 2)

    def __post_init__(self) -> None:
        faults = []
        if self.data not in DATA:
            faults.append(f"data is {self.data!r}, not one of {', '.join(DATA)}")
        if self.data != "synthetic" and self.path is None:
            faults.append(f"{self.data} needs the folder of its tables")
        if self.data == "synthetic" and self.path is not None:
            faults.append("synthetic data has no folder")
        if not 0 < self.scale <= 1:
            faults.append(f"scale must lie between 0 and 1, not {self.scale}")
        if self.repeats < 1 or self.starts < 1:
            faults.append("repeats and starts must be 1 or more")
        if not 0 <= self.share[0] < self.share[1]:
            faults.append(f"there is no share {self.share[0]}/{self.share[1]} of the repeats")
        if faults:
            raise SettingsError(
                "; ".join(faults), where="paper", fix="as in: --data mimic /path/to/mimic-iii"
            )

    @property
    def is_share(self) -> bool:
        """Whether other processes measure other repeats of the same run."""
        return self.share[1] > 1

    @property
    def own_repeats(self) -> range:
        """The repeats that are this process's to measure: all, unless it has a share."""
        return range(self.share[0], self.repeats, self.share[1])

    @property
    def company(self) -> dict[str, int]:
        """What to say about a row that is not measured alone."""
        return {"processes": self.share[1]} if self.is_share else {}

    def solver(self, repeat: int) -> SolverSettings:
        """The solver's settings of one repeat: every method begins at the same start."""
        return SolverSettings(
            self.rank,
            constraint=self.constraint,
            distinctness=self.distinctness,
            max_iter=self.max_iter,
            tol=self.tol,
            seed=self.seed + repeat,
            starts=1,
            influence="none",
        )

    def to_dict(self) -> dict[str, Any]:
        """What must be equal for rows to belong together: not how many repeats, nor whose."""
        named = {**asdict(self), "path": None if self.path is None else self.path.name}
        del named["repeats"], named["share"]
        return named


class Contender(NamedTuple):
    """A method, and for `trip` which reading of the paper."""

    method: Method
    variant: Variant | None = None

    @property
    def words(self) -> str:
        """As a reader calls it."""
        return f"{self.method} {self.variant}" if self.variant else self.method


CENTRAL = Contender("central")
CORRECTED = Contender("trip", "corrected")
RELEASED = Contender("trip", "released")
EXACT = Contender("exact")
LOCAL = Contender("local")
CONTENDERS = (CENTRAL, CORRECTED, EXACT, LOCAL, RELEASED)
ESSENTIAL = (CENTRAL, CORRECTED, EXACT)  # measured first, should the run be cut short


Dealing = Literal["at random", "by phenotype"]


class Point(NamedTuple):
    """One place on the x axis of an experiment."""

    x: float | None  # None: the tensor's number of nonzeros, known once it is counted
    window: str
    hospitals: int
    skew: float | None
    sums: SumsKind
    dealing: Dealing = "at random"

    @property
    def federation(self) -> tuple[object, ...]:
        """Which patients are where, and how they add up: equal for points that are the same run."""
        share = 1 / self.hospitals if self.skew is None else self.skew
        return (self.window, self.hospitals, share, self.sums, self.dealing)


class Task(NamedTuple):
    """One row to be."""

    experiment: str
    point: Point
    contender: Contender
    repeat: int


def points_of(experiment: str) -> tuple[Point, ...]:
    """The x axis of an experiment."""
    first = WINDOWS[0]
    match experiment:
        case "nonzeros":
            return tuple(Point(None, window, 3, None, "blind") for window in WINDOWS)
        case "hospitals":
            return tuple(Point(k, first, k, None, usual_sums(k)) for k in HOSPITALS)
        case "skew":
            return tuple(Point(share, first, 3, share, "blind") for share in SKEWS)
        case "case-mix":
            return tuple(Point(k, first, k, None, usual_sums(k), "by phenotype") for k in DIFFERENT)
        case "sums-plain":
            return tuple(Point(k, first, k, None, "plain") for k in SUMS_COMPARED)
        case "sums-blind":
            return tuple(Point(k, first, k, None, "blind") for k in SUMS_COMPARED)
    raise SettingsError(f"there is no experiment {experiment!r}")


def usual_sums(hospitals: int) -> SumsKind:
    """Blind from three hospitals on, as everywhere."""
    return "blind" if hospitals >= FEWEST else "plain"


def contenders_of(experiment: str) -> tuple[Contender, ...]:
    """Who takes part; blinding matters only to the methods that send sums in every round."""
    return ESSENTIAL if experiment.startswith("sums") else CONTENDERS


def tasks_of(experiments: tuple[str, ...], repeats: Iterable[int]) -> list[Task]:
    """Every row of the experiments, those first that say most if the run is cut short."""

    def every() -> Iterator[tuple[tuple[int, ...], Task]]:
        for e, experiment in enumerate(experiments):
            for p, point in enumerate(points_of(experiment)):
                for c, contender in enumerate(contenders_of(experiment)):
                    for repeat in repeats:
                        tier = int(contender not in ESSENTIAL or experiment.startswith("sums"))
                        order = (int(repeat > 0), tier, repeat, e, p, c)
                        yield order, Task(experiment, point, contender, repeat)

    return [task for _, task in sorted(every(), key=lambda pair: pair[0])]
