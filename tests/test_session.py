"""The page without a browser: what it says to each message. The browser's tests check that it arrives."""

import base64
import json
import re
import string
from html import escape
from xml.etree import ElementTree

import pytest
from conftest import truth

from memcore import Config, estimate
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.settings import SETTINGS
from memcore.config.texts import from_texts, to_texts
from memcore.config.training import Training
from memcore.config.url import decode_fragment, encode_fragment
from memcore.errors import UnsupportedError
from memcore.faces.goals.names import as_served, meanings
from memcore.faces.goals.sentences import asked, job_of, of_tool
from memcore.faces.goals.tasks import TASKS, task_of, with_task
from memcore.faces.page import answering, exchanging, framing, precomputed, static
from memcore.faces.page.actions import ACTIONS, handle
from memcore.faces.page.answering import values_of
from memcore.faces.page.presets import presets
from memcore.faces.page.session import RECENT, Session
from memcore.faces.render import html, page
from memcore.faces.render.serving_html import serving_stages
from memcore.faces.render.titles import titles, untitled
from memcore.i18n.answers import ANSWERS_IN_CHINESE
from memcore.i18n.choices import CHOICES_IN_CHINESE
from memcore.i18n.defaults import DEFAULTS_IN_CHINESE
from memcore.i18n.engine_texts import helps, words
from memcore.i18n.help import HELP_IN_CHINESE
from memcore.i18n.labels import LABELS_IN_CHINESE, SETTINGS_IN_CHINESE
from memcore.i18n.messages.table import MESSAGES_IN_CHINESE, TABLES
from memcore.i18n.models import MODELS_IN_CHINESE
from memcore.i18n.page import LANGUAGES, WORDS, every, say, speaking, translated
from memcore.i18n.rules import TITLES_IN_CHINESE
from memcore.i18n.serving import SERVING_IN_CHINESE
from memcore.i18n.symbols import SYMBOLS_IN_CHINESE
from memcore.i18n.terminal import TERMINAL_IN_CHINESE, WORDS_OF_TERMINAL
from memcore.memory.estimate import Estimate
from memcore.networks.catalog import find_model, identified, known
from memcore.networks.glossary import SYMBOLS
from memcore.questions.describe import symbols, when, why
from memcore.questions.describe_serving import answers, serving_verdict
from memcore.rules.table import RULES
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import LENGTHS
from memcore.trace.record import program_of
from memcore.units import format_bytes

OPENING = ("values", "fills", "edits", "answered", "fragment", "entry", "task", "live")
"""What the page is told of the example that it shows when it opens."""
CHINESE = re.compile("[\u4e00-\u9fff]")
EIGHT = presets()["8b-8xh100"].config
"""A job on several GPUs that fits with room."""
ON_EIGHT = f"#{encode_fragment(Config.from_dict(EIGHT))}"
HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


class Visit:
    """A visit of the example, and what the page shows by now."""

    def __init__(self, link="", language="en"):
        self.session, self.html, self.said, self.fields = Session(), {}, [], {}
        self.patches = []
        self.do("start", link=link, texts=None, language=language, entry=0)

    def do(self, doing, /, **more):
        """Send a message with the form as it is; the patches are remembered."""
        message = {"do": doing, "texts": self.texts, **more}
        for patch in handle(self.session, json.loads(json.dumps(message))):
            json.dumps(patch)  # patches travel as text
            self.patches.append(patch)
            self.html |= patch.get("html", {})
            self.said += [patch["say"]] if "say" in patch else []
            for path, field in patch.get("fields", {}).items():
                self.fields.setdefault(path, {}).update(field)
        return self

    @property
    def texts(self):
        return values_of(self.session.form)

    def last(self, key):
        return next(patch[key] for patch in reversed(self.patches) if key in patch)


def test_a_visit_answers_the_example():
    """The first message answers the example: allocated memory, the verdict, the rest; then the page is live."""
    visit = Visit()
    found = estimate(page.EXAMPLE)
    assert visit.last("attributes")["data-device-bytes"] == str(found.device.expected)
    stages = [patch["html"] for patch in visit.patches if "html" in patch]
    assert "verdict-reason" in stages[0]
    assert {"verdict", "bar", "readings"} <= set(stages[1])
    assert {"timeline", "ledger", "ranks", "assumptions", "model-view"} <= set(visit.html)
    assert visit.patches[-1] == {"live": True}


@pytest.mark.parametrize("name", presets())
def test_presets_answer(name):
    """Every example of the list is a job that is estimated, not refused."""
    visit = Visit().do("preset", name=name, entry=1)
    assert visit.html["problems"] == ""
    assert visit.session.config == Config.from_dict(presets()[name].config)
    assert visit.last("attributes")["data-fits"] in {"true", "false"}
    assert decode_fragment(visit.last("fragment")) == visit.session.config


def test_there_are_presets_for_every_intent():
    """A dozen at least, of training and of serving."""
    engines = {estimate(each.config).job.engine.name for each in presets().values()}
    assert len(presets()) >= 12
    assert {"none", "ddp", "fsdp", "vllm", "sglang", "llama.cpp", "transformers"} <= engines


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_told_from_what_they_set(name):
    """Choosing a task and asking what the task is give the same; coming back leaves nothing behind."""
    start = {"model": "llama-3.1-8b", "training.sequence_length": "2048"}
    chosen = with_task(start, name)
    assert task_of(chosen) == name
    back = with_task(chosen, "full")
    assert {path: text for path, text in back.items() if not path.startswith("inference.")} == start


@pytest.mark.parametrize("name", TASKS)
def test_every_task_answers_at_one_choice(name):
    """Model, GPUs, task: three fields to an answer of one's own."""
    visit = Visit().do("task", value=name, entry=1)
    assert visit.html["problems"] == ""
    assert visit.last("task") == name


def test_a_newer_edit_ends_the_older():
    """Between two pieces of an answer another edit may come; the rest of the older one is never computed."""
    session = Session()
    first = handle(session, {"do": "edit", "texts": {"model": "gpt2", "training.sequence_length": "512"}, "entry": 1})
    next(first)
    second = list(
        handle(session, {"do": "edit", "texts": {"model": "gpt2", "training.sequence_length": "256"}, "entry": 1})
    )
    assert list(first) == []
    assert session.config[Training.sequence_length] == 256
    assert second[-1] == {"answered": True}


def edited(visit, **texts):
    """An edit's message."""
    return {"do": "edit", "texts": {**visit.texts, **texts}, "entry": 1}


@pytest.mark.machine  # it tries what the build works out ahead, natively
def test_steps_of_first_edits_are_recorded_ahead(monkeypatch):
    """What a build works out ahead leaves a first edit nothing to record, whatever number is typed."""
    monkeypatch.setattr(precomputed, "presets", dict)
    monkeypatch.setattr(precomputed, "MODELS", ())
    monkeypatch.setattr(precomputed, "TASKS", ())
    edits = {
        "training.micro_batch_size": "7",
        "training.precision": "fp16-mixed",
        "training.gradient_accumulation_steps": "4",
        "training.activation_checkpointing.policy": "none",
    }
    monkeypatch.setattr(precomputed, "SETTINGS", {path: SETTINGS[path] for path in edits})
    precomputed.record_ahead()
    before = program_of.cache_info().misses
    visit = Visit()
    for name, value in edits.items():
        visit.do("edit", texts={**values_of(page.fill(page.example())), name: value}, entry=1)
        assert visit.session.config.get(name) is not None
    assert program_of.cache_info().misses == before


def test_the_first_answer_asks_no_allocator():
    """It says the allocated memory; of what the allocator decides it says nothing, but that it is on its way."""
    visit = Visit(ON_EIGHT)
    steps = handle(visit.session, edited(visit, **{"training.sequence_length": "4096"}))
    early = [next(steps), next(steps)][1]
    found = visit.session.found
    assert not {"reserved", "device"} & (set(vars(found)) | set(vars(found.rank)))
    attributes = early["attributes"]
    assert attributes["aria-busy"] == "true"
    assert attributes["data-allocated-bytes"] == str(found.allocated.expected)
    decided = {"data-fits", "data-reserved-bytes", "data-device-bytes"}
    assert {attributes[name] for name in decided} == {""}
    assert format_bytes(found.ledger.total) in early["html"]["verdict-reason"]
    assert not {"verdict", "bar", "legend", "readings"} & set(early["html"])
    late = next(steps)
    assert late["attributes"] == {**page.attributes(found), "aria-busy": "false"}
    assert early["html"]["verdict-reason"] in late["html"]["verdict"]


def test_the_page_goes_live_whatever_its_link_describes(monkeypatch):
    """An error after the first piece of an answer is said, and the next edit is answered."""

    def failing(found, rank=None):
        yield {"verdict-reason": ""}
        raise UnsupportedError("model", "the rest of this")

    with monkeypatch.context() as broken:
        broken.setattr(page, "stages", failing)
        visit = Visit("#v1&model=gpt2&seq=512&accelerator=t4")
    assert [patch["say"] for patch in visit.patches if "say" in patch] == ["model: the rest of this"]
    assert visit.patches[-1] == {"live": True}


