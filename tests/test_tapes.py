"""Tapes against real PyTorch: every allocation and release above 2 KiB of a step, in order.

What is freed together, with no allocation in between, has no order that matters.

`truth/tapes.json` was recorded from PyTorch 2.13 and transformers 5.23 on fake tensors; sizes are bytes, negative when
freed. Equal sequences mean that operations, saved tensors and lifetimes are PyTorch's.
"""

from itertools import groupby

import pytest
from conftest import truth

from memcore import Config, estimate

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
