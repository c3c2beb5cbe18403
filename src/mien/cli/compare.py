"""`mien compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json


def compare(
    a: Annotated[Path, Parameter(help="Photo of a face.")],
    b: Annotated[Path, Parameter(help="Photo of another.")],
    /,
    *,
    json: Json = False,
    debug: Debug = False,
) -> int:
    """Say how similar the faces of two photos are: 1 is the same face, 0 is no likeness."""
    from mien import Identity, cosine_similarity

    first, second = (Identity.from_images([path]).embedding for path in (a, b))
    similarity = float(cosine_similarity(first, second))
    if json:
        print_json({"a": str(a), "b": str(b), "similarity": similarity})
    else:
        print(f"similarity {similarity:.3f}")
    return 0
