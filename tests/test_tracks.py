"""Sliders: what their tracks are painted as is what an estimate of each step says."""

import pytest

from memcore import Config, estimate
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.config.url import decode_fragment
from memcore.errors import MemcoreError
from memcore.faces.page.actions import handle
from memcore.faces.page.answering import values_of
from memcore.faces.page.session import Session
from memcore.faces.render.page import EXAMPLE
from memcore.faces.render.tracks import track_title
from memcore.i18n.page import speaking
from memcore.questions.describe import verdict
from memcore.questions.describe_serving import serving_verdict
from memcore.questions.painting import PAINTED, TRACKS, painted
from memcore.questions.solving import solve
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import Inference

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

SERVER = {"model": "llama-3.1-8b", "engine": {"type": "vllm"}, "inference": {"batch_size": 64, "max_model_len": 8192},
          "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 1}}  # fmt: skip
FSDP = decode_fragment(
    "v1&model=llama-3.1-8b&seq=8192&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8"
).to_dict()
PIPELINE = decode_fragment(
    "v1&model=llama-3.1-8b&engine=megatron&tp=2&pp=2&gpus=8&grad-accum=4&accelerator=h100-sxm-80gb"
).to_dict()
CASES = [(EXAMPLE, Hardware.num_gpus), (EXAMPLE, Training.sequence_length), (FSDP, Hardware.num_gpus),
         (FSDP, Training.micro_batch_size), (PIPELINE, Hardware.num_gpus), (PIPELINE, Training.sequence_length),
         (SERVER, Hardware.num_gpus), (SERVER, Inference.batch_size), (SERVER, Inference.max_model_len)]  # fmt: skip


def one_by_one(config, value, path):
    """The same without any shortcut."""
    try:
        found = estimate(config.replaced(path, value))
    except MemcoreError:
        return "refused"
    return PAINTED[(serving_verdict(found) if isinstance(found, ServingEstimate) else verdict(found)).level]


def ended(pieces):
    """What work in pieces comes to, and in how many."""
    count = 0
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            return done.value, count
        count += 1


@pytest.mark.parametrize(("job", "path"), CASES)
def test_a_track_is_what_every_step_says(job, path):
    """Whichever steps the shortcut leaves out, and in pieces between which an edit is answered."""
    config = Config.from_dict(job)
    marks, pieces = ended(painted(config, path))
    assert marks == [one_by_one(config, 2**power, path) for power in TRACKS[path]]
    assert {"fits", "tight"} & set(marks)
    assert pieces >= len(marks)


@pytest.mark.parametrize(
    ("path", "marks", "edge", "english", "chinese"),
    [
        (Training.micro_batch_size, "nnnnnnnn", 0, "No value on this slider fits", "滑块上没有可放下的值"),
        (Training.micro_batch_size, "ffffffff", 0, "Every value on this slider fits", "滑块上的所有值都可放下"),
        (Training.micro_batch_size, "fftnnnnn", 5, "Fits up to 5; tight above 2", "最多可放下 5；超过 2 余量很小"),
        (Training.micro_batch_size, "tnnnnnnn", 0, "Fits up to 1, though tightly", "最多可放下 1，但余量很小"),
        (Hardware.num_gpus, "nntfffffff", 3, "Fits from 3 on; tight below 8", "从 3 起可放下；低于 8 余量很小"),
        (Hardware.num_gpus, "nfffffrrrr", 0, "Fits from 2 to 32", "2 至 32 可放下"),
        (
            Hardware.num_gpus,
            "trtfffffff",
            1,
            "Fits at 1, 4 to 512; tight below 8",
            "可放下的值：1、4 至 512；低于 8 余量很小",
        ),
        (
            Hardware.num_gpus,
            "ntnfffffff",
            0,
            "Fits at 2, 8 to 512; tight below 8",
            "可放下的值：2、8 至 512；低于 8 余量很小",
        ),
        (Training.micro_batch_size, "fnfnnnnn", 5, "Fits at 1, 4 to 5", "可放下的值：1、4 至 5"),
        (Training.micro_batch_size, "ftfnnnnn", 1, "Fits up to 4; tight at 2", "最多可放下 4；2 余量很小"),
        (Training.micro_batch_size, "rffnnnnn", 0, "Fits from 2 to 4", "2 至 4 可放下"),
        (Hardware.num_gpus, "fffnnnnnnn", 0, "Fits up to 4", "最多可放下 4"),
    ],
)
def test_a_track_says_what_it_shows(path, marks, edge, english, chinese):
    """Who does not see colours reads up to where the job fits."""
    every = [{"f": "fits", "t": "tight", "n": "no", "r": "refused"}[mark] for mark in marks]
    assert track_title(path, every, edge) == english
    with speaking("zh"):
        assert track_title(path, every, edge) == chinese


def visited(link):
    session = Session()
    list(handle(session, {"do": "open", "link": link}))
    return session


def test_tracks_come_after_the_answer():
    """All at once as steps, then the exact values; a number that is pulled keeps its own track."""
    session = visited("#v1&model=gpt2&seq=512&accelerator=t4")
    patches = [
        patch["tracks"]
        for exact in (False, True)
        for patch in handle(session, {"do": "tracks", "exact": exact})
        if patch
    ]
    paths = [Hardware.num_gpus, Training.sequence_length, Training.micro_batch_size]
    assert [path for patch in patches[:3] for path in patch] == paths
    last = {path: track for patch in patches for path, track in patch.items()}
    exact = solve(session.config, Training.micro_batch_size).value
    assert last[Training.micro_batch_size]["edge"] == exact
    assert last[Training.micro_batch_size]["title"].startswith(f"Fits up to {exact:,}")
    texts = {**values_of(session.form), Training.micro_batch_size: "2"}
    list(handle(session, {"do": "edit", "texts": texts, "path": Training.micro_batch_size, "entry": 1}))
    track = session.painted[Training.micro_batch_size]
    list(handle(session, {"do": "tracks"}))
    assert session.painted[Training.micro_batch_size] is track
    assert session.painted[Training.sequence_length].key != last


def test_an_edit_ends_the_painting():
    """What is painted of another job is never sent."""
    session = visited("#v1&model=gpt2&seq=512&accelerator=t4")
    painting = handle(session, {"do": "tracks"})
    for _ in range(3):
        next(painting)
    list(handle(session, {"do": "edit", "texts": {**values_of(session.form), "model": "llama-3.2-1b"}, "entry": 1}))
    assert list(painting) == []  # not one piece more


def test_without_an_accelerator_nothing_is_painted():
    """Nothing is known to fit then."""
    session = visited("#v1&model=gpt2&seq=512")
    assert [patch for patch in handle(session, {"do": "tracks"}) if patch] == [{"tracks": {}}]
