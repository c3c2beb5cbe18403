"""GPEN: restores faces with a GAN embedded in a U-shaped network.

Yang et al., "GAN Prior Embedded Network for Blind Face Restoration in the Wild", 2021.
"""

from __future__ import annotations

from mien.zoo.cards import ModelCard, Weights
from mien.zoo.enhancers.restorer import Restorer
from mien.zoo.registry import register

ORIGIN = "https://github.com/yangxy/GPEN; converted, in https://huggingface.co/facefusion/models-3.0.0"
LICENCE = "LicenseRef-GPEN-non-commercial"


@register(
    ModelCard(
        name="gpen_bfr_256",
        task="enhancer",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "gpen_bfr_256.onnx",
            "bad8bf0426873828df2dbf4e3b3d9ababba9da7965b8b72426569486f7ae5c25",
            75792988,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/gpen_bfr_256.onnx",),
            bundled=False,
        ),
    )
)
class GpenBfr256(Restorer):
    """Small and fast, on the crops that most swappers give."""

    template = "arcface_128"
    size = 256


@register(
    ModelCard(
        name="gpen_bfr_512",
        task="enhancer",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "gpen_bfr_512.onnx",
            "d5f066b9068a8b74217f9712e28e875a6144629b108a6f7355acbdb3a2832c54",
            284340240,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/gpen_bfr_512.onnx",),
            bundled=False,
        ),
    )
)
class GpenBfr512(Restorer):
    """For faces of some 300 pixels."""

    size = 512


@register(
    ModelCard(
        name="gpen_bfr_1024",
        task="enhancer",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "gpen_bfr_1024.onnx",
            "bcd31aa52110a2005efc96abbab4546d57e42482648f08715b552423d96b381b",
            285203703,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/gpen_bfr_1024.onnx",),
            bundled=False,
        ),
    )
)
class GpenBfr1024(Restorer):
    """For large faces."""

    size = 1024


@register(
    ModelCard(
        name="gpen_bfr_2048",
        task="enhancer",
        licence=LICENCE,
        commercial=False,
        origin=ORIGIN,
        weights=Weights(
            "gpen_bfr_2048.onnx",
            "66d12a637118d71b00f5a290b8dac13c81c1c0326a127a1978799c6e17bb8d1f",
            285582766,
            ("https://huggingface.co/facefusion/models-3.0.0/resolve/main/gpen_bfr_2048.onnx",),
            bundled=False,
        ),
    )
)
class GpenBfr2048(Restorer):
    """For very large faces, as in photos."""

    size = 2048
