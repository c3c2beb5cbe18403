"""All people that an output might be of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mien.errors import GeometryError, MediaError, NoFaceError
from mien.evaluate.faces import Examiner
from mien.evaluate.people import Person
from mien.types import FloatArray


class Gallery:
    """One embedding of each person by each judge, from the photo that stands for them.

    Args:
        embeddings: judge → (N, D) unit vectors of the people in order.
    """

    def __init__(self, people: Sequence[str], embeddings: dict[str, FloatArray]) -> None:
        self.people, self._embeddings = tuple(people), embeddings

    def __len__(self) -> int:
        return len(self.people)

    def first(self, judge: str, embedding: FloatArray) -> str:
        """Name of the person who is most like a (D,) unit vector."""
        return self.people[int(np.argmax(self._embeddings[judge] @ embedding))]


def open_gallery(
    examiner: Examiner, people: Sequence[Person], tell: Callable[[int], None] = lambda done: None
) -> tuple[Gallery, list[str]]:
    """The gallery, and what is to be said of photos that cannot be read or show no face, which are left out.

    Raises:
        NoFaceError: no photo shows a face.
    """
    looks, skipped = {}, []
    for done, person in enumerate(people, 1):
        try:
            looks[person.name] = examiner.photo(person.photos[0])
        except (NoFaceError, MediaError, GeometryError) as error:
            skipped.append(str(error))
        tell(done)
    if not looks:
        raise NoFaceError("no photo of a source shows a face; pass photos that do")
    embeddings = {
        judge.name: np.stack([look.embeddings[judge.name] for look in looks.values()]) for judge in examiner.judges
    }
    return Gallery(tuple(looks), embeddings), skipped
