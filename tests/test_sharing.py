"""Jobs that share GPUs: their processes add up, and nobody is asked twice which GPU it is."""

import json

import pytest

from memcore import ConfigError, estimate, plan_together, share
from memcore.config.settings import Config
from memcore.config.url import SHARING, decode_fragment, encode_fragment, read_fragment
from memcore.faces.cli import main
from memcore.faces.goals.sentences import asked
from memcore.faces.page.actions import handle
from memcore.faces.page.answering import values_of
from memcore.faces.page.session import Session
from memcore.questions.planning.together import on_the_rest
from memcore.units import format_bytes

TRAIN = {"model": "gpt2", "training": {"sequence_length": 512}, "hardware": {"accelerator": "t4"}}
GENERATE = {"model": "gpt2", "engine": {"type": "transformers"}, "inference": {"max_model_len": 512}}
SERVE = {"model": "gpt2", "engine": {"type": "vllm"}, "inference": {"max_model_len": 512}}


@pytest.mark.parametrize(
    ("others", "fits"), [((), True), ((GENERATE,), True), ((TRAIN, GENERATE), True), ((SERVE,), False)]
)
def test_processes_add_up(others, fits):
    """Low, expected and high ends are sums; the GPU of one is that of all."""
    found = share(TRAIN, *others)
    alone = [estimate({**each, "hardware": TRAIN["hardware"]}).device for each in (TRAIN, *others)]
    assert (found.low, found.expected, found.high) == tuple(
        sum(getattr(each, end) for each in alone) for end in ("low", "expected", "high")
    )
    assert found.fits is fits
    assert found.headroom == found.capacity - found.expected
    assert found.left_for(found.found[0]) == found.capacity - found.expected + alone[0].expected


def test_without_a_gpu_nobody_knows():
    """There are sums, and no verdict."""
    found = share(GENERATE, GENERATE)
    assert (found.fits, found.headroom, found.capacity) == (None, None, None)


def test_a_slice_is_shared_too():
    """A MIG profile of one job is that of the others."""
    hardware = {"accelerator": "a100-sxm-40gb", "mig": "3g.20gb"}
    assert share({**TRAIN, "hardware": hardware}, GENERATE).capacity < 20 * 2**30


def test_different_gpus_are_refused():
    """Jobs on different GPUs share none."""
    with pytest.raises(ConfigError, match="t4 and l4"):
        share(TRAIN, {**TRAIN, "hardware": {"accelerator": "l4"}})