def test_more_in_tensors_than_there_is_needs_no_allocator():
    """That such a job does not fit is clear from the first; a server has one answer only."""
    visit = Visit()
    steps = handle(visit.session, edited(visit, **{"training.micro_batch_size": "64"}))
    assert [next(steps), next(steps)][1]["attributes"]["data-fits"] == "false"
    server = Visit("#v1&model=gpt2&engine=vllm")
    assert [patch["attributes"]["aria-busy"] for patch in server.patches if "attributes" in patch] == ["false"]


def test_an_edit_that_is_wrong_lets_the_last_answer_be_finished():
    """The answer that stays in place is shown whole, also where the wrong edit came in the middle of it."""
    visit = Visit(ON_EIGHT)
    steps = handle(visit.session, edited(visit, **{"training.sequence_length": "4096"}))
    next(steps), next(steps)
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "many"}, entry=1)
    assert list(steps) == []
    found = estimate(Config.from_dict(EIGHT).replaced("training.sequence_length", 4096))
    assert visit.last("attributes") == {**page.attributes(found), "aria-busy": "false"}
    assert visit.html["ledger"] == page.sections(found)["ledger"]
    assert visit.html["problems"]
    before = len(visit.patches)
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "more"}, entry=1)
    assert len(visit.patches) == before + 2


def test_wrong_fields_are_said_with_a_fix():
    """What is wrong stands beside its field, with a button that repairs it; the last answer stays."""
    visit = Visit()
    before = visit.session.fragment
    visit.do("edit", texts={**visit.texts, "model": "lama-3.1-8b", "training.sequence_length": "many"}, entry=1)
    error = visit.fields["training.sequence_length"]["error"]
    assert "found &#x27;many&#x27;" in error
    assert 'data-do="set" data-path="training.sequence_length"' in error
    assert visit.session.fragment == before
    visit.do("edit", texts={**visit.texts, "model": "lama-3.1-8b", "training.sequence_length": "4096"}, entry=1)
    assert 'data-value="llama-3.1-8b"' in visit.fields["model"]["error"]
    visit.do("set", path="model", value="llama-3.1-8b", entry=2)
    assert visit.fields["model"]["error"] == ""


@pytest.mark.parametrize(
    ("path", "text", "taken"),
    [
        ("model", "qwen3 8b", "qwen3-8b"),
        ("model", "Llama 3.1 8B", "llama-3.1-8b"),
        ("model", "llama3-8b", "meta-llama-3-8b"),
        ("model", "https://huggingface.co/Qwen/Qwen3-8B/tree/main", "qwen3-8b"),
        ("model", "deepseek r1 distill", ["deepseek-r1-distill-llama-8b", "deepseek-r1-distill-qwen-32b"]),
        ("hardware.accelerator", "RTX 3090", "rtx-3090"),
        ("hardware.accelerator", "4090", "rtx-4090"),
        ("hardware.accelerator", "GeForce RTX 4090", "rtx-4090"),
        ("hardware.accelerator", "NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("hardware.accelerator", "H100 80GB", "h100-sxm-80gb"),
        ("hardware.accelerator", "V100", ["v100-sxm2-16gb", "v100-sxm2-32gb"]),
        ("hardware.accelerator", "A100", ["a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb"]),
    ],
)
def test_names_as_people_write_them(path, text, taken):
    """What can mean one thing only is taken; of what can mean several, each is a button."""
    visit = Visit()
    visit.do("edit", path=path, texts={**visit.texts, path: text}, entry=1)
    if isinstance(taken, str):
        assert visit.html["problems"] == ""
        assert visit.session.config.to_dict()["hardware" if "." in path else "model"] == (
            {"accelerator": taken, "num_gpus": 1} if "." in path else taken
        )
        return
    assert visit.last("stale")
    for each in taken:
        assert f'data-path="{path}" data-value="{each}"' in visit.fields[path]["error"]
    visit.do("set", path=path, value=taken[-1], entry=2)
    assert visit.html["problems"] == ""


def test_a_short_name_is_answered_and_its_other_meanings_are_buttons():
    """Models that are as large: the usual one is taken, which is said next to the field."""
    visit = Visit()
    visit.do("edit", path="model", texts={**visit.texts, "model": "mistral 7b"}, entry=1)
    assert visit.html["problems"] == ""
    assert "Taken as Mistral 7B v0.3. Or:" in visit.fields["model"]["note"]
    assert 'data-value="mistral-7b-v0.1"' in visit.fields["model"]["note"]


@pytest.mark.parametrize("path", ["model", "hardware.accelerator"])
def test_every_title_means_its_id_alone(path):
    """Titles are told from each other, whatever their case; the page shows them, and links keep ids."""
    known = titles(path)
    assert len({title.lower() for title in known.values()}) == len(known) > 30
    meant = {each: {untitled(path, title), *meanings(path, title.lower())} for each, title in known.items()}
    assert {each: found for each, found in meant.items() if found != {each}} == {}


LLAMA_70B = {"model": "llama-3.1-70b", "inference.batch_size": 20, "inference.max_model_len": 8192}
ON_A100 = {"hardware.accelerator": "a100-sxm-80gb", "hardware.num_gpus": 2}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("serve Llama 3.1 70B to 20 users of 8k on 2 x A100 SXM 80 GB", {**LLAMA_70B, **ON_A100, "engine.type": "vllm"}),
        ("does llama 3.1 70b serve 20 users of 8,192 tokens on 2 × a100-sxm-80gb?", {**LLAMA_70B, **ON_A100}),
        ("用 2 张 A100 SXM 80GB 部署 Llama 3.1 70B，20 个用户，8k token", {**LLAMA_70B, **ON_A100}),
        ("llama-3.1-70b with sglang, 20 users of 8k, 2 a100 sxm 80gb", {**LLAMA_70B, **ON_A100, "engine.type": "sglang"}),
        ("QLoRA Qwen3 8B on a 3090, batch 4", {"model": "qwen3-8b", "hardware.accelerator": "rtx-3090",
            "training.micro_batch_size": 4, "training.quantization": "nf4", "training.adapter.type": "lora"}),
        ("full fine-tune of gemma 2 9b on 8 H200 141GB SXM, sequence length 2048", {"model": "gemma-2-9b",
            "hardware.num_gpus": 8, "training.sequence_length": 2048, "training.adapter.type": None}),
        ("在 RTX 4090 上用 LoRA 微调 Qwen3 8B，长度 2048", {"model": "qwen3-8b", "hardware.accelerator": "rtx-4090",
            "hardware.num_gpus": 1, "training.sequence_length": 2048, "training.adapter.type": "lora"}),
        ("GRPO Qwen2.5 7B with vLLM colocated on 8 H100", {"model": "qwen2.5-7b", "training.method.name": "grpo",
            "training.method.rollout_share": 0.3, "engine.type": None}),
        ("Qwen3 8B on my 64 GB Mac", {"model": "qwen3-8b", "engine.type": "llama.cpp",
            "hardware.accelerator": "m1-max-64gb"}),
        ("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --max-model-len 8192", {"model": "qwen3-32b",
            "parallelism.tensor_parallel_size": 2, "engine.type": "vllm", "inference.max_model_len": 8192}),
    ],
)  # fmt: skip
def test_a_whole_question_fills_the_sentence(text, wanted):
    """In either language, with names as people write them; nothing of the job before stays."""
    visit = Visit().do("ask", value=text, texts={**Visit().texts, "model": text}, entry=1)
    assert {path: visit.session.config.get(path) for path in wanted} == wanted
    assert visit.session.from_example == {}


WRITTEN_DOWN = (
    *("trial_sentences", "trial_sentences_second", "plan2_sentences", "planb_questions", "planc_questions"),
    *("plans1_questions", "plans1_later"),
)
SENTENCES = [row for name in WRITTEN_DOWN for row in truth(name) if "task" in row]
CHATS = set(LENGTHS)
SERVED = {name for name, task in TASKS.items() if task.engine}
PATHS = {"model": "model", **{setting.flag: path for path, setting in SETTINGS.items()}}


def read_as(texts):
    """Return what texts are as a config, models and accelerators by their ids."""
    values = from_texts({path: text for path, text in texts.items() if path != "model"}, {"model": "any"}).values
    return {**values, "model": known(texts["model"]) and identified(texts["model"]).base}


LENGTH_OF = {"inference.max_model_len", "training.sequence_length"}


def begun(texts, said):
    """Return texts with lengths that nobody said no longer than the model's own."""
    most = find_model(texts["model"]).sizes["P"] if known(texts["model"]) else 10**9
    return {
        path: str(min(int(text), most)) if path in LENGTH_OF - said.keys() else text for path, text in texts.items()
    }


