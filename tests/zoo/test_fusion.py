"""Blending by a network, with stand-ins in its place that tell what they were given, and where their maps go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from onnx import NodeProto

from mien.atlas import atlas
from mien.errors import ModelError
from mien.fusion import INPUTS, MARGIN, SIDE
from mien.geometry import transform
from mien.identity_data import IdentityData
from mien.mesh import SURFACE, interpolate, rasterise, topology, upright_matrix
from mien.types import FloatArray, Patch
from mien.zoo.contracts import Source, Style
from mien.zoo.swappers.texture import CHANNELS, TextureSwapper
from tests import heads
from tests.fakes import embedding
from tests.stand_ins import graph, node

WIDTH, HEIGHT = 290, 310
STILL = np.zeros(52, np.float32)
ME, OTHER = embedding(0.0), embedding(np.pi / 2)
NET = Style(fusion="swapgan", shape=0.0)


def network(nodes: Sequence[NodeProto], **constants: FloatArray) -> bytes:
    """A network with the real inputs and outputs; what no node gives is nought."""
    given = {output for each in nodes for output in each.output}
    more = [
        node("Mul", [like, "none"], output)
        for output, like in {"gain": "drawn", "bias": "drawn", "share": "mask"}.items()
        if output not in given
    ]
    if "flow" not in given:
        more += [node("Concat", ["mask", "trust"], "two", axis=1), node("Mul", ["two", "none"], "flow")]
    return graph(
        [*nodes, *more],
        {name: ("n", channels, SIDE, SIDE) for name, channels in zip(INPUTS, CHANNELS, strict=True)},
        {name: ("n", channels, SIDE, SIDE) for name, channels in {"gain": 3, "bias": 3, "share": 1, "flow": 2}.items()},
        none=np.zeros(1, np.float32),
        **constants,
    )


def head(width: float = 200, yaw: float = 0.0, roll: float = 0.0) -> FloatArray:
    return heads.mesh(width, (145, 155), heads.turn(yaw, roll=roll))


def shot(mesh: FloatArray, paint: heads.Paint = heads.gradient) -> FloatArray:
    return heads.picture(mesh, WIDTH, HEIGHT, paint)


def person(paint: heads.Paint = heads.gradient) -> IdentityData:
    mesh = head()
    return heads.identity(mesh, shot(mesh, paint), ME)


@pytest.fixture(scope="module")
def plain() -> IdentityData:
    return person()


def swap(
    net: bytes, mesh: FloatArray, crop: FloatArray, who: IdentityData,
    masks: Mapping[str, FloatArray] | None = None, style: Style = NET,
) -> tuple[Patch, FloatArray]:  # fmt: skip
    """The patch, and the crop with it pasted."""
    (patch,) = TextureSwapper("cpu", net)([crop], [heads.face(mesh, OTHER, STILL)], [masks], Source(who), style)
    return patch, np.asarray(crop + patch.mask[..., None] * (patch.rgb - crop), np.float32)


def cheek(mesh: FloatArray) -> tuple[slice, slice]:
    """A few pixels of plain skin, in the middle of the cheek at the right."""
    x, y = mesh[[280, 330, 347], :2].mean(0)
    return np.s_[int(y) - 4 : int(y) + 5, int(x) - 4 : int(x) + 5]


PRINTED = node("Identity", ["mask"], "share")
NOUGHT = node("Mul", ["drawn", "none"], "zero")


def plain_paint(color: tuple[float, float, float]) -> heads.Paint:
    return lambda uv: np.broadcast_to(np.array(color, np.float32), (*uv.shape[:-1], 3)).copy()


def test_gain_and_bias_work_on_the_texture_channel_by_channel() -> None:
    who, mesh = person(plain_paint((0.6, 0.4, 0.2))), head()
    gains, biases = np.array([0.5, 1.25, 2.0], np.float32), np.array([0.1, -0.05, 0.02], np.float32)
    net = network(
        [NOUGHT, node("Add", ["zero", "g"], "gain"), node("Add", ["zero", "b"], "bias"), PRINTED],
        g=np.log(gains).reshape(1, 3, 1, 1), b=biases.reshape(1, 3, 1, 1),
    )  # fmt: skip
    _, after = swap(net, mesh, shot(mesh, plain_paint((0.1, 0.2, 0.9))), who)
    wanted = np.array([0.6, 0.4, 0.2]) * gains + biases
    np.testing.assert_allclose(after[cheek(mesh)].mean((0, 1)), wanted, atol=0.01)


def test_the_share_mixes_the_texture_with_the_target() -> None:
    who, mesh = person(plain_paint((0.6, 0.4, 0.2))), head()
    crop = shot(mesh, plain_paint((0.2, 0.3, 0.8)))
    net = network([node("Mul", ["mask", "part"], "share")], part=np.full(1, 0.25, np.float32))
    _, after = swap(net, mesh, crop, who)
    wanted = 0.75 * np.array([0.2, 0.3, 0.8]) + 0.25 * np.array([0.6, 0.4, 0.2])
    np.testing.assert_allclose(after[cheek(mesh)].mean((0, 1)), wanted, atol=0.01)


@pytest.mark.parametrize(("width", "yaw", "roll"), [(200, 0, 0), (170, 25, 130), (90, -20, -40)])
def test_maps_lie_where_the_network_saw_them(plain: IdentityData, width: float, yaw: float, roll: float) -> None:
    """Gain log(target) on a white texture gives the target back, if both images and the maps are in one place."""
    white, mesh = person(plain_paint((1, 1, 1))), head(width, yaw, roll)
    crop = shot(mesh)
    net = network([node("Log", ["target"], "gain"), PRINTED])
    patch, after = swap(net, mesh, crop, white)
    inside = np.zeros((HEIGHT, WIDTH), bool)
    ids = rasterise(np.ascontiguousarray(mesh[:SURFACE, :2]), mesh[:SURFACE, 2], WIDTH, HEIGHT)
    inside[6:-6, 6:-6] = (ids >= 0)[6:-6, 6:-6]
    assert patch.mask[inside].mean() > 0.85
    eyes = np.abs(after - crop).max(2)
    assert np.median(eyes[inside]) < 0.004 and np.percentile(eyes[inside], 90) < 0.02


def test_the_texture_is_drawn_on_the_targets_mesh(plain: IdentityData) -> None:
    """Bias −target on the texture leaves what differs between the two: nothing, where both show one head."""
    mesh = head(190, 15, 20)
    crop = shot(mesh)
    net = network(
        [node("Sub", ["target", "drawn"], "apart"), node("Mul", ["apart", "ten"], "bias"), PRINTED],
        ten=np.full(1, 10, np.float32),
    )
    _, after = swap(net, mesh, crop, plain)
    np.testing.assert_allclose(after[cheek(mesh)], crop[cheek(mesh)], atol=0.05)


@pytest.mark.parametrize("name", ["seen", "trust", "skin"])
def test_what_the_network_is_told(plain: IdentityData, name: str) -> None:
    """The map itself as the share of a red texture: it must be what mien knows of each place."""
    mesh, red = head(200, roll=15), person(plain_paint((1, 0, 0)))
    half = np.zeros((80, 80), np.float32)
    half[:, :40] = 1
    crop = shot(mesh, plain_paint((0.2, 0.2, 0.2)))
    trust = np.tile(np.linspace(0, 1, 256, dtype=np.float32), (256, 1))
    who = IdentityData(ME, red.texture, trust, red.mesh, red.shape)
    net = network([node("Mul", ["mask", name], "share")])
    _, after = swap(net, mesh, crop, who, {"occluder": half} if name == "seen" else None)
    surface = np.ascontiguousarray(mesh[:SURFACE, :2])
    ids = rasterise(surface, mesh[:SURFACE, 2], WIDTH, HEIGHT)
    uv = interpolate(ids, surface, topology().uv)
    wanted = {
        "seen": (np.arange(WIDTH)[None] > WIDTH / 2).astype(np.float32).repeat(HEIGHT, 0),
        "trust": uv[..., 0],
        "skin": atlas(256).skin[np.rint(uv[..., 1] * 255).astype(int), np.rint(uv[..., 0] * 255).astype(int)],
    }[name]
    found = (after[..., 0] - 0.2) / 0.8
    middle = (ids >= 0) & (np.abs(uv - 0.5).max(2) < 0.35) & (np.abs(np.arange(WIDTH) - WIDTH / 2) > 12)[None]
    for eye in (mesh[468, :2], mesh[473, :2]):  # the eyes come after
        rows, columns = np.mgrid[:HEIGHT, :WIDTH]
        middle &= np.hypot(columns - eye[0], rows - eye[1]) > 26
    assert np.abs(found - wanted)[middle].mean() < 0.05
    assert np.corrcoef(found[middle], wanted[middle])[0, 1] > 0.9


@pytest.mark.parametrize(("right", "down"), [(1.5, -2.0), (0.0, -1.5)])
def test_the_flow_says_where_the_texture_was_drawn(right: float, down: float) -> None:
    """A ramp that is read further along is brighter by its slope, in the network's upright pixels."""
    who, mesh = person(lambda uv: np.repeat(uv[..., :1] * 0.2 + uv[..., 1:] * 0.7, 3, -1)), head(200, roll=90)
    crop = shot(mesh, plain_paint((0.2, 0.2, 0.2)))
    moves = np.array([right, down], np.float32).reshape(1, 2, 1, 1)
    still, moved = (
        swap(network([node("Concat", ["mask", "mask"], "two", axis=1), node("Mul", ["two", "none"], "no"),
                      node("Add", ["no", "by"], "flow"), PRINTED], by=by), mesh, crop, who)[1]
        for by in (0 * moves, moves)
    )  # fmt: skip
    matrix = upright_matrix(mesh, MARGIN, SIDE)
    surface = np.ascontiguousarray(mesh[:SURFACE, :2])
    uv = interpolate(rasterise(surface, mesh[:SURFACE, 2], WIDTH, HEIGHT), surface, topology().uv)
    shift = np.linalg.inv(matrix[:, :2]) @ (right, down)  # in the crop's pixels
    part = cheek(mesh)
    ahead = tuple(slice(s.start + round(d), s.stop + round(d)) for s, d in zip(part, shift[::-1], strict=True))
    paint = uv[..., 0] * 0.2 + uv[..., 1] * 0.7
    wanted = paint[ahead].mean() - paint[part].mean()
    assert abs(wanted) > 0.004
    found = (moved - still)[part].mean()
    assert found == pytest.approx(wanted, rel=0.25)


