"""`evaluate`: swaps people of a folder onto each other and tells how good the swaps are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from mien.api import parse_options
from mien.errors import OutputError
from mien.evaluate.bench import Bench, Swapped, twins
from mien.evaluate.comparison import compare
from mien.evaluate.engine import Engine
from mien.evaluate.faces import Examiner
from mien.evaluate.gallery import open_gallery
from mien.evaluate.handplaced import HandPlaced
from mien.evaluate.judges import OWN, Classifier, open_judges
from mien.evaluate.options import EvalOptions
from mien.evaluate.people import draw_pairs, of_folders, of_part, read_people
from mien.evaluate.report import EvalReport, Row, summarise
from mien.evaluate.sheets import choose, overview, sheet, strip, write_picture
from mien.evaluate.tables import markdown
from mien.media.atomic import atomic_output
from mien.media.work import write_error
from mien.types import ByteArray
from mien.zoo.registry import Zoo

PathLike: TypeAlias = str | os.PathLike[str]
CLIPS = "clips"
"""Folder of the clips within the data."""
OVERVIEW = 60
"""Swaps on the overview."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far an evaluation is; handed to the `progress` callback."""

    phase: str
    """`gallery`, `swaps`, `same person`, `there and back`, `clips` or `landmarks`."""
    done: int
    total: int | None
    seconds: float
    """Since the phase began."""

    @property
    def fps(self) -> float:
        """Pictures or clips per second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


OnStep: TypeAlias = Callable[[Step], None]


def evaluate(
    data: PathLike,
    *,
    people: PathLike | None = None,
    evaluators: Sequence[PathLike] = (),
    naturalness: PathLike | None = None,
    output: PathLike | None = None,
    against: EvalReport | None = None,
    save_outputs: bool = False,
    progress: OnStep | None = None,
    zoo: Zoo | None = None,
    **options: Any,
) -> EvalReport:
    """Swap people of a folder onto each other and judge the swaps.

    Args:
        data: folder of photos, in it or in its folders, named by person; clips lie in `clips`, and hand-placed points
            beside photos, see `handplaced.read_points`.
        people: table of them; see `people.read_people`.
        evaluators: further judges of identity: ONNX files or names of embedders.
        naturalness: ONNX file of a classifier of swapped faces: N×3×224×224 RGB 0–1, an upright crop of 1.5 times the
            target's mesh, to N×1 logits, higher for swapped.
        output: folder to write `report.json`, `report.md` and contact sheets to; made if it is not there.
        against: an earlier report whose figures `report.md` compares with.
        save_outputs: write each output too, to `outputs` in that folder.
        progress: called after each picture; what it raises ends the run.
        options: fields of `EvalOptions`, those of `SwapOptions` among them.

    Raises:
        OptionsError: an unknown option or value, or a part or folder that nobody is in.
        InputError: nobody to swap, or a table that is none. MediaError: a file that cannot be read.
        ModelError, DeviceError: see `Zoo.load`, and an evaluator that is none.
        OutputError: the report cannot be written there.
    """
    started = perf_counter()
    chosen, root = parse_options(EvalOptions, options), Path(data)
    everyone = read_people(root, None if people is None else Path(people))
    ours = of_part(everyone, chosen.part)
    sources, targets = of_folders(ours, chosen.sources), of_folders(ours, chosen.targets)
    pairs = draw_pairs(sources, targets, chosen.pairs, chosen.seed)
    folder = None if output is None else _folder(Path(output))
    swaps = chosen.swap_options()
    models = zoo or Zoo.of(swaps)
    judges = open_judges(models, [str(evaluator) for evaluator in evaluators])
    classifier = None if naturalness is None else Classifier(Path(naturalness))
    engine = Engine(models, swaps)
    examiner = Examiner(models, swaps, judges)
    tell = Teller(progress)
    known = of_folders(everyone, chosen.sources)
    gallery, skipped = open_gallery(examiner, known, tell.phase("gallery", len(known)))
    pictures = _Pictures(folder if save_outputs else None)
    bench = Bench(root, engine, examiner, gallery, chosen.seed, classifier, pictures.add if folder else None)
    clips = sorted((root / CLIPS).glob("*.mp4"))
    own, back = twins(ours)[: chosen.same_person], min(chosen.cycles, len(sources))
    hand_placed = HandPlaced(root, examiner)
    marked = hand_placed.marked(ours, chosen.landmarks, chosen.seed)
    clip_swaps = min(chosen.clip_swaps, len(sources)) * len(clips)
    rows = [
        *tell.rows("swaps", bench.swaps(pairs), len(pairs)),
        *tell.rows("same person", bench.same_person(own), len(own)),
        *tell.rows("there and back", bench.cycles(sources, back), back),
        *tell.rows("clips", bench.clips(sources, clips, chosen.clip_swaps, chosen.clip_frames), clip_swaps),
        *hand_placed.rows(marked, tell.phase("landmarks", len(marked))),
    ]
    names = [judge.name for judge in judges]
    told = [text.replace(f"{root}/", "") for text in skipped]
    settings = _settings(chosen, {"gallery": len(gallery), "sources": len(sources), "targets": len(targets)})
    left_out = dict.fromkeys((*told, *bench.skipped, *hand_placed.skipped))
    report = summarise(rows, names, settings | hand_placed.told, left_out)
    report = replace(report, seconds=round(perf_counter() - started, 1))
    if folder is not None:
        write(report, folder, pictures.sheets(chosen.examples), against)
    return report


def write(
    report: EvalReport, folder: Path, pictures: dict[str, ByteArray] | None = None, against: EvalReport | None = None
) -> None:
    """Write `report.json`, `report.md` and pictures.

    Raises:
        OutputError: they cannot be written. InputError: the reports share no pair.
    """
    differences = compare(report, against) if against is not None else ()
    sheets = [f"{name}.jpg" for name in pictures or {}]
    for name, picture in (pictures or {}).items():
        write_picture(folder / f"{name}.jpg", picture)
    texts = {"report.md": markdown(report, sheets, differences), "report.json": json.dumps(report.to_dict(), indent=1)}
    for name, text in texts.items():
        with atomic_output(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")


class _Pictures:
    """Strips of the swaps, kept as JPEG until the sheets are made."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = None if folder is None else _folder(folder / "outputs")
        self._rows: list[Row] = []
        self._strips: list[bytes] = []

    def add(self, row: Row, swap: Swapped) -> None:
        """Take one swap."""
        self._rows.append(row)
        self._strips.append(strip(swap.source, swap.source_face, swap.target, swap.output, swap.face, swap.place))
        if self._folder is not None:
            name = f"{_stem(row.source)}__{_stem(row.target)}.png"
            write_picture(self._folder / name, swap.output)

    def sheets(self, examples: int) -> dict[str, ByteArray]:
        """Name → picture: the best, typical and worst by identity and by seam, and an overview."""
        if not self._rows:
            return {}
        found = {"overview": overview(self._strips[:OVERVIEW])}
        for name, column, higher in (("identity", f"{OWN}.source", True), ("seam", "seam", False)):
            groups = choose(self._rows, column, examples, higher=higher)
            places = [(group, i) for group, members in groups.items() for i in members]
            if places:
                found[name] = sheet([(f"{group}: {self._text(i)}", self._strips[i]) for group, i in places])
        return found

    def _text(self, i: int) -> str:
        row = self._rows[i]
        values = [f"cosine {row.values.get(f'{OWN}.source', float('nan')):.2f}"]
        values += [f"{name} {row.values[name]:.2f}" for name in ("seam", "cast") if name in row.values]
        return f"{row.source_person} → {row.target_person}, {', '.join(values)}"