def test_sentences_are_read_whole():
    """What a sentence says becomes settings, its words that say something else are told; numbers in names are no batch.

    A chat begins with 8,192 tokens, and a full fine-tune is a goal of its own. Who serves means the tuned model.
    """
    wrong = {}
    for row in SENTENCES:
        question = asked(row["sentence"])
        tool = of_tool(row["tool"]) if "tool" in row else {}
        said = {**tool, **{PATHS[flag]: text for flag, text in row["says"].items()}}
        task = row["task"] if row["task"] in TASKS else "serve"
        chat = {"inference.max_model_len": "8192"} if task in SERVED and not CHATS & said.keys() else {}
        said |= {"model": as_served(said["model"])} if task in SERVED else {}
        whole = "full-fine-tune" if task == "full" and re.search("full|全", row["sentence"], re.IGNORECASE) else None
        wanted = (
            read_as(begun({**with_task(said, task, frozenset(said)), **chat}, said)), row.get("tool"), row.get("goal", whole),
            row.get("tokens"), row.get("batch_tokens"), row.get("others", []), " ".join(row.get("not_read", ())),
        )  # fmt: skip
        said = [question.options.get(each) for each in ("to", "goal", "tokens", "batch_tokens")]
        found = (read_as(job_of(question)), *said, [*question.others], " ".join(question.unread))
        if found != wanted:
            wrong[row["sentence"]] = (found, wanted)
    assert wrong == {}


def test_words_of_a_question_that_are_not_read_are_told():
    """In the language of the page."""
    text = "LoRA Qwen3 8B on a 3090 for 3 epochs"
    visit = Visit(language="zh").do("ask", value=text, texts={**Visit().texts, "model": text}, entry=1)
    assert [patch["say"] for patch in visit.patches if patch.get("say")] == ["未识别：3 epochs"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("what can I run on a 2 GB card?", "None of"),
        ("which models fit on a 4 GB card with 32k context?", "Llama-3.2-1B-Instruct</a>"),
    ],
)
def test_models_that_a_gpu_runs_are_links(text, wanted):
    """Under the question, whose words are no model that is missing; the job stays."""
    visit = Visit()
    before = visit.session.config
    visit.do("ask", value=text, texts={**visit.texts, "model": text}, entry=1)
    last = [patch for patch in visit.patches if "fields" in patch][-1]
    assert wanted in last["fields"]["model"]["note"]
    assert last["hidden"] == {"problems": True}
    assert visit.session.config == before


def test_a_question_begins_a_job_of_its_own():
    """Whatever the page shows: it trains where the sentence does, and a card that is named by its size is no other's."""
    visit = Visit()
    for text in (
        "serve Qwen3 0.6B on an H100", "fine-tune Qwen3 0.6B on one 24 GB card, length 512", "serve Qwen3 0.6B on an A100",
    ):  # fmt: skip
        visit.do("ask", value=text, texts={**visit.texts, "model": text}, entry=1)
    assert visit.session.config.values == {  # the last one asks which A100 is meant
        "model": "qwen3-0.6b", "hardware.num_gpus": 1, "hardware.gpu_memory_gb": 24, "training.sequence_length": 512,
    }  # fmt: skip
    shown = visit.fields["hardware.accelerator"]
    assert "A100" in shown["error"]
    assert shown["note"] == ""
    assert visit.last("task") == "serve"
    hidden = {path: visit.fields[path]["hidden"] for path in ("inference.batch_size", "training.sequence_length")}
    assert hidden == {"inference.batch_size": False, "training.sequence_length": True}


def test_a_question_leaves_names_alone():
    """No model of the catalog, written as an id or a title, is taken for a question."""
    known = titles("model")
    assert {each for each in known for text in (each, known[each]) if asked(text)} == set()


def test_names_are_shown_and_ids_are_kept():
    """A link with ids fills the form with names; what is being typed stays as it is typed; the job is the same."""
    visit = Visit("#v1&model=llama-3.1-8b&seq=4096&accelerator=a100-sxm-80gb&gpus=1")
    assert visit.texts["model"] == "Llama 3.1 8B"
    assert visit.texts["hardware.accelerator"] == "A100 SXM · 80 GB"
    before = visit.session.fragment
    assert "model=llama-3.1-8b&" in before
    for text in ("llama-3.1-8b", "Llama 3.1 8B", "meta-llama/Llama-3.1-8B", "llama 3.1 8b"):
        visit.patches.clear()
        visit.do("edit", path="model", texts={**visit.texts, "model": text}, entry=1)
        assert visit.session.fragment == before
        assert not any(patch.get("values", {"model": text})["model"] != text for patch in visit.patches), text


def test_the_same_model_written_otherwise_is_the_same_job():
    """Nothing that came from an example is taken back for another spelling."""
    visit = Visit(ON_EIGHT)
    visit.do("edit", path="model", texts={**visit.texts, "model": "Llama 3.1 8B"}, entry=1)
    assert visit.session.config == Config.from_dict(EIGHT)


@pytest.mark.parametrize("text", ["gradient_checkpointing", "--recompute-granularity", "Activation checkpointing"])
def test_a_setting_is_found_by_what_any_tool_calls_it(text):
    """By its label or any tool's flag; settings of the sentence and of other jobs are named."""
    visit = Visit().do("find", value=text)
    assert "training.activation_checkpointing.policy" in visit.last("found")
    visit.do("find", value="--n-gpu-layers")
    assert "For other jobs:" in visit.last("text")["found"]
    visit.do("find", value="--lora_r")
    assert "Above, in your question: Rank." in visit.last("text")["found"]
    visit.do("find", value="no such flag")
    assert (visit.last("found"), visit.last("text")) == ([], {"found": "No setting has this name."})
    visit.do("find", value="")
    assert visit.last("found") is None


def test_a_config_json_in_the_place_of_a_model():
    """Pasted where the name stands, it is the model until another is named; a question about it leaves it."""
    visit = Visit()
    model = {"model_type": "gpt2", "n_embd": 128, "n_head": 4, "n_layer": 3, "n_positions": 4096}
    visit.do("edit", path="model", texts={**visit.texts, "model": json.dumps(model)}, entry=1)
    assert visit.session.config.model == model
    assert visit.last("values")["model-json"] == json.dumps(model)
    assert visit.fields["model"]["default"] == "gpt2 (config.json)"
    visit.do("edit", path="model", texts={**visit.texts, "model": "phi-4"}, entry=2)
    assert visit.session.config.model == "phi-4"
    visit.do("import", files=[json.dumps(model)], name="config.json", entry=3)
    assert (visit.session.config.model, visit.last("values")["model"]) == (model, "")
    visit.do("ask", value="QLoRA on a 3090 with 512 tokens", texts=visit.texts, entry=4)
    assert visit.session.config.model == model
    assert visit.last("values")["hardware.accelerator"] == "RTX 3090 · 24 GB"


def test_when_no_value_fits_the_reason_is_said():
    """Never as a success, and always with a way on."""
    visit = Visit("#v1&model=llama-3.1-8b&seq=16k&adapter=lora&accelerator=rtx-4090&checkpointing=full")
    note = visit.do("solve", path="training.micro_batch_size").fields["training.micro_batch_size"]["note"]
    assert 'class="none"' in note
    assert "even 1 needs" in note
    assert "data-do=" in note


@pytest.mark.parametrize(
    ("edits", "path", "value"),
    [
        ({"parallelism.tensor_parallel_size": "16", "hardware.num_gpus": "16"}, "parallelism.tensor_parallel_size", "8"),
        ({"model": "gpt2"}, "training.sequence_length", "1024"),
        ({"parallelism.data_parallel_size": "3"}, "parallelism.data_parallel_size", "8"),
        ({"engine.type": "nanotron", "training.activation_checkpointing.policy": "selective"},
         "training.activation_checkpointing.policy", "none"),
        ({"model": "llama-3.1-405b", "engine.type": "megatron", "hardware.num_gpus": "1024",
          "parallelism.tensor_parallel_size": "8", "parallelism.pipeline_parallel_size": "16"},
         "parallelism.pipeline_parallel_size", "2"),
        ({"training.activation_checkpointing.every": "2"}, "training.activation_checkpointing.every", ""),
    ],
)  # fmt: skip
def test_what_cannot_go_together_is_repaired_at_a_click(edits, path, value):
    """The button beside the field has the nearest value with which the job is understood, found by trying."""
    visit = Visit(ON_EIGHT)
    visit.do("edit", texts={**visit.texts, **edits}, entry=1)
    assert visit.html["problems"]
    assert f'data-path="{path}" data-value="{value}"' in visit.fields[path]["error"]
    visit.do("set", path=path, value=value, entry=2)
    assert visit.html["problems"] == ""
    assert visit.fields[path]["error"] == ""


def test_numbers_as_people_write_them():
    """Counts with k, B and e, products, and memory with a unit."""
    visit = Visit()
    visit.do(
        "edit", texts={"model": "gpt2", "training.sequence_length": "1k", "training.micro_batch_size": "2x4"}, entry=1
    )
    assert visit.session.config[Training.sequence_length] == 1024
    assert visit.session.config[Training.micro_batch_size] == 8