def test_nothing_changes_outside_the_mesh_whatever_the_network_says(plain: IdentityData) -> None:
    mesh = head(roll=30)
    crop = shot(mesh, plain_paint((0.2, 0.2, 0.2)))
    net = network([node("Div", ["seen", "seen"], "share")])
    patch, after = swap(net, mesh, crop, plain)
    ids = rasterise(np.ascontiguousarray(mesh[:SURFACE, :2]), mesh[:SURFACE, 2], WIDTH, HEIGHT)
    outside = np.ones((HEIGHT, WIDTH), bool)
    rows, columns = np.nonzero(ids >= 0)
    for dy in range(-4, 5):
        for dx in range(-4, 5):
            outside[np.clip(rows + dy, 0, HEIGHT - 1), np.clip(columns + dx, 0, WIDTH - 1)] = False
    assert patch.mask[outside].max() == 0
    np.testing.assert_array_equal(after[outside], crop[outside])


def test_each_face_of_a_batch_gets_its_own_maps() -> None:
    who, meshes = person(plain_paint((1, 1, 1))), [head(200), head(150, 20, -30)]
    crops = [shot(meshes[0], plain_paint((0.2, 0.5, 0.8))), shot(meshes[1], plain_paint((0.7, 0.3, 0.1)))]
    faces = [heads.face(mesh, OTHER, STILL) for mesh in meshes]
    model = TextureSwapper("cpu", network([node("Log", ["target"], "gain"), PRINTED]))
    patches = model(crops, faces, [None, None], Source(who), NET)
    for patch, mesh, color in zip(patches, meshes, ((0.2, 0.5, 0.8), (0.7, 0.3, 0.1)), strict=True):
        np.testing.assert_allclose(patch.rgb[cheek(mesh)].mean((0, 1)), color, atol=0.01)
    assert model([], [], [], Source(who), NET) == []


