from __future__ import annotations

import inspect
from typing import get_args

import pytest

from mien.cli.flags import check, flag
from mien.cli.swap import swap
from mien.errors import OptionsError
from mien.options import SwapOptions

from .conftest import Mien


def test_every_option_is_a_flag_with_its_default() -> None:
    parameters = inspect.signature(swap).parameters
    for name, field in SwapOptions.model_fields.items():
        assert parameters[name].default == field.default
        assert get_args(parameters[name].annotation)[0] == field.annotation


def test_help_shows_text_limits_choices_and_default(mien: Mien, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = mien("swap", "--help").out.splitlines()
    crf = next(line for line in lines if "--crf" in line)
    assert "Constant rate factor: lower is better and larger. [0 to 63] [default: 17]" in crf
    fallback = next(line for line in lines if "--fallback" in line)
    assert "[choices: none, cpu] [default: none]" in fallback
    assert all(any(f"{flag(name)} " in line for line in lines) for name in SwapOptions.model_fields)


def test_check_names_the_flag_and_the_value() -> None:
    with pytest.raises(OptionsError, match=r"^--min-face 4: input should be greater than or equal to 8$"):
        check(SwapOptions, {"min_face": 4})
    with pytest.raises(OptionsError, match=r"^--device gpu: choose auto, cpu, cuda, tensorrt, .* as in cuda:0,1$"):
        check(SwapOptions, {"device": "gpu"})