def test_how_far_a_number_goes():
    """The button beside a number says the most that fits, and takes it over."""
    visit = Visit(ON_EIGHT).do("solve", path="training.micro_batch_size")
    note = visit.fields["training.micro_batch_size"]["note"]
    value = int(re.search(r'data-value="(\d+)"', note)[1])
    visit.do("set", path="training.micro_batch_size", value=str(value), entry=1)
    assert visit.session.found.fits
    assert not estimate(visit.session.config.replaced("training.micro_batch_size", value + 1)).fits
    visit.do("solve", path="hardware.num_gpus")
    assert "Smallest that fits" in visit.fields["hardware.num_gpus"]["note"]


def test_how_far_a_number_goes_leaves_the_page_to_edits():
    """It stops after every estimate; an edit in between is answered, and ends what would be said of another job."""
    visit, path = Visit("#v1&model=gpt2&seq=512&accelerator=t4"), "training.micro_batch_size"
    steps = handle(visit.session, {"do": "solve", "path": path, "texts": visit.texts})
    said = [next(steps) for _ in range(4)]
    assert said == [{}, {"fields": {path: {"note": "Working …"}}}, {}, {}]
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "256"}, entry=1)
    assert visit.last("attributes")["data-allocated-bytes"] == str(visit.session.found.allocated.expected)
    assert visit.fields[path]["note"] == ""
    assert list(steps) == [{"fields": {path: {"note": ""}}}]


def test_asking_how_far_another_number_goes_takes_the_first_back():
    """What is no longer worked on does not say that it is."""
    visit, path = Visit("#v1&model=gpt2&seq=512&accelerator=t4"), "training.micro_batch_size"
    steps = handle(visit.session, {"do": "solve", "path": path, "texts": visit.texts})
    next(steps), next(steps)
    visit.do("solve", path="training.sequence_length")
    assert visit.fields[path]["note"] == ""
    assert "Largest that fits" in visit.fields["training.sequence_length"]["note"]
    assert list(steps) == []


def test_a_curve_is_drawn_as_its_points_come():
    """Memory against a setting: more and more points, the capacity, and where they cross."""
    visit = Visit()
    before = len(visit.patches)
    visit.do("curve", value="training.sequence_length")
    sizes = [len(patch["html"]["curve"]) for patch in visit.patches[before:] if "html" in patch]
    assert len(sizes) > 5
    assert sizes == sorted(sizes)
    assert 'class="capacity"' in visit.html["curve"]
    assert ">fits at 4k, not at 8k</text>" in visit.html["curve"]


def shown(visit, name):
    """Whether an element is shown by now."""
    return not next(each["hidden"][name] for each in reversed(visit.patches) if name in each.get("hidden", {}))


def test_a_curve_and_suggestions_of_an_earlier_job_are_marked():
    """An edit leaves them, and says what they are about; the same job again, or a new drawing, takes that back."""
    visit = Visit(ON_EIGHT).do("curve", value="parallelism.tensor_parallel_size").do("advise")
    before = visit.texts
    visit.do("edit", texts={**before, "training.sequence_length": "4096"}, entry=1)
    assert shown(visit, "curve-earlier")
    assert shown(visit, "advice-earlier")
    visit.do("edit", texts=before, entry=2)
    assert not shown(visit, "curve-earlier")
    visit.do("edit", texts={**before, "training.sequence_length": "4096"}, entry=3)
    visit.do("curve", value="parallelism.tensor_parallel_size")
    assert not shown(visit, "curve-earlier")
    assert shown(visit, "advice-earlier")


def test_what_was_asked_for_before_an_edit_and_begins_after_it_is_marked():
    """A click on a busy page: the edit after it is answered first, so what it draws is of the earlier job."""
    visit = Visit(ON_EIGHT)
    before = visit.texts
    visit.do("edit", texts={**before, "training.sequence_length": "4096"}, entry=1)
    visit.do("curve", texts=before, value="parallelism.tensor_parallel_size").do("advise", texts=before)
    assert shown(visit, "curve-earlier")
    assert shown(visit, "advice-earlier")


def test_an_edit_ends_a_curve():
    """What was drawn of it until then is of the earlier job."""
    visit = Visit()
    drawing = handle(visit.session, {"do": "curve", "texts": visit.texts, "value": "training.sequence_length"})
    assert any("curve" in patch.get("html", {}) for patch in drawing)
    drawing = handle(visit.session, {"do": "curve", "texts": visit.texts, "value": "training.sequence_length"})
    while "curve" not in next(drawing).get("html", {}):
        pass
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "4096"}, entry=1)
    *_, last = drawing
    assert last == {"hidden": {"curve-earlier": False}}


@pytest.mark.parametrize("part", ["parameters", "activations", "logits-and-loss", "unused", "outside"])
def test_every_part_is_explained(part):
    """The drawer says what a part is, to the byte, with its source."""
    visit = Visit().do("explain", part=part)
    assert visit.last("open") == "drawer"
    assert "GiB" in visit.html["drawer-body"]
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "4096"}, entry=1)
    assert visit.html["drawer-heading"]


def test_every_part_leads_to_its_chapter():
    """The drawer links the chapter of the guide about a part, in the page's language."""
    from memcore.faces.page.explaining import CHAPTERS
    from memcore.memory.ledger import CATEGORIES

    assert set(CHAPTERS) == {*CATEGORIES, "unused", "outside"}
    visit = Visit().do("explain", part="activations")
    assert 'href="./docs/guide/activations.html"' in visit.html["drawer-body"]
    visit.do("language", language="zh")
    visit.do("explain", part="optimizer-states")
    assert 'href="./docs/guide/zh/weights.html"' in visit.html["drawer-body"]


def test_parts_of_a_server_are_explained():
    """The same for a server."""
    visit = Visit("#v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb").do("explain", part="weights")
    assert "Source" in visit.html["drawer-body"]


def test_side_by_side():
    """Pinned results stand on one axis with what differs; a pinned one can be taken away."""
    visit = Visit(ON_EIGHT).do("pin")
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "4096"}, entry=1)
    assert "<mark>8,192</mark>" in visit.html["compare"]
    assert "<mark>4,096</mark>" in visit.html["compare"]
    assert visit.html["compare"].count('<text x="0%"') == 2
    assert "−" in visit.html["compare"]
    visit.do("propose", key="pin-A", entry=2)
    assert visit.session.config[Training.sequence_length] == 8192
    assert visit.html["compare"].count('class="capacity"') == 1
    small = Visit(ON_EIGHT).do("pin").do("set", path="hardware.accelerator", value="rtx-4090", entry=1)
    assert small.html["compare"].count('class="capacity"') == 2, "each against its own GPU"
    again = Visit().do("restore", pins=[*visit.last("pins"), "#v9", None])
    assert again.html["compare"].count('data-do="unpin"') == 1
    assert again.last("pins") == visit.last("pins")
    visit.do("edit", texts={**visit.texts, "training.optimizer.name": "adamw"}, entry=3)
    assert "Optimizer" not in visit.html["compare"], "it is what is taken where none is set"
    visit.do("unpin", name="A")
    assert visit.html["compare"] == ""
    assert visit.last("pins") == []


def test_suggestions_lead_to_what_they_say():
    """Every suggestion carries a link, and the link's job is one that answers."""
    visit = Visit(ON_EIGHT).do("advise")
    links = re.findall(r'href="(#v1&amp;[^"]+)"', visit.html["advice"])
    assert len(links) > 3
    config = decode_fragment(links[0].replace("&amp;", "&"))
    assert estimate(config).allocated.expected < visit.session.found.allocated.expected
    saved = {path: field["note"] for path, field in visit.fields.items() if field.get("note")}
    assert len(saved) > 3
    for path, note in saved.items():
        link, text, size = re.fullmatch(r'<a href="([^"]+)">(.*): −(.*)</a>', note).groups()
        changed = decode_fragment(link.replace("&amp;", "&"))
        assert visit.session.config.replaced(path, changed.get(path)) == changed
        assert f"{size}</td>" in visit.html["advice"]
        assert text
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "4096"}, entry=1)
    assert not any(field.get("note") for field in visit.fields.values())
    mixed = Visit("#v1&model=qwen3-8b&seq=4096&accelerator=a100-sxm-80gb&gpus=1").do("advise")
    fits = re.findall('data-head="Then fits">(yes|no)<', mixed.html["advice"])
    assert {*fits} == {"yes", "no"}
    assert fits == sorted(fits, reverse=True)
    server = Visit("#v1&model=gpt2&engine=vllm").do("advise")
    assert 'href="#v1' in server.html["advice"]


GIANTS = {
    "405b": ({"model": "llama-3.1-405b", "parallelism.pipeline_layout": ",".join(["8"] * 14 + ["7"] * 2),
              "parallelism.tensor_parallel_size": "8"}, "1024", 16),
    "405b, cp 2": ({"model": "llama-3.1-405b", "parallelism.pipeline_layout": ",".join(["8"] * 14 + ["7"] * 2),
                    "parallelism.tensor_parallel_size": "8", "parallelism.context_parallel_size": "2"}, "1024", 16),
    "gpt-3": ({"model-json": json.dumps({"model_type": "gpt2", "n_embd": 12288, "n_layer": 96, "n_head": 96,
                                         "n_positions": 8192}),
               "parallelism.tensor_parallel_size": "8", "parallelism.virtual_pipeline_parallel_size": "6"}, "1024", 16),
    "deepseek-v3": ({"model": "deepseek-v3", "parallelism.pipeline_layout": ",".join(["4"] * 15 + ["1"]),
                     "parallelism.expert_parallel_size": "64"}, "2048", 16),
    "mixtral-8x22b": ({"model": "mixtral-8x22b-v0.1", "parallelism.expert_parallel_size": "8",
                       "parallelism.pipeline_parallel_size": "8"}, "256", 8),
    "nemotron-h": ({"model": "nemotron-h-8b-base-8k", "parallelism.tensor_parallel_size": "8",
                    "parallelism.pipeline_parallel_size": "4"}, "256", 4),
}  # fmt: skip
"""Large jobs of Megatron, with their GPUs and the stages of their pipelines."""


