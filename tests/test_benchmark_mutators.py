"""The changes that `benchmarks.mutations` makes of a source."""

from __future__ import annotations

import ast

import pytest

from benchmarks.mutators import mutants


def made(source: str) -> set[str]:
    return {ast.unparse(mutant.tree) for mutant in mutants("m", source)}


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x = a[..., ::-1]", "x = a"),
        ("x = a - b", "x = a + b"),
        ("x = a / b", "x = a"),
        ("x = unit(a, b)", "x = a"),
        ("x = unit(a, b)", "x = unit(b, a)"),
        ("x = a.transpose(0, 2)", "x = a"),
        ("x = np.clip(a, 0, 1)", "x = a"),
        ("x = f(a, scale=2)", "x = f(a)"),
        ("x = 0.5", "x = 0.56"),
        ("x = 4", "x = 5"),
        ("x = True", "x = False"),
        ("x = (b, c)", "x = (c, b)"),
        ("x = a if b >= c else d", "x = a if b < c else d"),
        ("x = a if b >= c else d", "x = d"),
        ("x += 1", "pass"),
        ("check(x)", "pass"),
        ("if x:\n    raise E", "pass"),
        ("class C:\n    size = 4", "class C:\n    size = 5"),
    ],
)
def test_a_change_is_made(source: str, wanted: str) -> None:
    assert wanted.replace("    ", "") in {text.replace("    ", "") for text in made(source)}


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np",
        '"""Text."""',
        "@register(ModelCard('a', 1))\nclass C:\n    pass",
        "def f(x: int = 1): pass",
    ],
)
def test_what_tells_no_step_is_left_alone(source: str) -> None:
    assert made(source) == set()


def test_one_change_at_a_time_and_only_where_asked() -> None:
    source = "A = 1\nB = 2\ndef f(x):\n    return x * 3\n"
    assert {m.line for m in mutants("m", source)} == {1, 2, 4}
    assert {m.line for m in mutants("m", source, frozenset({"B"}))} == {2}
    assert {m.line for m in mutants("m", source, frozenset({"f"}))} == {4}
    for mutant in mutants("m", source):
        pairs = zip(ast.parse(source).body, mutant.tree.body, strict=True)
        assert sum(ast.dump(old) != ast.dump(new) for old, new in pairs) == 1
