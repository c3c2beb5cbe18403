"""The registry of protocols, and that it is told as it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mien.cli.flags import flag
from mien.errors import InputError, OptionsError
from mien.evaluate.protocols import PROTOCOLS, ProtocolOptions, run
from mien.evaluate.protocols.common import aligned
from mien.options import SwapOptions
from tests.evaluate.protocols.drawn import DrawnZoo

DOCUMENT = Path(__file__).parents[3] / "docs" / "protocols.md"


def test_an_unknown_protocol_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="'megaface'; choose one of: lfw, widerface, wflw, ffpp"):
        run("megaface", tmp_path)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_folder_that_is_none_or_empty_is_one_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: is no folder; .* docs/protocols\.md"):
        run(name, tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"looked for .* docs/protocols\.md") as caught:
        run(name, tmp_path, zoo=DrawnZoo())
    assert "\n" not in str(caught.value)


def test_the_document_tells_each_protocol_and_only_flags_that_exist() -> None:
    text = DOCUMENT.read_text()
    assert re.findall(r"^## (\w+):", text, re.M) == list(PROTOCOLS)
    fields = {flag(name) for name in ProtocolOptions.model_fields}
    assert set(re.findall(r"--[a-z-]+", text)) - {"--protocol", "--json"} <= fields
    own = fields - {flag(name) for name in SwapOptions.model_fields}
    assert own <= set(re.findall(r"--[a-z-]+", text))


def test_options_are_imported_without_any_model(python: tuple[str, ...]) -> None:
    code = (
        "import sys, mien.evaluate.protocols as p; p.PROTOCOLS, p.ProtocolOptions();"
        "print([m for m in ('cv2', 'numpy', 'onnxruntime', 'av') if m in sys.modules])"
    )
    assert subprocess.run([*python, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_columns_line_up() -> None:
    assert aligned([["name", "value"], ["a", "1"], ["longer", "12.5"]]) == [
        "name    value", "a           1", "longer   12.5",
    ]  # fmt: skip