@pytest.mark.parametrize("name", GIANTS)
def test_every_stage_of_a_giant_is_drawn(name):
    """A bar and a row of the table for each stage, with the bytes of its components, and which binds."""
    texts, gpus, stages = GIANTS[name]
    base = {
        "training.sequence_length": "4096", "training.gradient_accumulation_steps": "32", "engine.type": "megatron",
        "engine.distributed_optimizer": "true", "parallelism.pipeline_parallel_size": "16",
        "hardware.accelerator": "h100-sxm-80gb", "hardware.num_gpus": gpus,
    }  # fmt: skip
    visit = Visit().do("edit", texts={**base, **texts}, entry=1)
    assert visit.html["problems"] == ""
    drawn = visit.html["ranks"]
    assert [f">stage {number}<" in drawn or f">stage {number} ◂<" in drawn for number in range(stages)] == [
        True
    ] * stages
    for rank in visit.session.found.ranks:
        assert f'title="{rank.ledger(rank.peak).total:,} bytes"' in drawn
    assert drawn.count("◂") == 1
    visit.do("exports", base="https://example.org/")
    assert visit.last("open") == "exports"


def test_a_log_beside_the_answer():
    """What was pasted stands beside the answer, also after an edit, in both languages, and becomes a measured case."""
    printed = "step: 10  memory: 38.25GiB(48.3%)"
    visit = Visit(ON_EIGHT).do("import", names=["run.txt"], files=[printed], entry=1)
    visit.do("reconcile", value=visit.last("log"), also="")
    assert "38.2 GiB" in visit.html["reconciled"]
    assert "✓ inside" in visit.html["reconciled"]
    visit.do("case", way="save")
    assert visit.last("download")["name"] == "memcore-case.json"
    case = json.loads(visit.last("download")["text"])[0]
    assert case["config"] == EIGHT
    assert case["measured"]["quantity"] == "max_reserved"
    visit.do("case", way="copy")
    assert json.loads(visit.last("copy")) == [case]
    visit.do("edit", texts={**visit.texts, "training.sequence_length": "1024"}, entry=1)
    assert "! above the range" in visit.html["reconciled"]
    visit.do("language", language="zh")
    assert "高于范围" in visit.html["reconciled"]


def test_a_number_on_the_page():
    """Without a name it is no case; with one it is; what is not understood is said; nothing becomes markup."""
    visit = Visit().do("reconcile", value="71.3 GiB", also="")
    assert "say what the number is" in visit.html["reconciled"]
    visit.do("case", way="copy")
    assert visit.last("copy") == ""
    visit.do("reconcile", value="INFO gpu_worker.py:298] Available KV cache memory: 4.58 GiB", also="")
    assert "not predicted for a training job" in visit.html["reconciled"]
    visit.do("reconcile", value="71.3 GiB", also="device_used")
    assert 'data-do="case"' in visit.html["reconciled"]
    for text in ("", "hello", HOSTILE):
        visit.do("reconcile", value=text, also=HOSTILE)
        assert "no GPU memory value that memcore can read" in visit.html["reconciled"]
        assert "<img" not in visit.html["reconciled"]
        visit.do("case", way="copy")
    visit.do("reconcile", value=f"max_memory_allocated 5 GiB {HOSTILE}", also=HOSTILE)
    assert "<img" not in visit.html["reconciled"]


def test_a_link_with_unknown_parts_applies_the_rest():
    """What is not understood is said; everything else of the link applies."""
    visit = Visit("#v1&model=gpt2&seq=512&colour=blue&micro-batch=many")
    assert visit.session.config[Training.sequence_length] == 512
    assert "colour" in visit.html["problems"]
    assert "The rest of the link was applied." in visit.html["problems"]


@pytest.mark.parametrize(
    "link",
    ["#v9&model=gpt2", "#v1&model=deflate:xyz", "#%3Cscript%3E", "#v1", "#" + "v1&" * 30000, f"#v1&model={HOSTILE}"],
)
def test_a_broken_link_leaves_the_example(link):
    """Nothing of a link that cannot be understood becomes markup, and the example stays."""
    visit = Visit(link)
    assert visit.session.config is None or visit.session.config.to_dict() == page.EXAMPLE
    assert visit.html["problems"]
    assert "<img" not in visit.html["problems"]
    assert "<script" not in visit.html["problems"]


FROZEN = {
    "v1&model=llama-3.1-8b&seq=8192&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8": {
        "model": "llama-3.1-8b", "training": {"sequence_length": 8192, "activation_checkpointing": "full"},
        "engine": {"type": "fsdp"}, "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 8},
    },
    "v1&model=gpt2&seq=1024": {"model": "gpt2", "training": {"sequence_length": 1024}},
    "v1&model=gemma-2-2b&seq=2048&grad-accum=4&optimizer=sgd&momentum=0.9&accelerator=rtx-4090": {
        "model": "gemma-2-2b",
        "training": {"sequence_length": 2048, "gradient_accumulation_steps": 4,
                     "optimizer": {"name": "sgd", "momentum": 0.9}},
        "hardware": {"accelerator": "rtx-4090"},
    },
    "v1&model=qwen2.5-32b&max-len=8192&mean-len=2048&max-seqs=50&tp=2&engine=vllm&accelerator=h100-sxm-80gb&gpus=2": {
        "model": "qwen2.5-32b", "inference": {"max_model_len": 8192, "mean_length": 2048, "max_num_seqs": 50},
        "parallelism": {"tensor_parallel_size": 2}, "engine": {"type": "vllm"},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 2},
    },
}  # fmt: skip
"""Links that people have saved: they decode to these jobs forever. Add rows, never change one."""


@pytest.mark.parametrize("link", FROZEN)
def test_old_links_keep_decoding(link):
    """A link that worked once works always."""
    assert decode_fragment(link).to_dict() == FROZEN[link]


def test_everything_that_is_taken_away_comes_back():
    """JSON and pictures hold the config, so does a link: each imported alone gives the same job."""
    visit = Visit("#v1&model=gemma-2-2b&seq=2048&accelerator=rtx-4090")
    wanted = visit.session.config
    visit.do("export", kind="json", way="save", base="https://example.org/")
    json_text = visit.last("download")["text"]
    visit.do("export", kind="svg", way="save", base="https://example.org/")
    svg_text = visit.last("download")["text"]
    visit.do("export", kind="png", way="save", base="https://example.org/")
    texts = [json_text, svg_text, visit.last("picture")["note"], f"https://example.org/#{visit.session.fragment}"]
    texts.append(f"{texts[-1]}&embed")
    visit.do("export", kind="card", way="save", base="https://example.org/")
    texts.append(visit.last("picture")["note"])
    for kind in ("csv", "markdown", "python", "cli", "flags", "embed"):
        visit.do("export", kind=kind, way="copy", base="https://example.org/")
        texts.append(visit.last("copy"))
    for text in texts:
        other = Visit().do("import", name="file", files=[text], entry=1)
        assert other.session.config == wanted, text[:80]
        assert other.last("close") == "import"


def test_a_pipeline_is_exported_too():
    """A stage that takes turns between forward and backward passes has no end of all forward passes, and says so."""
    visit = Visit("#v1&model=llama-3.1-8b&seq=512&engine=fsdp&pp=2&grad-accum=4&gpus=4&accelerator=h100-sxm-80gb")
    visit.do("exports", base="https://example.org/").do("export", kind="json", way="copy", base="")
    assert visit.last("open") == "exports"
    assert json.loads(visit.last("copy"))["end_of_forward_bytes"] is None


def test_a_picture_is_understood_on_its_own():
    """The exported SVG has the verdict, a legend with sizes, a light ground and the link; a dark page changes nothing."""
    for link in ("", "#v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192"):
        visit = Visit(link).do("export", kind="svg", way="save", base="https://example.org/")
        drawn = ElementTree.fromstring(visit.last("download")["text"])
        words = " ".join(drawn.itertext())
        found = visit.session.found
        for name, size in found.ledger.by_category.items():
            if size >= 2**20:
                assert f"{name}  {format_bytes(size)}" in words
        assert any(say(f"verdict-{level}") in words for level in ("fits", "tight", "over"))
        assert visit.session.fragment in words
        assert 'fill="#fff"' in visit.last("download")["text"]
        assert "prefers-color-scheme" not in visit.last("download")["text"]


