"""What must hold for every job, tried on random ones."""

from dataclasses import replace
from unittest.mock import patch
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from strategies import any_configs, jobs

from memcore import Config, estimate
from memcore.config.url import decode_fragment, encode_fragment
from memcore.errors import MemcoreError
from memcore.faces.render import html, svg
from memcore.memory.ledger import CATEGORIES
from memcore.trace.code import code_of
from memcore.trace.engine import engine_of
from memcore.trace.program import Program
from memcore.trace.step import Step

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

settings.register_profile("memcore", deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
settings.load_profile("memcore")


def answered(job):
    """The estimate of a job, if its settings go together."""
    try:
        return estimate(job)
    except MemcoreError:
        assume(False)
        raise


def recorded_in_full(found):
    """The program of a job with every layer recorded on its own."""
    recipe = replace(found.job.recipe, repeats=found.job.model.repeats)
    with patch("memcore.trace.step.repetitions", lambda run, count: [None] * count):
        step = Step(recipe, engine_of(recipe.sharding.engine).runtime)
        code = code_of(recipe.implementation)
        step.record(code.forward, code.inputs)
    return Program(step.tape)


@given(jobs())
def test_equal_layers_can_stand_for_each_other(job):
    """Recording every layer gives the same highest bytes in every phase and the same bytes at the end."""
    found = answered(job)
    full = recorded_in_full(found).moments(found.job.sizes, found.rank.persistent.before_step)
    short = found.rank.program.moments(found.job.sizes, found.rank.persistent.before_step)
    assert short[-1].end == full[-1].end
    for key in {(moment.phase, moment.turn) for moment in full}:
        assert highest(short, key) == highest(full, key)


def highest(moments, key):
    return max(moment.peak for moment in moments if (moment.phase, moment.turn) == key)


@given(jobs())
def test_parts_add_up_at_every_moment(job):
    """The entries of the ledger sum to the bytes of the moment, and the timeline's highest sample is the peak."""
    found = answered(job)
    for moment in found.moments:
        ledger = found.rank.ledger(moment)
        assert ledger.total == moment.peak == sum(ledger.by_category.values())
        assert all(entry.copies > 0 and entry.each >= 0 for entry in ledger.entries)
        assert set(ledger.by_category) <= set(CATEGORIES)
    assert max(sum(sample.levels) for sample in found.rank.profile) == found.peak.peak


@given(jobs())
def test_readings_are_ordered(job):
    """allocated <= reserved <= device, each between its low and its high end, and the first step never needs more."""
    found = answered(job)
    for reading in found.readings:
        assert reading.low <= reading.expected <= reading.high
    assert found.allocated.expected <= found.reserved.expected <= found.device.expected
    assert found.rank.first_step <= found.peak.peak


@given(jobs(), st.sampled_from(["micro_batch_size", "sequence_length"]))
def test_more_work_never_needs_less(job, name):
    """A larger micro-batch or a longer sequence never lowers the peak."""
    job["training"]["attention"] = "math"  # SDPA's choice of a kernel may change at a window
    job["model"]["sliding_window"] = None
    small = answered(job)
    job["training"][name] *= 2
    assert answered(job).peak.peak >= small.peak.peak


@given(jobs())
def test_more_layers_never_need_less(job):
    """One more layer never lowers the peak, nor what stays between steps."""
    text = job["model"].get("text_config", job["model"])
    key = "n_layer" if text["model_type"] == "gpt2" else "num_hidden_layers"
    small = answered(job)
    text[key] += 1
    large = answered(job)
    assert large.peak.peak >= small.peak.peak
    assert large.rank.between_steps >= small.rank.between_steps


@given(jobs(engines=("fsdp",)), st.sampled_from([2, 4]))
def test_more_shards_never_keep_more(job, factor):
    """Sharding over more ranks never needs more memory between steps, and all shards together hold everything."""
    job["parallelism"] = {}
    few = answered(job)
    job["hardware"]["num_gpus"] *= factor
    many = answered(job)
    assert many.rank.between_steps <= few.rank.between_steps
    if not job["engine"]["cpu_offload"]:
        itemsize = 4 if job["training"]["precision"] != "bf16" else 2
        assert many.job.num_gpus * many.rank.persistent.parameters >= many.job.model.parameters * itemsize


@given(jobs(), st.sampled_from([2, 8]))
def test_data_parallel_ranks_do_not_change_ddp(job, factor):
    """Under DDP every rank holds the same, however many there are."""
    job["engine"], job["parallelism"] = {"type": "ddp"}, {}
    job["training"]["precision"] = "bf16"
    job["hardware"]["num_gpus"] = 2
    few = answered(job)
    job["hardware"]["num_gpus"] *= factor
    assert answered(job).peak.peak == few.peak.peak


@given(any_configs())
def test_links_round_trip(config):
    """A config comes back from its URL, and from its dictionary, as it was."""
    assert decode_fragment(encode_fragment(config)) == config
    assert Config.from_dict(config.to_dict()) == config


@given(any_configs())
def test_any_config_is_answered_or_refused(config):
    """Whatever the settings, there is an answer or an error for users, never a crash."""
    try:
        found = estimate(config)
    except MemcoreError as error:
        assert str(error)
        return
    assert found.device.expected > 0


@given(st.text(max_size=200))
def test_any_text_is_a_link_or_refused(text):
    """Whatever stands behind the #, it is read or refused with a reason."""
    try:
        decode_fragment("#v1&" + text)
    except MemcoreError as error:
        assert str(error)


@given(jobs())
def test_pictures_are_well_formed(job):
    """Every SVG is XML with a title and a description, and so is every part of the page."""
    found = answered(job)
    for picture in (svg.bar(found), svg.timeline(found), svg.standalone(svg.bar(found))):
        tree = ElementTree.fromstring(picture)
        assert tree.find("{http://www.w3.org/2000/svg}title").text
        assert tree.find("{http://www.w3.org/2000/svg}desc").text
    for part in html.sections(found).values():
        ElementTree.fromstring(f"<div>{part}</div>".replace("<br>", "<br/>"))
