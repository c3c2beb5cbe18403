"""Bind ICT-FaceKit to the 478-point mesh: `python -m training.morphable --model FILE.npz`.

1. The canonical mesh is brought onto the model's mean head by a similarity over the 68 landmarks that both have, bent
   smoothly until these meet, and drawn onto the surface (Amberg et al. 2007: closest points, a stiff Laplacian that
   softens).
2. Where the landmarker really puts its points is measured on renders of the model with known truth, and the
   points slide along the surface to there. What is left of its errors goes into the file, see
   `training/morphable_errors.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mien.faces import FaceFinder
from mien.mesh import EYES, MOUTH, SURFACE, VIEW68, topology
from mien.zoo.registry import Zoo
from tests.rendered_heads import HeadModel, render, scene
from training.morphable_errors import Errors, Look, Places, measure

DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

FACE = 9409
"""The model's vertices before this are the face, those behind are head and neck."""
STIFFNESS = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.5)
OUTLINE = 0.1
"""Trust in the landmarks of the jaw, which slide; 1 for the others."""
HITS = 25.0
"""Looks at a point (counted by how squarely it was seen) that outweigh the registration."""
NEAR = 5
"""Pixels within which a point that misses the surface (in an eye or an open mouth) is taken to mean it."""
SIDE = 384
"""Pixels of a render."""
IDENTITIES = 60
"""Identity modes that are kept: the rest is finer than the landmarker sees."""
FIXTURE_IDENTITIES = 12
FIXTURE_EXPRESSIONS = (
    "browDown_L", "browDown_R", "eyeBlink_L", "eyeBlink_R", "jawOpen", "mouthFunnel", "mouthSmile_L", "mouthSmile_R",
)  # fmt: skip
DEPTH = 0.02
"""Weight of the landmarker's z over that of x and y: pose and shape of renders come out best so."""


def main() -> None:
    """Register, measure on renders, slide, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="ict_facekit_light.npz")
    parser.add_argument("--out", type=Path, default=Path("src/mien/weights/morphable.npz"))
    parser.add_argument("--renders", type=int, default=500)
    parser.add_argument("--fixture", type=Path, help="only write the few modes that the tests render")
    args = parser.parse_args()
    model = HeadModel.load(args.model)
    if args.fixture:
        write_fixture(args.fixture, args.model)
        return
    places = register(model)
    seen = list(looks(model, range(args.renders)))
    places = slide(model, places, seen)
    write(args.out, model, places, measure(places, seen))


def looks(model: HeadModel, seeds: range) -> Iterator[Look]:
    """Renders of random scenes in which one face is found."""
    finder = FaceFinder(Zoo("cpu"))
    for seed in seeds:
        shown = scene(model, seed, SIDE)
        truth = render(model, model.shape(shown.identity, shown.expression), shown.view)
        faces = finder.find_in_image(truth.image, embeddings=False)
        if len(faces) == 1:
            yield Look(seed, faces[0].mesh, truth)


def register(model: HeadModel) -> Places:
    """The canonical mesh's vertices on the mean head."""
    canonical = topology().vertices.astype(np.float64) * [1, -1, -1]
    marks = model.neutral[model.landmarks]
    view = _view_matrix()
    trust = np.array([OUTLINE] * 17 + [1.0] * 51)
    canonical = _similarity(view @ canonical, marks, trust, canonical)
    laplacian = _laplacian()
    bend = laplacian.T @ laplacian
    stiff = np.einsum("kn,k,km->nm", view, trust * 10, view) + 0.05 * bend
    points = canonical + np.linalg.solve(stiff, view.T @ ((trust * 10)[:, None] * (marks - view @ canonical)))
    for stiffness in STIFFNESS:
        start = points
        target, alike = _closest(model, points)
        weight = np.where(alike > 0.3, 1.0, 0.02)
        hold = np.einsum("kn,k,km->nm", view, trust * 0.5, view)
        force = weight[:, None] * (target.on(model.neutral) - start)
        force += view.T @ ((trust * 0.5)[:, None] * (marks - view @ start))
        points = start + np.linalg.solve(np.diag(weight) + hold + stiffness * bend, force)
    return _closest(model, points)[0]