JOBS = ("", "#v1&model=gpt2&seq=512", "#v1&model=llama-3.1-8b&engine=vllm&accelerator=h100-sxm-80gb&max-len=8192")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("link", JOBS)
def test_badge_and_card_say_the_verdict(link, language):
    """Both are XML with the need, no text leaves the card, and Markdown shows the badge, which leads to the page."""
    visit = Visit(link, language).do("export", kind="badge", way="save", base="https://example.org/")
    small = visit.last("download")["text"]
    visit.do("export", kind="card", way="save", base="https://example.org/")
    picture = visit.last("picture")
    drawn = ElementTree.fromstring(picture["svg"])
    assert (picture["width"], picture["height"], picture["scale"]) == (1200, 630, 1)
    found, texts = visit.session.found, [each for each in drawn.iter() if each.tag.endswith("}text")]
    assert len(texts) > 6
    for each in texts:
        wide = sum(1.0 if CHINESE.match(letter) else 0.58 for letter in each.text) * float(each.get("font-size"))
        start = float(each.get("x")) - (wide if each.get("text-anchor") else 0)
        assert start >= 16, each.text
        assert start + wide <= 1200, each.text
        assert 0 < float(each.get("y")) <= 620
    said = "".join(ElementTree.fromstring(small).itertext())
    if isinstance(found, Estimate):
        assert format_bytes(found.device.expected) in said
    else:
        assert serving_verdict(found).headline.split(" ")[0] in said or language == "zh"
    visit.do("export", kind="markdown", way="copy", base="https://example.org/")
    markdown = visit.last("copy")
    assert base64.b64encode(small.encode()).decode() in markdown
    assert f")](https://example.org/#{visit.session.fragment})" in markdown


def test_a_checkpoint_is_described_by_several_files():
    """What the hub has of a model: Python names the files, which then come in together."""
    visit = Visit()
    visit.do("hub", id="hf.co/org/tiny")
    assert visit.last("hub")["listing"] == "https://huggingface.co/api/models/org/tiny/revision/main"
    names = ["config.json", "hf_quant_config.json", "model.safetensors.index.json"]
    listing = {"sha": "c0ffee", "siblings": [{"rfilename": each} for each in (*names, "a.bin")]}
    visit.do("hub", id="hf.co/org/tiny", listing=json.dumps(listing))
    assert [each["name"] for each in visit.last("hub")["files"]] == names
    assert visit.last("hub")["files"][0]["address"] == "https://huggingface.co/org/tiny/resolve/c0ffee/config.json"
    visit.do("hub", id="org/tiny:Q4_K_M", listing=json.dumps(listing))
    assert "no GGUF files" in visit.html["import-error"]
    quantized = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    index = {"metadata": {"total_size": 640}, "weight_map": {"h.0.a": "x"}}
    files = [json.dumps(each) for each in ({"model_type": "gpt2", "n_layer": 2}, quantized, index)]
    visit.do("import", name="org/tiny", names=names, files=files, entry=1)
    assert json.loads(visit.session.form.pasted)["quantization_config"] == {"quant_method": "modelopt", **quantized}
    assert "lists 1 tensors of 640 bytes" in visit.said[-1]
    visit.do("import", name="m.gguf", names=["m.gguf"], files=["data:;base64,R0dVRg=="], entry=2)
    assert "it ends early" in visit.html["import-error"]
    picture = bytes.fromhex("ffd8ffe000104a464946").decode("utf-8", "replace")
    visit.do("import", name="photo.jpg", names=["photo.jpg"], files=[picture], entry=3)
    assert "photo.jpg: is not text" in visit.html["import-error"]


def test_two_files_are_one_job():
    """A model's config.json and a config of DeepSpeed, dropped together or one after the other; where each field is from."""
    model = {
        "model_type": "llama",
        "hidden_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 99,
    }
    zero = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
    names = ["config.json", "zero.json", "tokenizer_config.json"]
    files = [*map(json.dumps, (model, zero)), '{"tokenizer_class": "GPT2Tokenizer"}']
    together = Visit().do("import", name="both", names=names, files=files, entry=1)
    assert "zero.json: " in together.said[-1]
    assert "No effect on memory: tokenizer_config.json." in together.said[-1]
    after = Visit().do("import", name="one", files=[json.dumps(model)], entry=1)
    after.do("import", name="other", files=[json.dumps(zero)], entry=2)
    for visit in (together, after):
        assert visit.session.config.model == model
        assert visit.session.config[EngineSettings.zero_stage] == 2
        assert visit.fields["training.micro_batch_size"]["origin"] == "file"
    together.do("set", path="training.micro_batch_size", value="2", entry=3)
    assert together.fields["training.micro_batch_size"]["origin"] == "yours"
    together.do("set", path="training.micro_batch_size", value="", entry=4)
    assert together.fields["training.micro_batch_size"]["origin"] == "default"
    assert 'id="field-training-micro_batch_size-origin"' in together.html.get(
        "config", static.parts()["sections"]["form"]
    )


def test_where_values_come_from():
    """A button names the file while one of its values stays; the drawer has every key, with its line or its reason."""
    visit = Visit()
    text = "base_model: gpt2\nsequence_len: 512\nmicro_batch_size: 2\nlearning_rate: 2e-5\neot_tokens: [x]\n"
    visit.do("import", name="job.yaml", names=["job.yaml"], files=[text], entry=1)
    assert "From job.yaml." in visit.html["example-note"]
    visit.do("origins")
    shown = visit.html["drawer-body"]
    order = [shown.index(each) for each in ("eot_tokens", "job.yaml:1<", "job.yaml:2<", "job.yaml:3<", "learning_rate")]
    assert order == sorted(order)
    assert "the default of axolotl" in shown
    visit.do("language", language="zh")
    visit.do("origins")
    assert "axolotl 的默认值" in visit.html["drawer-body"]
    visit.do("preset", name="8b-8xh100", entry=2)
    assert "job.yaml" not in visit.html["example-note"]


@pytest.mark.parametrize(
    ("level", "edits"),
    [
        ("fits", {}),
        ("tight", {"training.sequence_length": "28k"}),
        ("over", {"training.sequence_length": "33k"}),
        ("no", {"training.sequence_length": "128k"}),
        ("unknown", {"hardware.accelerator": ""}),
    ],
)
def test_every_verdict_can_be_told_from_the_others(level, edits):
    """By an icon and words of its own; where the range decides, it is said."""
    visit = Visit(ON_EIGHT).do("edit", texts={**Visit(ON_EIGHT).texts, **edits}, entry=1)
    assert visit.last("attributes")["data-level"] == level
    assert f">{html.ICONS[level]}</span>" in visit.html["verdict"]
    assert len(set(html.ICONS.values())) == len(html.ICONS)
    if level != "unknown":
        assert say(f"verdict-{level}") in visit.html["verdict"]
    assert ("The range is " in visit.html["verdict"]) == (level in {"tight", "over"})


def test_exports_are_stamped_and_complete():
    """Flags, commands, Python, Markdown and CSV carry version and link, and say the same job."""
    visit = Visit().do("exports", base="https://example.org/")
    shown = visit.html["exports-list"]
    for kind in ("flags", "cli", "python", "markdown", "json", "csv"):
        assert f'id="export-{kind}"' in shown
        visit.do("export", kind=kind, way="copy", base="https://example.org/")
        assert "https://example.org/#v1&" in visit.last("copy")
    visit.do("export", kind="python", way="copy", base="")
    scope = {"print": lambda *values: None}
    exec(visit.last("copy"), scope)  # noqa: S102 - what the page offers to run
    assert scope["found"].device.expected == visit.session.found.device.expected
    csv = exchanging.csv_of(visit.session.found, "stamp")
    assert sum(int(line.split(",")[3]) for line in csv.splitlines()[1:-1] if line.split(",")[3].isdigit()) > 0


def test_other_tools_files_are_read():
    """A command line of a server becomes the form, and what was read and assumed is said."""
    visit = Visit().do(
        "import", name="x", files=["vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2"], entry=1
    )
    assert visit.session.config[EngineSettings.type] == "vllm"
    assert visit.session.config[Parallelism.tensor_parallel_size] == 2
    assert "Read as vLLM; keys that set this job: 1." in visit.said[-1]
    assert "It names no GPU: RTX 4090 · 24 GB stays." in visit.said[-1]
    visit.do("import", name="x", files=["QLoRA Qwen3 8B on a 3090"], entry=2)
    assert (visit.session.config.model, visit.last("close")) == ("qwen3-8b", "import"), "a question is one here too"


def test_an_export_is_for_the_tool_whose_file_was_imported():
    """As long as one of its values is in force; another example is a job of its own."""
    text = (
        "base_model: Qwen/Qwen3-8B\nadapter: lora\nsequence_len: 2048\nmicro_batch_size: 2\nlora_target_linear: true\n"
    )
    visit = Visit().do("import", name="axolotl.yaml", files=[text], entry=1)
    assert 'base_model: "Qwen/Qwen3-8B"' in exported_as(visit, "flags").replace("&quot;", '"')
    visit.do("preset", name="qlora-8b-24gb", entry=2)
    assert "model_name_or_path" in exported_as(visit, "flags")


