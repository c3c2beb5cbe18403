"""The benchmarks of speed, on tiny clips: what is measured is what is meant, and figures are told as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import onnx
import pytest

from benchmarks import __main__ as entry
from benchmarks import host, models, passes
from benchmarks.clips import clip, large_photo
from benchmarks.pairs import Spread, in_turn, markdown, plain, ratios, run_pass, write_between
from benchmarks.replay import Player, Swapper
from mien.media import open_reader
from mien.types import ByteArray

SIZE, FRAMES = (480, 270), 4
QUICK = {"preset": "ultrafast"}


def pictures(path: Path) -> list[ByteArray]:
    with av.open(str(path)) as found:
        return [np.asarray(frame.to_ndarray(format="gray")) for frame in found.decode(video=0)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("speed")


@pytest.fixture(scope="module")
def target(folder: Path) -> Path:
    return clip(folder, SIZE, 1, FRAMES)


@pytest.fixture(scope="module")
def swap_arguments(folder: Path, target: Path, portraits: Path) -> dict[str, Any]:
    """A recording is made, and what to call `engine` with is given."""
    arguments: dict[str, Any] = {
        "clip": str(target),
        "source": str(portraits / "female_001.jpg"),
        "output": str(folder / "out.mp4"),
        "recording": str(folder / "recording"),
        "size": 0,
        "options": QUICK,
    }
    assert passes.record(**arguments) == {"frames": FRAMES, "faces": 1}
    return arguments


def test_clips_have_the_size_and_faces_that_are_asked_for(target: Path, folder: Path) -> None:
    with open_reader(target) as reader:
        frames = list(reader)
    assert [(frame.width, frame.height) for frame in frames] == [SIZE] * FRAMES
    assert clip(folder, SIZE, 1, FRAMES) == target  # kept
    first, last = pictures(target)[0], pictures(target)[-1]
    assert float(np.abs(first.astype(int) - last).mean()) > 0.5  # all moves
    five = pictures(clip(folder, (640, 360), 5, 1))
    assert (len(five), five[0].shape) == (1, (360, 640))


def test_the_large_photo_has_so_many_pixels(folder: Path) -> None:
    with open_reader(large_photo(folder, 2.0)) as reader:
        frame = next(iter(reader))
    assert frame.width * frame.height == pytest.approx(2e6, rel=0.01)


def test_the_limit_decodes_and_encodes_everything(folder: Path, target: Path) -> None:
    output = folder / "limit.mp4"
    assert passes.limit(str(target), str(output), {**QUICK, "crf": 1}) == {"frames": FRAMES}
    before, after = pictures(target), pictures(output)
    assert len(after) == FRAMES
    assert max(float(np.abs(a.astype(int) - b).mean()) for a, b in zip(before, after, strict=True)) < 1


def test_models_that_cost_nothing_do_the_same_work(swap_arguments: dict[str, Any], target: Path) -> None:
    cost = passes.engine(**swap_arguments)
    assert (cost["frames"], cost["faces"]) == (FRAMES, 1)
    assert 0 < cost["timings"]["paste"] < cost["seconds"]
    assert cost["cpu"] > 0 and cost["peak_mb"] > 10
    before, after = pictures(target)[0], pictures(Path(swap_arguments["output"]))[0]
    changed = np.abs(before.astype(int) - after) > 40
    rows, columns = np.nonzero(changed)
    assert 200 < changed.sum() < 0.2 * changed.size  # a face, and nothing else
    assert (SIZE[0] / 4 < columns.mean() < 3 * SIZE[0] / 4) and rows.mean() < SIZE[1]


def test_a_recording_is_not_played_beyond_its_end(swap_arguments: dict[str, Any]) -> None:
    zoo = Player(Path(swap_arguments["recording"]))
    detector, masker = zoo.load("detector", "yunet"), zoo.load("masker", "occluder")
    crops = np.zeros((3, masker.size, masker.size, 3), np.uint8)
    assert masker(crops).shape == (3, masker.size, masker.size, len(masker.classes))
    assert masker(crops) is masker(crops)
    with pytest.raises(LookupError, match="more often"):
        for _ in range(1000):
            detector(crops[0], 0.6)
    with pytest.raises(LookupError, match="xseg_1 was not asked for"):
        zoo.load("masker", "xseg_1")


def test_squares_of_the_swapper_are_as_large_as_asked() -> None:
    swapper = Swapper(256)
    assert (swapper.template, swapper.size) == ("arcface_128", 256)
    (patch,) = swapper([np.zeros((1024, 1024, 3), np.uint8)], [], [], None, None)  # type: ignore[arg-type]
    assert (patch.rgb.shape, patch.mask.shape) == ((1024, 1024, 3), (1024, 1024))
    assert (patch.mask[0, 0], patch.mask[512, 512]) == (0, 1)


def test_patches_are_made_beforehand_and_shared(swap_arguments: dict[str, Any]) -> None:
    swapper = Player(Path(swap_arguments["recording"])).load("swapper", "texture")
    (sides,) = swapper.made
    assert sides[0] % 32 == sides[1] % 32 == 0
    crops = [np.zeros((sides[0] - less, sides[1] - 3, 3), np.uint8) for less in (0, 5)]
    patches = swapper(crops, [], [], None, None)
    assert [patch.rgb.shape for patch in patches] == [crop.shape for crop in crops]
    assert all(patch.mask.max() == 1 and patch.mask[0].max() == 0 for patch in patches)
    assert list(swapper.made) == [sides]


def test_a_pass_runs_in_a_process_of_its_own(target: Path, folder: Path) -> None:
    cost = run_pass("limit", 1, clip=str(target), output=str(folder / "out.mp4"), options=QUICK)
    assert cost["frames"] == FRAMES
    assert 0 < cost["cpu"] <= cost["seconds"] * 1.2  # one core
    with pytest.raises(SystemExit, match="missing"):
        run_pass("limit", clip="missing.mp4", output="out.mp4", options={})


def test_a_row_compares_round_by_round() -> None:
    limits = [{"frames": 10, "seconds": s, "cpu": 2.0, "peak_mb": 100.0} for s in (1.0, 2.0, 3.0)]
    engines = [
        {"frames": 10, "seconds": 2 * s + 1, "cpu": 4.0, "peak_mb": 200.4, "timings": {"identity": 1.0, "paste": 0.5}}
        for s in (1.0, 2.0, 3.0)
    ]
    row = host.row("x", 1, limits, engines)  # type: ignore[arg-type]
    assert row["steady ratio"] == Spread(0.5, 0.5, 0.5)
    assert row["ratio"].median == pytest.approx(2 / 5)
    assert (row["limit, fps"].low, row["limit, fps"].high) == (10 / 3, 10)
    assert (row["engine, CPU ms a frame"].median, row["engine, peak MB"]) == (400, 200)
    assert row["busy ms a frame"] == "identity 100.0, paste 50.0"


def test_turns_are_taken_and_changed() -> None:
    order: list[str] = []

    def call(name: str) -> dict[str, int]:
        order.append(name)
        return {"seconds": len(order)}

    found = in_turn({"a": lambda: call("a"), "b": lambda: call("b")}, 3)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert ratios(found["b"], found["a"]) == Spread(1.2, 0.75, 2.0)


def test_tables_are_markdown_and_json() -> None:
    table = [{"case": "x", "fps": Spread(2.0, 1.0, 3.0), "MB": 7}, {"case": "y", "fps": Spread(2.5, 2.5, 2.5), "MB": 8}]
    assert markdown(table).splitlines() == [
        "| case | fps | MB |",
        "|---|---|---|",
        "| x | 2.00 (1.00–3.00) | 7 |",
        "| y | 2.50 | 8 |",
    ]
    assert json.loads(json.dumps(plain(table)))[0]["fps"] == {"median": 2.0, "low": 1.0, "high": 3.0}


def test_only_what_lies_between_the_markers_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- begin host -->\nold\n<!-- end host -->\nb\n")
    write_between(page, "host", "new")
    write_between(page, "host", "newer")
    assert page.read_text() == "a\n<!-- begin host -->\n\nnewer\n\n<!-- end host -->\nb\n"
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
    with pytest.raises(SystemExit, match="begin swap"):
        write_between(page, "swap", "new")


def test_the_page_has_a_place_for_every_table() -> None:
    text = entry.PAGE.read_text()
    for name in ("host", "models", "swap"):
        assert f"<!-- begin {name} -->\n" in text and f"<!-- end {name} -->" in text


def test_work_is_counted_for_one_item(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.zeros((8, 3, 3, 3), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", channels, 10, 10])
        for name, channels in (("x", 3), ("y", 8))
    ]
    made = onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:], [weights]))
    onnx.save(made, tmp_path / "net.onnx")
    assert models.flop(tmp_path / "net.onnx") == 2 * 8 * 10 * 10 * 27


def test_models_are_measured_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- begin models -->\n<!-- end models -->\n")
    monkeypatch.setattr(entry, "PAGE", page)
    monkeypatch.setattr(models, "GEMM", 64)
    monkeypatch.setattr(entry, "ROOT", tmp_path)
    words = ["models", "--only", "occluder", "--seconds", "0.02", "--write", "--json", str(tmp_path / "found.json")]
    entry.main(words)
    told = json.loads((tmp_path / "found.json").read_text())
    (row,) = told["tables"]["models"]
    assert (row["model"], row["GFLOP"]) == ("occluder", 0.408)
    assert 0 < row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
    assert row["share"] == pytest.approx(row["GFLOP/s"] / row["machine's product, GFLOP/s"])
    assert told["machine"]["cores"] >= 1
    assert "| occluder | 0.41 |" in page.read_text()