def slide(model: HeadModel, places: Places, seen: list[Look]) -> Places:
    """The points moved along the mean head to where the landmarker puts them."""
    start = places.on(model.neutral)
    total, count = np.zeros((SURFACE, 3)), np.zeros(SURFACE)
    for look in seen:
        corners, weights, square = hits(model, look)
        where = np.einsum("nkc,nk->nc", model.neutral[corners], weights) - start
        trust = np.clip(square - 0.35, 0, None) * (np.linalg.norm(where, axis=1) < 1.2)
        total += trust[:, None] * where
        count += trust
    both = count + count[topology().mirror]
    mirrored = total[topology().mirror] * [-1, 1, 1]
    mean = (total + mirrored) / np.maximum(both, 1e-9)[:, None]
    # Sparse looks are smoothed into what their neighbours say.
    weight = both / (both + HITS)
    laplacian = _laplacian()
    moved = np.linalg.solve(np.diag(weight + 1e-3) + 0.05 * laplacian.T @ laplacian, weight[:, None] * mean)
    return _closest(model, start + moved)[0]


def hits(model: HeadModel, look: Look) -> tuple[IntArray, DoubleArray, DoubleArray]:
    """Where the mesh's points lie on the rendered head: corners, barycentric weights, and how squarely it is seen."""
    ids, points = look.truth.face, look.truth.points.astype(np.float64)
    height, width = ids.shape
    pixels = look.mesh[:SURFACE, :2].astype(np.float64)
    triangle = np.full(SURFACE, -1)
    at = pixels.copy()
    for n, (x, y) in enumerate(pixels):
        x0, y0 = max(0, round(x) - NEAR), max(0, round(y) - NEAR)
        part = ids[y0 : min(height, round(y) + NEAR + 1), x0 : min(width, round(x) + NEAR + 1)]
        rows, columns = np.nonzero(part >= 0)
        if len(rows):
            away = (rows + y0 - y) ** 2 + (columns + x0 - x) ** 2
            nearest = int(away.argmin())
            triangle[n] = part[rows[nearest], columns[nearest]]
            if away[nearest] > 1:
                at[n] = columns[nearest] + x0, rows[nearest] + y0
    found = triangle >= 0
    corners = model.triangles[np.maximum(triangle, 0)]
    a, b, c = (points[corners[:, i]] for i in range(3))
    u, v, w = b - a, c - a, at - a
    area = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    area = np.where(np.abs(area) < 1e-6, 1e-6, area)
    second = (w[:, 0] * v[:, 1] - w[:, 1] * v[:, 0]) / area
    third = (u[:, 0] * w[:, 1] - u[:, 1] * w[:, 0]) / area
    weights = np.clip(np.stack([1 - second - third, second, third], 1), 0, 1)
    weights /= weights.sum(1, keepdims=True)
    return corners, weights, np.where(found, facing(look, corners), 0.0)


def facing(look: Look, corners: IntArray) -> DoubleArray:
    """(N,) how squarely the camera sees triangles: 1 from the front, 0 on edge, negative from behind."""
    a, b, c = (look.truth.vertices[corners[:, i]] @ look.truth.rotation.T for i in range(3))
    normal = np.cross(b - a, c - a)
    return np.asarray(normal[:, 2] / np.maximum(np.linalg.norm(normal, axis=1), 1e-12), np.float64)


def write(path: Path, model: HeadModel, places: Places, errors: Errors) -> None:
    """The binding file; see `mien.morphable`. The eyes' own movements do not move the mesh's surface."""
    moving = [i for i, name in enumerate(model.names) if not name.startswith(("Pupil", "eyeLook"))]
    np.savez_compressed(
        path,
        corners=places.corners.astype(np.uint16),
        barycentric=places.weights.astype(np.float32),
        mean=places.on(model.neutral).astype(np.float32),
        identity=places.on(model.identity[:IDENTITIES]).astype(np.float16),
        expression=places.on(model.expression[moving]).astype(np.float16),
        expression_names=np.array([model.names[i] for i in moving]),
        error=errors.modes.astype(np.float16),
        bias=errors.bias.astype(np.float16),
        noise=errors.noise.astype(np.float32),
        depth=np.float32(DEPTH),
    )
    print(f"{path}: {path.stat().st_size} bytes; noise {np.median(errors.noise):.3f} cm")


def write_fixture(path: Path, model: Path) -> None:
    """A head to render: the mean, `FIXTURE_IDENTITIES` and `FIXTURE_EXPRESSIONS` at 8 bits, with their scale."""
    with np.load(model, allow_pickle=False) as data:
        names = [str(name) for name in data["expression_names"]]
        chosen = [names.index(name) for name in FIXTURE_EXPRESSIONS]
        modes = np.concatenate([data["identity"][:FIXTURE_IDENTITIES], data["expression"][chosen]]).astype(np.float32)
        scale = np.abs(modes).max((1, 2)) / 127
        coarse = np.rint(modes / scale[:, None, None]).astype(np.int8)
        np.savez_compressed(
            path,
            neutral=data["neutral"],
            triangles=data["triangles"].astype(np.uint16),
            identity=coarse[:FIXTURE_IDENTITIES],
            expression=coarse[FIXTURE_IDENTITIES:],
            scale=scale.astype(np.float32),
            expression_names=np.array(FIXTURE_EXPRESSIONS),
            landmarks_68=data["landmarks_68"],
        )
    print(f"{path}: {path.stat().st_size} bytes")