def exported_as(visit, kind):
    """The text of an export."""
    return visit.do("export", kind=kind, way="copy", base="https://x/").last("copy")


@pytest.mark.parametrize(
    "text",
    ["", "{", "hello", "[]", '{"a": 1}', HOSTILE, "<svg><metadata>{</metadata></svg>", "x" * 2_000_000,
     "torchrun pretrain_gpt.py --num-layers 2 --img-h <img", "\ufffdPNG\r\n\x1a\n\0\0"],
)  # fmt: skip
def test_a_wrong_import_changes_nothing(text):
    """An error names each file that is not understood, with the reason; none of its text becomes markup."""
    visit = Visit()
    before = visit.session.config
    visit.do("import", name=HOSTILE, files=[text], entry=1)
    assert visit.session.config == before
    assert escape(HOSTILE) in visit.html["import-error"] or "pretrain" in text
    assert not visit.last("stale")
    assert "<img" not in visit.html["import-error"] + visit.html["problems"]


def test_hostile_settings_stay_text():
    """What a link says is escaped wherever it is shown again."""
    visit = Visit()
    model = {
        "model_type": "llama",
        "_name": HOSTILE,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
    }
    visit.do(
        "edit",
        texts={"model-json": json.dumps(model), "training.sequence_length": "64", "engine.framework": HOSTILE},
        entry=1,
    )
    visit.do("pin").do("exports", base=HOSTILE).do("explain", part="parameters")
    visit.do("export", kind="svg", way="save", base=HOSTILE)
    assert not {"img", "script"} & {
        each.tag.rpartition("}")[2] for each in ElementTree.fromstring(visit.last("download")["text"]).iter()
    }
    for kind in ("python", "cli", "flags"):
        visit.do("export", kind=kind, way="copy", base=f"{HOSTILE}\nimport os")
        assert "\nimport os" not in visit.last("copy")
    visit.do("language", language="zh")
    for name, markup in visit.html.items():
        assert "<img" not in markup, name
        assert "<script" not in markup, name


def test_unknown_messages_do_nothing():
    """Messages with names or values that nothing knows change nothing."""
    visit = Visit()
    before = len(visit.patches)
    visit.do("nonsense").do("solve", path="model").do("curve", value="engine.type").do("say", key="nothing")
    visit.do("propose", key="none", entry=1).do("preset", name="none", entry=1)
    assert len(visit.patches) > before
    assert all(patch == {} for patch in visit.patches[before:])
    assert all(channel for channel, _ in ACTIONS.values())


def test_a_report_is_ready_to_be_filled_in():
    """The config, the prediction and the place for the measurement."""
    visit = Visit().do("report", base="https://example.org/")
    assert "Measured" in visit.last("copy")
    assert json.dumps(page.EXAMPLE["model"]) in visit.last("copy")