def test_skin_tone_takes_the_light_back(plain: IdentityData) -> None:
    who, mesh = person(plain_paint((0.6, 0.4, 0.2))), head()
    crop = shot(mesh, plain_paint((0.3, 0.3, 0.3)))
    net = network(
        [NOUGHT, node("Add", ["zero", "g"], "gain"), PRINTED],
        g=np.log(np.array([0.5, 0.5, 0.5], np.float32)).reshape(1, 3, 1, 1),
    )
    tones = [
        swap(net, mesh, crop, who, style=Style(share, 0.0, "swapgan"))[1][cheek(mesh)].mean((0, 1))
        for share in (0.0, 0.5, 1.0)
    ]
    for tone, gain in zip(tones, (0.5, 0.75, 1.0), strict=True):
        np.testing.assert_allclose(tone, np.array([0.6, 0.4, 0.2]) * gain, atol=0.01)


def test_highlights_are_toned_down_the_more_a_face_is_brightened() -> None:
    """A shiny spot of 0.3 above dark skin: nearly whole as it is, a third less once the skin is made pale."""

    def shiny(uv: FloatArray) -> FloatArray:
        away = np.linalg.norm(uv - np.array(heads.SPOT, np.float32), axis=-1)[..., None]
        return np.repeat(np.where(away < 0.03, np.float32(0.5), np.float32(0.2)), 3, -1)

    who, mesh = person(shiny), head()
    row, column = heads.spot_on(mesh, WIDTH, HEIGHT)
    spots = []
    for brighter in (0.0, 0.4):
        net = network(
            [NOUGHT, node("Add", ["zero", "b"], "bias"), PRINTED], b=np.full((1, 3, 1, 1), brighter, np.float32)
        )
        _, after = swap(net, mesh, shot(mesh, plain_paint((0.5, 0.5, 0.5))), who)
        around = after[row - 2 : row + 3, column - 22 : column - 16].mean()
        assert around == pytest.approx(0.2 + brighter, abs=0.01)
        spots.append(after[row - 1 : row + 2, column - 1 : column + 2].mean() - around)
    assert spots[0] > 0.22 and spots[1] < 0.7 * spots[0]


def test_eyes_are_not_put_where_the_network_keeps_the_target(plain: IdentityData) -> None:
    mesh = head()
    crop = shot(mesh, plain_paint((0.2, 0.2, 0.2)))
    _, after = swap(network([]), mesh, crop, plain)
    np.testing.assert_allclose(after, crop, atol=1 / 255)


def test_a_file_of_another_layout_is_refused() -> None:
    other = graph([node("Identity", ["x"], "y")], {"x": ("n", 3, SIDE, SIDE)}, {"y": ("n", 3, SIDE, SIDE)})
    with pytest.raises(ModelError):
        TextureSwapper("cpu", other)


def test_the_view_is_upright() -> None:
    mesh = head(roll=70)
    points = transform(mesh[:SURFACE, :2], upright_matrix(mesh, MARGIN, SIDE))
    assert np.ptp(points, axis=0).max() == pytest.approx(SIDE / MARGIN, rel=1e-3)
    assert abs(points[33, 1] - points[263, 1]) < 0.5 and points[10, 1] < points[152, 1]