def _view_matrix() -> DoubleArray:
    view = np.zeros((68, SURFACE))
    for row, (first, second, hundredths) in enumerate(VIEW68):
        view[row, first] += 1 - hundredths / 100
        view[row, second] += hundredths / 100
    return view


def _similarity(a: DoubleArray, b: DoubleArray, weight: DoubleArray, points: DoubleArray) -> DoubleArray:
    """`points` under the similarity that takes `a` to `b` (Umeyama 1991)."""
    weight = weight / weight.sum()
    mean_a, mean_b = weight @ a, weight @ b
    u, s, vt = np.linalg.svd(((a - mean_a) * weight[:, None]).T @ (b - mean_b))
    sign = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = (u @ np.diag(sign) @ vt).T
    scale = (s * sign).sum() / (weight @ ((a - mean_a) ** 2).sum(1))
    return np.asarray(scale * (points - mean_a) @ rotation.T + mean_b, np.float64)


def _laplacian() -> DoubleArray:
    """(468, 468): a vertex less the mean of its neighbours; lips and lids are closed rings."""
    neighbours = np.zeros((SURFACE, SURFACE))
    pairs = [(t[i], t[(i + 1) % 3]) for t in topology().triangles.tolist() for i in range(3)]
    for a, b in pairs:
        neighbours[a, b] = neighbours[b, a] = 1
    for ring in (*EYES, MOUTH):
        for a, b in zip(ring, (*ring[1:], ring[0]), strict=True):
            neighbours[a, b] = neighbours[b, a] = 1
    return np.asarray(np.eye(SURFACE) - neighbours / neighbours.sum(1, keepdims=True), np.float64)


def _closest(model: HeadModel, points: DoubleArray) -> tuple[Places, DoubleArray]:
    """Nearest points of the mean face that look the way the mesh does there, and the cosine between both normals."""
    triangles = model.triangles[(model.triangles < FACE).all(1)]
    a, b, c = (model.neutral[triangles[:, i]] for i in range(3))
    normal = -np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    own = _mesh_normals(points)
    middle = (a + b + c) / 3
    corners, weights, cosines = [], [], []
    for point, direction in zip(points, own, strict=True):
        alike = normal @ direction
        rank = ((middle - point) ** 2).sum(1) + 4.0 * np.clip(0.3 - alike, 0, None)
        near = np.argpartition(rank, 40)[:40]
        bary = _in_triangle(point, a[near], b[near], c[near])
        at = np.einsum("nk,nkc->nc", bary, model.neutral[triangles[near]])
        best = int((((at - point) ** 2).sum(1) + 4.0 * np.clip(0.3 - alike[near], 0, None)).argmin())
        corners.append(triangles[near[best]])
        weights.append(bary[best])
        cosines.append(alike[near[best]])
    return Places(np.array(corners, np.int32), np.array(weights)), np.array(cosines)


def _mesh_normals(points: DoubleArray) -> DoubleArray:
    triangles = topology().triangles
    a, b, c = (points[triangles[:, i]] for i in range(3))
    total = np.zeros((SURFACE, 3))
    for corner in range(3):
        np.add.at(total, triangles[:, corner], -np.cross(b - a, c - a))
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12), np.float64)


def _in_triangle(point: DoubleArray, a: DoubleArray, b: DoubleArray, c: DoubleArray) -> DoubleArray:
    """(N, 3) barycentric weights of the point of each triangle next to `point`, nearly: clipped and normalised."""
    u, v, w = b - a, c - a, point - a
    uu, uv, vv = (u * u).sum(1), (u * v).sum(1), (v * v).sum(1)
    wu, wv = (w * u).sum(1), (w * v).sum(1)
    area = np.maximum(uu * vv - uv * uv, 1e-12)
    second, third = (vv * wu - uv * wv) / area, (uu * wv - uv * wu) / area
    bary = np.clip(np.stack([1 - second - third, second, third], 1), 0, None)
    return np.asarray(bary / bary.sum(1, keepdims=True), np.float64)


if __name__ == "__main__":
    main()