def fields_of(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_is_in_both_languages():
    """Each row has both texts, with the same places for values."""
    for key, (english, chinese) in WORDS.items():
        assert english, key
        assert chinese, key
        assert fields_of(english) == fields_of(chinese), key
    with speaking("zh"):
        assert say("cancel") == "取消"
        assert set(every()) == set(WORDS) - set(WORDS_OF_TERMINAL)
    with speaking("xx"):
        assert say("cancel") == "Cancel"
    assert set(LANGUAGES) == {"en", "zh"}


def test_the_page_in_chinese():
    """The frame, the form and the verdict change language; numbers and names stay."""
    visit = Visit(ON_EIGHT, language="zh")
    assert "可以放下" in visit.html["verdict"]
    assert "任务类型" in visit.html["config"]
    assert all(f'name="{path}"' in visit.html["config"] for path in SETTINGS)
    needs = format_bytes(estimate(EIGHT).device.expected)
    assert needs in visit.html["verdict"]
    visit.do("language", language="en")
    assert f"needs {needs} of 79.1 GiB" in visit.html["verdict"]


def test_resetting_keeps_the_model_the_gpu_and_the_task():
    """Everything else is what the task begins with, the number of GPUs and the length of sequences included."""
    visit = Visit("#v1&model=gpt2&seq=512&engine=ddp&accelerator=t4&gpus=4&micro-batch=8").do("reset", entry=1)
    assert visit.texts == {
        "model": "GPT-2", "hardware.accelerator": "T4 · 16 GB", "hardware.num_gpus": "1",
        "training.sequence_length": "4096", "model-json": "",
    }  # fmt: skip


LARGEST = "training.micro_batch_size"
SAME_JOB = {"model": "qwen3-8b", "hardware.accelerator": "rtx-3090"}
WAYS = {
    "from the opening example": [("edit", {"hardware.num_gpus": "1"}), ("task", "lora")],
    "from eight GPUs": [("preset", "8b-8xh100"), ("task", "lora"), ("edit", {"hardware.num_gpus": "1"})],
    "the GPU before the task": [("preset", "8b-8xh100"), ("edit", {"hardware.num_gpus": "1"}), ("task", "lora")],
    "from another length and loss": [("preset", "lora-8b-24gb")],
    "from QLoRA": [("preset", "qlora-8b-24gb"), ("task", "lora")],
    "from a server": [("preset", "serve-70b-fp8"), ("task", "lora"), ("edit", {"hardware.num_gpus": "1"})],
    "by a reset": [("preset", "70b-64xh100"), ("reset", None), ("task", "lora")],
}


def done(steps):
    """A visit after these steps, and a model and a GPU of one's own."""
    visit = Visit()
    for number, (doing, given) in enumerate([*steps, *(("edit", {path: text}) for path, text in SAME_JOB.items())]):
        if doing == "edit":
            visit.do("edit", path=next(iter(given)), texts={**visit.texts, **given}, entry=number)
        else:
            visit.do(doing, name=given, value=given, entry=number)
    return visit


def test_the_same_question_has_the_same_answer():
    """The largest LoRA batch of Qwen3 8B on a 3090: no example on the way leaves anything in the job."""
    answers = {}
    for way, steps in WAYS.items():
        visit = done(steps)
        assert visit.html["problems"] == "", way
        assert "Still from" not in visit.html["example-note"], way
        answers[way] = visit.session.config, visit.do("solve", path=LARGEST).fields[LARGEST]["note"]
    wanted = answers["from the opening example"]
    assert wanted[0].get("training.adapter.type") == "lora"
    assert {way: found for way, found in answers.items() if found != wanted} == {}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_two_quick_edits_are_the_same_job_as_two_slow_ones(steps):
    """The second edit is sent before the page shows what the first took back: it names the filling that it has seen."""
    model, gpus = {"model": "llama-3.1-70b"}, {"hardware.num_gpus": "64"}
    slow, quick = Visit(ON_EIGHT), Visit(ON_EIGHT)
    slow.do("edit", path="model", texts={**slow.texts, **model}, entry=1)
    slow.do("edit", path="hardware.num_gpus", texts={**slow.texts, **gpus}, entry=2)
    before, seen = quick.texts, quick.last("fills")
    first = handle(
        quick.session, {"do": "edit", "path": "model", "texts": {**before, **model}, "edits": 1, "fills": seen}
    )
    for _, patch in zip(range(steps), first, strict=False):
        assert patch.get("edits", 1) == 1
    quick.do("edit", path="hardware.num_gpus", texts={**before, **model, **gpus}, edits=2, fills=seen)
    assert list(first) == []
    assert quick.session.config == slow.session.config


@pytest.mark.parametrize("name", ["Llama 3.1 8B?", "llama 3.1 8b", "meta-llama/Llama-3.1-8B"])
def test_another_name_of_the_model_is_the_same_job(name):
    """What an example has set goes with another model, not with another way to write its own."""
    visit = Visit(ON_EIGHT)
    before = visit.session.config
    visit.do("edit", path="model", texts={**visit.texts, "model": name}, entry=1)
    assert visit.texts["training.sequence_length"] == "8192"
    assert encode_fragment(visit.session.config) == encode_fragment(before)


def test_what_the_user_has_set_stays():
    """Another model takes back what came from the example, and nothing else; what stays of it is said and can be dropped."""
    visit = Visit().do("preset", name="405b-16k", entry=1)
    assert "Example: 405B on 16k GPUs. It sets: " in visit.html["example-note"]
    visit.do("edit", path="training.micro_batch_size", texts={**visit.texts, "training.micro_batch_size": "2"}, entry=2)
    assert visit.html["example-note"].startswith("Still from the example: ")
    assert visit.fields["training.micro_batch_size"]["origin"] == "yours"
    assert visit.fields["parallelism.pipeline_parallel_size"]["origin"] == "example"
    other = Visit().do("preset", name="405b-16k", entry=1)
    other.do("edit", path=LARGEST, texts={**other.texts, LARGEST: "2"}, entry=2).do("drop", entry=3)
    visit.do("edit", path="model", texts={**visit.texts, "model": "qwen3-8b"}, entry=3)
    for each, gpus in ((visit, "16384"), (other, "")):
        assert each.texts[LARGEST] == "2"
        assert each.texts.get("hardware.num_gpus", "") == gpus
        assert "parallelism.pipeline_parallel_size" not in each.texts
        assert each.html["problems"] == ""
    assert "Remove them" in visit.html["example-note"]
    assert other.html["example-note"] == ""


def test_a_link_of_an_example_is_that_example():
    """A reload, or going back to it, knows again what the example set."""
    link = f"#{Visit().do('preset', name='long-context', entry=1).session.fragment}"
    visit = Visit(link)
    assert "Example: 8B at 128k" in visit.html["example-note"]
    assert "Example" not in Visit(f"{link}&micro-batch=2").html["example-note"]


def test_layouts_that_fit():
    """A search streams progress and layouts; each that it offers fits by `estimate`; cancelling keeps what was found."""
    link = "#v1&model=llama-3.2-1b&seq=2048&engine=fsdp&accelerator=rtx-4090&gpus=4"
    visit = Visit(link).do("search")
    done = [patch["progress"] for patch in visit.patches if "progress" in patch]
    assert done[0] == 0
    assert done[-1] is None
    assert done[1:-1] == sorted(done[1:-1])
    links = re.findall(r'href="(#v1&amp;[^"]+)"', visit.html["search"])
    assert links
    assert all(estimate(decode_fragment(each.replace("&amp;", "&"))).fits for each in links[:5])
    assert 'data-sort="5"' in visit.html["search"]
    told = [re.sub("<[^>]+>", " ", row) for row in re.findall("<tr>.*?</tr>", visit.html["search"])]
    assert len(set(told)) == len(told), "two rows that nobody can tell apart"
    dots = re.findall(r'data-plan="(#v1&amp;[^"]+)"', visit.html["search"])
    assert set(dots) <= set(links)
    assert dots
    assert "svg" in visit.html["search"]
    steps = handle(visit.session, {"do": "search", "texts": visit.texts})
    for _ in range(4):
        next(steps)
    visit.do("cancel")
    assert list(steps) == []
    assert "Cancelled" in visit.html["search-status"]
    assert "server" in Visit("#v1&model=gpt2&engine=vllm").do("search").html["search"]
    none = Visit("#v1&model=llama-3.1-8b&seq=4096&engine=ddp&accelerator=t4&gpus=2").do("search").html["search"]
    assert 'data-show="plans"' in none


def test_settings_are_explained_in_chinese():
    """Every line of the tables is of a setting, in Chinese; the form shows them."""
    tables = {**HELP_IN_CHINESE, **helps()}
    assert set(tables) == set(SETTINGS)
    assert len(tables) == len(HELP_IN_CHINESE) + len(helps())
    assert all(CHINESE.search(each) for each in tables.values())
    hints = re.findall(r'<p class="hint" id="field-([^"]*)-hint">([^<]*)', Visit(language="zh").html["config"])
    assert len(hints) > 200
    assert all(CHINESE.search(text) for _, text in hints)


def test_an_answer_speaks_chinese():
    """Every rule, how long it holds, parts, moments and symbols of the presets; names of tensors and sources stay."""
    assert {rule.title for rule in RULES.values()} == set(TITLES_IN_CHINESE)
    assert set(SYMBOLS.values()) == set(SYMBOLS_IN_CHINESE)
    with speaking("zh"):
        for preset in presets().values():
            found = estimate(preset.config)
            if not isinstance(found, Estimate):
                continue
            assert all(CHINESE.search(why(entry)) for entry in found.ledger.entries), preset.name
            assert all(CHINESE.search(when(moment, found)) for moment in found.moments), preset.name
            assert all(CHINESE.search(translated(name)) for name in found.ledger.by_category)
            assert all(CHINESE.search(each.meaning) for each in symbols(found)), preset.name
    visit = Visit(language="zh").do("explain", part="logits-and-loss")
    assert "logits 与损失" in visit.html["drawer-heading"]
    assert "损失" in visit.html["drawer-body"]
    assert "峰值时的每个张量" in visit.html["ledger-heading"]


def test_every_setting_has_a_chinese_label():
    """In the table of words by its path, else by its English label; no row is left of a setting that is gone."""
    others = {setting.label for path, setting in SETTINGS.items() if f"label {path}" not in WORDS}
    assert others - set(words()) == set(SETTINGS_IN_CHINESE)


def test_what_every_value_means_is_there_in_chinese():
    """Of every setting with few values; no row is left of a meaning that is gone."""
    meanings = [getattr(setting.kind, "meanings", {}) for setting in SETTINGS.values()]
    assert {text for each in meanings for text in each.values()} - set(words()) == set(CHOICES_IN_CHINESE)


def test_no_text_is_translated_twice():
    """Tables for the same English text would hide one another."""
    tables = (
        *(CHOICES_IN_CHINESE, DEFAULTS_IN_CHINESE, LABELS_IN_CHINESE, MODELS_IN_CHINESE, SERVING_IN_CHINESE),
        *(SYMBOLS_IN_CHINESE, TERMINAL_IN_CHINESE, TITLES_IN_CHINESE, words(), *TABLES),
    )
    assert len({text for table in tables for text in table}) == sum(map(len, tables))
    assert not set(ANSWERS_IN_CHINESE) & set(MESSAGES_IN_CHINESE)


def test_a_server_answers_in_chinese():
    """Its verdict, its answers, its headings and every row of its ledger."""
    with speaking("zh"):
        every = {name: estimate(preset.config) for name, preset in presets().items()}
        servers = {name: found for name, found in every.items() if isinstance(found, ServingEstimate)}
        assert servers
        for name, found in servers.items():
            said = serving_verdict(found)
            assert all(CHINESE.search(text) for text in (said.headline, said.reason)), name
            assert all(CHINESE.search(each.question) for each in answers(found)), name
            for entry in found.ledger.entries:
                assert not entry.why or CHINESE.search(translated(entry.why)), entry.why
            assert all(translated(each) != each for each in found.ledger.by_category), name
            html = "".join("".join(part.values()) for part in serving_stages(found))
            assert not re.search(r">(Question|Answers|Users|Why|Held)<| users? at ", html), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_kept_opening_is_the_same(language, monkeypatch):
    """What a build keeps of the first answer is what would be said, but for what is built in; the visit goes on there."""
    monkeypatch.setattr(framing, "_KEPT", {})
    plain = Visit(language=language)
    framing.keep_openings()
    kept, again = Visit(language=language), Visit(language=language)
    if language == "en":
        assert {kind for patch in kept.patches for kind in patch} == set(OPENING)
        assert {kind: kept.last(kind) for kind in OPENING} == {kind: plain.last(kind) for kind in OPENING}
        built = static.parts()["sections"] | {"problems": ""}
        built["curve-setting"] = built["curve-settings"]
        assert f'<p id="gist">{plain.html["gist"]}</p>' in built["form"]
        built["gist"] = plain.html["gist"]
        assert plain.html.items() <= built.items()
    else:
        assert [each for each in kept.patches if each] == [each for each in plain.patches if each]
    kept.patches, again.patches, plain.patches = [], [], []
    for visit in (plain, kept, again):
        visit.do("set", path="training.sequence_length", value="4096", entry=1)
    assert kept.patches == again.patches
    assert [each for each in kept.patches if each] == [each for each in plain.patches if each]
    assert kept.session.fields == plain.session.fields


def test_an_edit_taken_back_is_remembered(monkeypatch):
    """The answer of a moment ago is not computed again, as long as few others came since."""
    visit = Visit(ON_EIGHT).do("set", path="training.sequence_length", value="4096", entry=1)
    wanted, asked = dict(visit.html), []
    monkeypatch.setattr(answering, "estimate", lambda config: asked.append(config) or estimate(config))
    visit.do("set", path="training.sequence_length", value="8192", entry=2)
    visit.do("set", path="training.sequence_length", value="4096", entry=3)
    assert visit.html == wanted
    assert not asked
    for number in range(RECENT):
        visit.do("set", path="training.micro_batch_size", value=str(number + 2), entry=4 + number)
    assert len(asked) == len(visit.session.recent) == RECENT


def test_practice_says_nothing_and_stops_for_an_edit():
    """Answering for nobody leaves no trace, and makes way as soon as something is asked."""
    visit = Visit()
    steps = handle(visit.session, {"do": "practise"})
    assert [next(steps) for _ in range(3)] == [{}] * 3
    visit.do("set", path="training.sequence_length", value="4096", entry=1)
    assert len(list(steps)) <= 1
    assert all(patch == {} for patch in handle(visit.session, {"do": "practise"}))


@pytest.mark.machine
def test_edits_that_are_timed_are_answered():
    """benchmarks/page.py waits for the verdict of each edit of the example; one that is refused has none."""
    from benchmarks.edits import EDITS

    texts = to_texts(page.example())
    for path, values in EDITS.items():
        assert estimate(from_texts({**texts, path: values[0]})).readings, path


def test_engines_are_chosen_from_a_list():
    """However many there are: the page's script and its tests choose them."""
    markup = Visit().html.get("config") or Visit(language="zh").html["config"]
    for path in ("engine.type", "training.precision"):
        assert re.search(f'<select[^>]* name="{path}"', markup), path
