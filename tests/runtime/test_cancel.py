"""Ending an inference that runs too long."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mien.errors import ModelError
from mien.runtime.session import Session
from mien.runtime.watchdog import Watchdog
from mien.zoo.registry import Zoo


def _loop_model() -> bytes:
    """Multiplies a matrix by itself as often as asked."""

    def info(name: str, kind: int, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("MatMul", ["x", "x"], ["x_next"])],
        "body",
        [info("i", TensorProto.INT64), info("go", TensorProto.BOOL), info("x", TensorProto.FLOAT, 64, 64)],
        [info("go_on", TensorProto.BOOL), info("x_next", TensorProto.FLOAT, 64, 64)],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["times", "", "x"], ["y"], body=body)],
        "loop",
        [info("times", TensorProto.INT64), info("x", TensorProto.FLOAT, 64, 64)],
        [info("y", TensorProto.FLOAT, 64, 64)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


def test_cancel_ends_the_running_inference_and_no_later_one() -> None:
    session = Session(_loop_model(), "cpu", threads=1)
    zeros = np.zeros((64, 64), np.float32)
    stop = threading.Event()

    def cancel() -> None:
        while not stop.wait(0.05):
            session.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        with pytest.raises(ModelError, match="terminate"):
            session(np.array(10**12, np.int64), zeros)
    finally:
        stop.set()
        canceller.join()
    session.cancel()
    assert session(np.array(2, np.int64), zeros)[0].shape == (64, 64)


def test_a_zoo_cancels_the_sessions_of_its_models_and_names_their_device() -> None:
    class Model:
        def __init__(self) -> None:
            self._session = Session(_loop_model(), "cpu", threads=1)

    model, zoo = Model(), Zoo("cpu")
    assert zoo.used_device == "cpu"
    zoo._loaded["swapper", "loop"] = model
    done: list[ModelError] = []

    def infer() -> None:
        try:
            zoo.load("swapper", "loop")._session(np.array(10**12, np.int64), np.zeros((64, 64), np.float32))
        except ModelError as error:
            done.append(error)

    thread = threading.Thread(target=infer)
    thread.start()
    while thread.is_alive():
        zoo.cancel()
        thread.join(0.05)
    assert "terminate" in str(done[0])
    assert zoo.used_device == "cpu"


def _endless(session: Session) -> str:
    with pytest.raises(ModelError) as caught:
        session(np.array(10**12, np.int64), np.zeros((64, 64), np.float32))
    return str(caught.value)


def test_a_watchdog_ends_each_inference_that_lasts_too_long_and_no_other() -> None:
    session, other = (Session(_loop_model(), "cpu", threads=1, name=name) for name in ("slow", "quick"))
    watchdog = Watchdog(0.3)
    watchdog.add(session)
    watchdog.add(other)
    for _ in range(2):
        began = time.perf_counter()
        assert _endless(session) == (
            "slow: the model gave no answer in time; raise --model-timeout if it is only slow, else run `mien doctor`"
        )
        assert 0.25 < time.perf_counter() - began < 20
        assert other(np.array(2, np.int64), np.zeros((64, 64), np.float32))[0].shape == (64, 64)


def test_a_watchdogs_thread_ends_with_it() -> None:
    before = set(threading.enumerate())
    watchdog = Watchdog(60)
    watchdog.add(Session(_loop_model(), "cpu", threads=1))
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon
    del watchdog
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_an_inference_is_ended_when_it_was_seen_often_enough_whatever_time_went_by() -> None:
    session = Session(_loop_model(), "cpu", threads=1)
    thread = threading.Thread(target=_endless, args=(session,))
    thread.start()
    while not session.replicas[0].running:
        time.sleep(0.001)
    (call,) = session.replicas[0].running
    for _ in range(3):
        session.expire(3)
        assert not call.expired
    session.expire(3)
    assert call.expired
    thread.join(10)
    assert not session.replicas[0].running
