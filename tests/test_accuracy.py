"""The accuracy report: errors, ranges, and what its pictures show."""

from xml.etree import ElementTree as ET

import pytest
from conftest import predicted, truth

from memcore.faces.render.accuracy import errors, points, scatter
from memcore.questions.accuracy import accuracy

pytestmark = pytest.mark.machine  # the same Python in Pyodide, where it takes minutes

MODEL = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "vocab_size": 32000,
}
CONFIG = {"model": MODEL, "training": {"sequence_length": 512}, "engine": {"type": "none"}}


def case(name, quantity, size, config=CONFIG, **measured):
    """A measured case."""
    return {
        "id": name,
        "regime": "full-ft",
        "config": config,
        "measured": {"quantity": quantity, "bytes": size, "moment": "peak", **measured},
        "source": {"kind": "hardware"},
    }


PREDICTED = accuracy([case("one", "max_allocated", 1)]).results[0].predicted


def test_errors_and_ranges():
    """The error is signed; a reading of the peak has a range, and what is measured lies in it or not."""
    low, high = accuracy([case("one", "max_allocated", PREDICTED)]).results[0].range
    assert low <= PREDICTED <= high
    report = accuracy([case("at", "max_allocated", high), case("above", "max_allocated", 2 * high)])
    assert [each.inside for each in report.results] == [True, False]
    assert report.results[1].error == pytest.approx((PREDICTED - 2 * high) / (2 * high))
    (group,) = report.regimes()
    assert (group.engine, group.cases, group.inside) == ("full-ft", 2, 0.5)
    assert report.to_dict()["cases"][0]["inside"] is True


def test_what_has_no_prediction_is_named():
    """A refused config is counted with its reason, and is in no picture."""
    report = accuracy([case("bad", "max_allocated", 5, {"model": "gpt2", "training": {"nonsense": 1}})])
    assert report.results[0].status == "not_expressible"
    assert "training.nonsense: unknown key" in report.results[0].reason
    assert points(report.results) == []


STAGES = {
    **CONFIG,
    "parallelism": {"pipeline_parallel_size": 2},
    "engine": {"type": "fsdp"},
    "hardware": {"num_gpus": 4},
}


@pytest.mark.parametrize(
    ("config", "rank", "allowed"),
    [
        (CONFIG, "worst", "all the same"),
        (CONFIG, 1, "all the same"),
        (CONFIG, True, "all the same"),
        (STAGES, 2, "one of 2 stages"),
        (STAGES, -1, "one of 2 stages"),
        (STAGES, "total", "is not predicted"),
    ],
)
def test_a_rank_that_is_none_is_refused_by_name(config, rank, allowed):
    """It is not taken for the worst of all."""
    (found,) = accuracy([case("bad", "max_allocated", 5, config, rank=rank)]).results
    assert found.predicted is None
    assert "rank" in found.reason
    assert allowed in found.reason


def test_the_least_of_all_ranks():
    """`min` is the rank that holds least, `max` and no rank the one that holds most."""
    ranks = ("min", 0, 1, "max", None)
    results = accuracy([case("one", "max_allocated", 5, STAGES, rank=rank) for rank in ranks]).results
    least, first, last, most, unnamed = (each.predicted for each in results)
    assert least == min(first, last) < max(first, last) == most == unnamed


def test_pictures():
    """A dot for each case, on the diagonal and on the line of no error where the prediction is exact."""
    shown = points(
        accuracy([case("exact", "max_allocated", PREDICTED), case("off", "max_allocated", 3 * PREDICTED)]).results
    )
    for drawn in (scatter(shown), errors(shown)):
        dots = ET.fromstring(drawn).findall(".//{http://www.w3.org/2000/svg}circle")
        assert [dot[0].text.split(":")[0] for dot in dots] == ["exact", "off"]
    exact, off = ET.fromstring(scatter(shown)).findall(".//{http://www.w3.org/2000/svg}circle")
    assert float(exact.get("cy")) == float(off.get("cy"))
    assert float(exact.get("cx")[:-1]) < float(off.get("cx")[:-1])


def test_measurements_lie_in_the_stated_range():
    """Nine in ten of the published jobs whose configs leave little open."""
    results = [
        each
        for name in ("hardware", "megatron")
        for each in predicted(name, lambda case: case.get("confidence") == "high")
    ]
    inside = [each.inside for each in results if each.inside is not None]
    assert len(inside) > 80
    assert sum(inside) / len(inside) >= 0.9


def test_an_assumed_quantity_is_what_the_engine_logs():
    """nanotron's benchmark resets the peak of allocated memory before it writes it: its numbers are reserved memory."""
    cases = [each for each in truth("nanotron") if each["measured"]["quantity"] != "fits"]
    found = predicted("nanotron", cases.__contains__)
    assert {(each.quantity, each.stated) for each in found} == {("max_reserved", "max_allocated")}
    sure = [{**each, "assumed": []} for each in cases[:1]]
    assert [(each.quantity, each.stated) for each in accuracy(sure).results] == [("max_allocated", "")]
    errors = sorted(abs(each.error) for each in found)
    assert errors[len(errors) // 2] < 0.055


def timed_layouts(*tensor_and_seconds):
    """Cases of one model on eight GPUs, each a layout with the seconds of its step."""
    return [
        {
            "id": f"tp{tensor}",
            "config": {
                "model": "llama-3.1-8b",
                "training": {"sequence_length": 4096, "activation_checkpointing": "full"},
                "parallelism": {"tensor_parallel_size": tensor},
                "engine": {"type": "megatron", "distributed_optimizer": True},
                "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"},
            },
            "measured": {"quantity": "step_seconds", "value": seconds},
        }
        for tensor, seconds in tensor_and_seconds
    ]


@pytest.mark.parametrize(
    ("layouts", "spearman", "regret"),
    [
        (((1, 1.0), (2, 1.0), (4, 1.0)), 1.0, 0.0),  # as many seconds for fewer sequences a step
        (((1, 8.0), (2, 2.0), (4, 0.5)), -1.0, 3.0),  # 1, 0.5 and 0.25 seconds for each sequence
        (((1, 8.0), (2, 4.0), (4, 2.0)), None, 0.0),
        (((1, 1.0), (2, 1.0)), (), ()),  # two are no order
    ],
)
def test_layouts_are_ranked(layouts, spearman, regret):
    """Tensor parallelism is expected to be slower for each token: by hand, eight, four and two sequences a step."""
    summary = accuracy(timed_layouts(*layouts)).to_dict()["summary"]["rank_correlation"]
    assert [each["spearman"] for each in summary] == (
        [] if spearman == () else [pytest.approx(spearman) if spearman else None]
    )
    assert [each["regret"] for each in summary] == ([] if regret == () else [pytest.approx(regret)])
    assert all(each["layouts"] == len(layouts) for each in summary)
