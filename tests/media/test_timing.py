"""trim, fps and scale as options, and what frames they leave: exact, in order, none invented."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mien.errors import OptionsError
from mien.media.timing import (
    HOLE,
    Span,
    Timing,
    parse_rate,
    parse_scale,
    parse_seconds,
    parse_trim,
    shown,
    ticks,
    trimmed,
)
from mien.options import AnalyzeOptions

F = Fraction


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90", 90), ("90.5", F(181, 2)), (".5", F(1, 2)), ("7.", 7), ("1:30", 90), ("0:01:30.25", F(361, 4)),
     ("2:00:00", 7200), ("0.1", F(1, 10))],
)  # fmt: skip
def test_times_are_read_exactly(text: str, seconds: Fraction) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", ".", ":", "1:", ":30", "1::2", "1:2:3:4", "1.5:30", "-1", "x"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(OptionsError, match="is no time; write seconds"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [("", (0, None)), ("5-", (5, None)), ("-5", (0, 5)), ("1-2.5", (1, F(5, 2))), ("1:00-1:30", (60, 90)),
     ("-", (0, None))],
)  # fmt: skip
def test_trims_are_read(text: str, part: tuple[Fraction, Fraction | None]) -> None:
    assert parse_trim(text) == part


@pytest.mark.parametrize("text", ["5", "5-5", "5-4", "0-0", "-0", "1-2-3", ".-"])
def test_trims_that_leave_nothing_are_errors(text: str) -> None:
    with pytest.raises(OptionsError):
        parse_trim(text)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("25", F(25)), ("30000/1001", F(30000, 1001)), ("23.976", F(24000, 1001)), ("29.97", F(30000, 1001)),
     ("59.94", F(60000, 1001)), ("23.98", F(24000, 1001)), ("119.88", F(120000, 1001)), ("29.970", F(30000, 1001)),
     ("12.5", F(25, 2)), ("24", F(24)), ("0.5", F(1, 2)), ("29.5", F(59, 2)), ("30.0", F(30)),
     ("29.976", F(3747, 125))],
)  # fmt: skip
def test_rates_are_read(text: str, rate: Fraction) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["0", "0.001", "5000", "1/0", "0/5", "x", "-5", "25/", "1e3"])
def test_what_is_no_rate_is_an_error(text: str) -> None:
    with pytest.raises(OptionsError, match="fps="):
        parse_rate(text)


def test_sizes_are_read() -> None:
    assert parse_scale("") is None
    assert parse_scale("1280x720") == (1280, 720)
    assert parse_scale("1280x") == (1280, None)
    assert parse_scale("x720") == (None, 720)
    for text in ("x", "12", "0x5", "1x1", "99999x", "5x5x5"):
        with pytest.raises(OptionsError, match="scale="):
            parse_scale(text)


def test_max_seconds_counts_from_the_start_of_the_part() -> None:
    timing = Timing.of(AnalyzeOptions(trim="2-9", max_seconds=0.1, fps="23.976"))
    assert timing == Timing(F(2), F(21, 10), F(24000, 1001))
    assert Timing.of(AnalyzeOptions(trim="2-3", max_seconds=5)).stop == 3
    assert not Timing.of(AnalyzeOptions()).cut and not Timing.of(None).cut
    assert Timing.of(AnalyzeOptions(max_seconds=5)).cut


@st.composite
def clips(draw: st.DrawFn) -> list[Span[int]]:
    """Spans of a clip of any rate, even or not, on a clock of milliseconds."""
    steps = draw(st.lists(st.integers(1, 400), min_size=1, max_size=40))
    if draw(st.booleans()):
        steps = [steps[0]] * len(steps)
    start, made = draw(st.integers(0, 500)), []
    for number, step in enumerate(steps):
        made.append(Span(F(start, 1000), F(start + step, 1000), number))
        start += step
    return made


RATES = st.sampled_from([F(24000, 1001), F(25), F(30000, 1001), F(30), F(60), F(1, 2), F(1), F(15), F(240)])
TICK = F(1, 1000)


@given(clip=clips(), rate=RATES)
def test_at_each_tick_the_frame_on_screen_is_shown(clip: list[Span[int]], rate: Fraction) -> None:
    made = [(tick, number) for at, number in ticks(clip, rate, TICK / 2) for tick in at]
    times = [tick for tick, _ in made]
    assert times == list(range(times[0], times[0] + len(times)))  # every tick once, in order
    length, was = len(made) / rate, clip[-1].stop - clip[0].start
    assert abs(length - was) <= 1 / rate
    numbers = [number for _, number in made]
    assert numbers == sorted(numbers)
    for tick, number in made if len(made) > 1 else []:
        span = clip[number]
        assert span.start - TICK / 2 <= tick / rate < span.stop


@given(clip=clips(), rate=RATES)
def test_every_frame_that_lasts_for_a_tick_is_shown(clip: list[Span[int]], rate: Fraction) -> None:
    counts = {number: len(at) for at, number in ticks(clip, rate, TICK / 2)}
    for span in clip:
        lasts = (span.stop - span.start) * rate
        assert abs(counts.get(span.item, 0) - lasts) < 1 or len(counts) == 1


@pytest.mark.parametrize("rate", [F(24000, 1001), F(30000, 1001), F(25), F(60), F(120), F(1, 2)])
@pytest.mark.parametrize("tick", [F(1, 1000), F(1, 90_000), F(1, 12_800), F(1, 600)])
def test_the_clip_s_own_rate_shows_each_frame_once(rate: Fraction, tick: Fraction) -> None:
    at = [round(i / rate / tick) * tick for i in range(300)]
    clip = [Span(a, b, i) for i, (a, b) in enumerate(zip(at, [*at[1:], at[-1] + 1 / rate], strict=True))]
    assert [(*at, i) for at, i in ticks(clip, rate, tick / 2)] == [(i, i) for i in range(300)]


@given(clip=clips(), start=st.integers(0, 4000), length=st.integers(1, 4000), hole=st.sampled_from([F(0), HOLE]))
def test_a_part_holds_the_frames_that_start_in_it(
    clip: list[Span[int]], start: int, length: int, hole: Fraction
) -> None:
    first, last = F(start, 1000), F(start + length, 1000)
    made = list(trimmed(iter(clip), first, last, TICK / 2, hole))
    wanted = [span for span in clip if first <= span.start < last]
    numbers = [span.item for span in wanted]
    on_screen = [span for span in clip if span.start < first < span.stop]
    if on_screen and on_screen[0].stop - first >= (hole or TICK):
        numbers = [on_screen[0].item, *numbers]
    assert [span.item for span in made] == numbers
    assert all(a.stop == b.start for a, b in pairwise(made))
    for span, was in zip(made[1:], [clip[n] for n in numbers[1:]], strict=True):
        assert span.start == was.start - first
    if made:
        late = clip[numbers[0]].start - first
        assert made[0].start == (late if late >= max(hole, TICK) else 0)
        assert made[-1].stop <= last - first
        assert all(span.start < span.stop for span in made)


@given(clip=clips(), cut=st.integers(1, 4000))
def test_two_parts_hold_every_frame_once(clip: list[Span[int]], cut: int) -> None:
    at = F(cut, 1000)
    before = [span.item for span in trimmed(iter(clip), F(0), at, TICK / 2)]
    after = [span.item for span in trimmed(iter(clip), at, None, TICK / 2)]
    both = [*before, *(after[1:] if before and after and after[0] == before[-1] else after)]
    assert both == [span.item for span in clip if span.item in {*before, *after}]
    assert {span.item for span in clip} - {*before, *after} == set()


@given(steps=st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_a_frame_is_shown_until_the_next(steps: Sequence[int]) -> None:
    starts = [F(sum(steps[:i])) for i in range(len(steps))]
    made = list(shown((start, F(7), i) for i, start in enumerate(starts)))
    assert [span.start for span in made] == starts
    assert [span.stop for span in made] == [*starts[1:], starts[-1] + 7]
    assert list(shown(iter(()))) == []
