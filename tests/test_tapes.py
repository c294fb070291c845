"""Tapes against real PyTorch: every allocation and release above 2 KiB of a step, in order.

What is freed together, with no allocation in between, has no order that matters.

`truth/tapes.json` was recorded from PyTorch 2.13 and transformers 5.23 on fake tensors; sizes are bytes, negative when
freed. Equal sequences mean that operations, saved tensors and lifetimes are PyTorch's.
"""

from itertools import groupby

import pytest
from conftest import truth

from memcore import Config, ConfigError, UnsupportedError, estimate

TAPES = truth("tapes")
SMALL = 2048


@pytest.mark.parametrize("name", TAPES)
def test_every_event(name):
    """The sequence of allocations and releases is the same, event for event."""
    found = estimate(Config.from_dict(TAPES[name]["config"]), fake=True)
    program, sizes = found.rank.program, found.job.sizes
    blocks = program.block_sizes(sizes)
    events = [
        blocks[event] if event >= 0 else -blocks[~event]
        for span in program.spans
        for _ in range(1 if span.repeats is None else sizes[span.repeats])
        for event in program.events[span.start : span.end]
        if blocks[event if event >= 0 else ~event] > SMALL
    ]
    assert normal(events) == normal(TAPES[name]["events"])


def normal(events):
    """The same events, with those that free something sorted where they come together."""
    return [
        event
        for frees, group in groupby(events, key=lambda event: event < 0)
        for event in (sorted(group) if frees else group)
    ]


def seen(name, training=None, **model):
    """A job like that of a tape, with other keys."""
    config = TAPES[name]["config"]
    whole = {**config["training"], **(training or {})}
    job = {
        **config,
        "model": {**config["model"], **model},
        "training": {k: v for k, v in whole.items() if v is not None},
    }
    return estimate(Config.from_dict(job))


def test_a_sequence_too_short_for_an_image_is_text_alone():
    """Unless images are asked for: an image of 128 pixels is 64 tokens here."""
    free = {"images_per_sequence": None, "image_size": None}
    assert seen("mistral3, eager", free).job.sizes["ni"] == 1
    assert "ni" not in seen("mistral3, eager", {**free, "sequence_length": 63}).job.sizes
    for asked in ({"images_per_sequence": 1}, {"image_size": 128}):
        with pytest.raises(ConfigError, match="the images alone take 64 tokens"):
            seen("mistral3, eager", {**free, **asked, "sequence_length": 63})


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("internvl, checkpointed", {"vision_feature_select_strategy": "full"}),
        ("internvl, checkpointed", {"vision_feature_layer": [-1, -2]}),
        ("mistral3, eager", {"vision_feature_layer": [-1, -2]}),
        ("llava, pixtral's tower", {"vision_feature_select_strategy": "default"}),
    ],
)
def test_features_that_the_original_cannot_select_are_refused(name, keys):
    """The key is named."""
    with pytest.raises(UnsupportedError, match=next(iter(keys))):
        _ = seen(name, **keys).peak
