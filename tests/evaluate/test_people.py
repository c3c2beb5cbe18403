from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mien.errors import InputError, MediaError, OptionsError
from mien.evaluate.people import Person, draw_pairs, of_folders, of_part, read_people

TABLE = """folder,person,sex,age,skin_tone,part
london,001,female,22,light,training
london,002,male,61,dark,held-out
art,a_b,,,,held-out
art,nobody,,,,held-out
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Folders of photos that are names only."""
    for name in (
        "london/001_smiling.jpg", "london/001_neutral.jpg", "london/002_neutral.jpg", "london/002_neutral.txt",
        "art/a_b.png", "art/a_bc.png", "art/female_031.jpg", "lone.jpg", "clips/clip.mp4",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(TABLE)
    return path


def crowd(count: int, photos: int = 1) -> list[Person]:
    return [Person(f"p{i:02}", tuple(Path(f"p{i:02}_{k}.jpg") for k in range(photos))) for i in range(count)]


def test_without_a_table_people_are_the_names_before_a_last_word(data: Path) -> None:
    found = {person.name: [path.name for path in person.photos] for person in read_people(data)}
    assert found == {
        "art/a": ["a_b.png", "a_bc.png"],
        "art/female_031": ["female_031.jpg"],
        "lone": ["lone.jpg"],
        "london/001": ["001_neutral.jpg", "001_smiling.jpg"],
        "london/002": ["002_neutral.jpg"],
    }


def test_with_a_table_people_are_its_rows_that_have_photos(data: Path, table: Path) -> None:
    people = {person.name: person for person in read_people(data, table)}
    assert set(people) == {"london/001", "london/002", "art/a_b"}
    assert [path.name for path in people["london/001"].photos] == ["001_neutral.jpg", "001_smiling.jpg"]
    assert [path.name for path in people["art/a_b"].photos] == ["a_b.png"]
    assert people["london/002"].traits == {"sex": "male", "age": "61", "skin_tone": "dark", "part": "held-out"}
    assert people["art/a_b"].traits == {"part": "held-out"}
    assert people["london/001"].folder == "london"


def test_parts_and_folders_choose(data: Path, table: Path) -> None:
    people = read_people(data, table)
    assert [person.name for person in of_part(people, "training")] == ["london/001"]
    assert [person.name for person in of_folders(people, "art")] == ["art/a_b"]
    assert of_folders(people, "art+london") == people == of_part(people, "") == of_folders(people, "")
    with pytest.raises(OptionsError, match=r"'testing'; there are: held-out, training"):
        of_part(people, "testing")
    with pytest.raises(OptionsError, match=r"'paris'; there are: art, london"):
        of_folders(people, "paris")


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("name,sex\nx,male\n", InputError, "every row needs a `person`"),
        ("person,sex\n,male\n", InputError, "every row needs a `person`"),
        ("", InputError, "every row needs a `person`"),
        ("person,folder\n001,london\n001,london\n", InputError, "london/001 is there twice"),
        ("person,folder,age\n001,london,young\n", InputError, "001 has the age 'young'"),
        ("person\nstranger\n", InputError, "no photo in"),
        ("person\n\xff\n", MediaError, "cannot be read"),
    ],
)
def test_a_bad_table_is_one_clear_error(data: Path, text: str, error: type[Exception], match: str) -> None:
    path = data / "bad.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(error, match=match):
        read_people(data, path)


def test_a_missing_folder_or_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="nowhere: cannot be read"):
        read_people(tmp_path / "nowhere")
    with pytest.raises(MediaError, match=r"none\.csv: cannot be read"):
        read_people(tmp_path, tmp_path / "none.csv")
    with pytest.raises(InputError, match="no photo in"):
        read_people(tmp_path)


def test_pairs_repeat_and_the_first_of_many_are_those_of_few() -> None:
    people = crowd(9, 2)
    first, again, other = (draw_pairs(people, people, 40, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert draw_pairs(people, people, 12, 0) == first[:12]


def test_everybody_is_a_source_and_a_target_about_as_often() -> None:
    people = crowd(10)
    pairs = draw_pairs(people, people, 60, 0)
    sources, targets = (Counter(getattr(pair, side).name for pair in pairs) for side in ("source", "target"))
    assert set(sources.values()) == {6}
    assert len(targets) == 10 and min(targets.values()) >= 5 and max(targets.values()) <= 7
    assert all(pair.source.name != pair.target.name for pair in pairs)
    assert len({(pair.source.name, pair.photo) for pair in pairs}) == 60


def test_there_are_no_more_pairs_than_people_give() -> None:
    people = crowd(3, 2)
    pairs = draw_pairs(people, people, 1000, 0)
    assert len(pairs) == 3 * 2 * 2
    assert len({(pair.source.name, pair.photo) for pair in pairs}) == 12


def test_one_person_alone_is_no_pair() -> None:
    with pytest.raises(InputError, match="no two different people"):
        draw_pairs(crowd(1), crowd(1), 5, 0)
    with pytest.raises(InputError, match="no two different people"):
        draw_pairs(crowd(1), [], 5, 0)