class Teller:
    """Hands progress on."""

    def __init__(self, progress: OnStep | None) -> None:
        self._progress = progress

    def phase(self, name: str, total: int) -> Callable[[int], None]:
        """What is called with the number of things done in a phase."""
        started = perf_counter()

        def tell(done: int) -> None:
            if self._progress is not None:
                self._progress(Step(name, done, total, perf_counter() - started))

        return tell

    def parts(self, name: str) -> Callable[[int, int], None]:
        """What is called with the number of things done and that of all."""
        started = perf_counter()

        def tell(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(Step(name, done, total, perf_counter() - started))

        return tell

    def rows(self, name: str, rows: Iterator[Row | None], total: int) -> Iterator[Row]:
        """Those rows that are there."""
        tell = self.phase(name, total)
        for done, row in enumerate(rows, 1):
            tell(done)
            if row is not None:
                yield row


def _settings(options: EvalOptions, counts: dict[str, int]) -> dict[str, Any]:
    """What differs from the defaults, what the run depends on most, and counts."""
    always = ("swapper", "pairs", "seed")
    fields = type(options).model_fields
    told = {name: getattr(options, name) for name in (*always, *fields)}
    changed = {name: value for name, value in told.items() if name in always or value != fields[name].default}
    return {**changed, **counts}


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(f"{path}: is a file; name a folder for the report") from error
    except OSError as error:
        raise write_error(path, error) from error
    return path


def _stem(name: str) -> str:
    return name.rpartition(".")[0].replace("/", "_")