def test_the_command_line(tmp_path, capsys):
    """A line for each job and their sum; what a server may still take where it is too much."""
    file = tmp_path / "train.json"
    file.write_text(json.dumps(TRAIN))
    server = tmp_path / "serve.json"
    server.write_text(json.dumps(SERVE))
    assert main(["estimate", str(file), "--with", "gpt2"]) == 0
    assert "together" in capsys.readouterr().out
    assert main(["estimate", str(file), "--with", str(server)]) == 1
    assert "would be left for" in capsys.readouterr().out
    assert main(["estimate", str(file), "--with", str(server), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["device_bytes"] == sum(each["device_bytes"] for each in found["jobs"])
    assert found["fits"] is False


JOBS = [Config.from_dict(each) for each in (TRAIN, GENERATE, {**TRAIN, "hardware": {"accelerator": "l4"}})]
LINK = encode_fragment(JOBS[0], JOBS[1:])
WRONG = {
    "twice": (f"{LINK}&with=v1%26model%3Dgpt2%26with%3Dv1", "already names other jobs"),
    "cut off": ("v1&model=gpt2&with=v1%26model%", "found '%'"),
    "no model": ("v1&model=gpt2&with=v1%26seq%3D512", "is required"),
    "too many": (f"{LINK}{f'&with={LINK[:10]}' * SHARING}", "at most"),
}


def test_a_link_names_jobs_on_the_same_gpus(capsys):
    """The job of the link is itself alone; the command line adds the others up."""
    assert decode_fragment(LINK) == JOBS[0]
    assert read_fragment(f"#{LINK}&view=compare").others == tuple(JOBS[1:])
    alone = encode_fragment(JOBS[0], JOBS[1:2])
    assert main(["estimate", f"https://example.org/#{alone}", "--with", "gpt2", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["jobs"]][1:] == ["with 1", "gpt2"]


@pytest.mark.parametrize(("link", "said"), WRONG.values(), ids=WRONG)
def test_a_damaged_link_names_what_is_wrong(link, said):
    """What can be read of it is."""
    found = read_fragment(link)
    assert found.config is not None
    assert any(said in str(each.message) for each in found.problems)


def told(session, doing, **more):
    """The HTML of a message's patches by element id, and the last link."""
    html, link = {}, None
    for patch in handle(session, {"do": doing, "texts": values_of(session.form), "entry": 1, **more}):
        html |= patch.get("html", {})
        link = patch.get("fragment", link)
    return html, link


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_adds_jobs_up(language):
    """A job that is kept runs on the GPU of the current one at a click; links carry it, another click ends it."""
    session = Session()
    told(session, "start", link=f"#{encode_fragment(JOBS[0])}", texts=None, language=language)
    told(session, "pin")
    told(session, "set", path="training.sequence_length", value="1024")
    other = session.config
    html, link = told(session, "share", name="A")
    both = share(other, JOBS[0])
    assert format_bytes(both.expected) in html["compare"]
    assert 'data-fits="true"' in html["together-note"]
    assert read_fragment(link).others == (JOBS[0],)
    again = Session()
    opened, _ = told(again, "start", link=f"#{link}", texts=None, language=language)
    assert opened["together-note"] == html["together-note"]
    html, link = told(session, "set", path="hardware.accelerator", value="l4")
    moved = share(*(each.replaced("hardware.accelerator", "l4") for each in (other, JOBS[0])))
    assert format_bytes(moved.expected) in html["compare"], "all run on the GPU of the current job"
    html, link = told(session, "share", name="A")
    assert (html["together-note"], "with=" in link) == ("", False)
    html, _ = told(again, "open", link="#v1&model=gpt2")
    assert html["together-note"] == ""


@pytest.mark.parametrize(
    ("models", "gpu", "given_up", "binds"),
    [
        (("llama-3.1-8b", "qwen2.5-7b"), {"accelerator": "rtx-4090"}, "quantized", False),
        (("qwen3-8b", "qwen3-14b"), {"accelerator": "rtx-4090", "num_gpus": 2}, "hardware", True),
        (("qwen3-4b", "qwen3-1.7b"), {"accelerator": "l4", "num_gpus": 2}, "same", False),
    ],
)
def test_servers_divide_a_gpu(models, gpu, given_up, binds):
    """All fit for certain at once, each holds what is asked, and estimated alone has the same bytes.

    Where there are GPUs enough, each has its own.
    """
    engine, asked = {"type": "vllm"}, {"max_model_len": 8192, "batch_size": 2}
    found = plan_together(*({"model": each, "engine": engine, "inference": asked, "hardware": gpu} for each in models))
    best = found.plans[0]
    alone = [estimate(each.config) for each in best.jobs]
    assert (best.gives_up, found.none_because is not None) == (given_up, binds)
    assert best.shared.apart == (given_up == "same")
    together = max if best.shared.apart else sum
    assert together(each.device.high for each in alone) == best.shared.high <= best.shared.capacity
    assert all(each.pool.capacity_low >= each.needed for each in alone)
    assert all(each.exports["vllm"].startswith("vllm serve") for each in best.jobs)


def test_what_other_processes_leave():
    """A server is given its fraction of all of the GPU, others run on what is left of it."""
    taken = 12 * 2**30
    job = {**SERVE, "hardware": {"accelerator": "l40s"}}
    best = plan_together(job, taken=taken).plans[0]
    whole = estimate(job).capacity
    assert best.shared.capacity == whole - taken >= best.shared.high
    assert best.jobs[0].config.get("engine.gpu_memory_utilization") < 1 - taken / whole
    assert share(job, taken=taken).rooms[0][1] < 1
    trained = on_the_rest(Config.from_dict({**TRAIN, "hardware": {"accelerator": "l40s"}}), taken)
    assert estimate(trained).capacity == whole - taken


def test_a_sentence_names_models_that_run_at_the_same_time(capsys):
    """They are planned together, and where a command takes one job, the others are not read."""
    assert main(["plan", "qwen3 4b and qwen3 1.7b on one L40S"]) == 0
    assert capsys.readouterr().out.count("--gpu-memory-utilization") >= len(("one", "other"))
    assert main(["solve", "--for", "users", "qwen3 4b and qwen3 1.7b on one L40S"]) == 0
    assert "not read: qwen3 1.7b" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sentence", "taken"),
    [
        ("serve qwen3 8b on half of an H100", "39.5"),
        ("serve qwen3 8b on 1/2 H100", "39.5"),
        ("qwen3 8b with vllm on 25% of an A100 80GB", "59.4"),
        ("用半张 H100 部署 Qwen3 8B", "39.5"),
        ("run qwen3 14b on a 3090 while my display takes 1.5 GB", "1.5"),
        ("qlora qwen3 8b on a 4070 12GB, 2GB already used", "2"),
        ("qlora llama 8b next to qwen3 4b using 8GB on a 4090", "8"),
        ("serve llama 3.3 70b on 8x H100 to 20 users", None),
    ],
)
def test_a_sentence_says_what_others_hold(sentence, taken):
    """A part of a GPU, or what other processes take of it; nothing of that is left unread."""
    question = asked(sentence)
    assert (question.options.get("taken"), question.unread) == (taken, ())


def test_a_slice_says_of_which_gpu_it_is():
    """The first that has the profile, where no GPU is named."""
    texts = asked("serve qwen3 8b on a MIG 3g.40gb").texts
    assert (texts["hardware.mig"], texts["hardware.accelerator"]) == ("3g.40gb", "a100-sxm-80gb")
