"""What memcore says beyond its tables of words: every message's template has its row in Chinese, and every row is said."""

import ast
import copy
import pickle
import re
from functools import cache
from pathlib import Path

import pytest

from memcore import estimate, registry
from memcore.columns import columns, fitted
from memcore.config.settings import SETTINGS
from memcore.config.texts import from_texts
from memcore.errors import ConfigError, MemcoreError
from memcore.faces.cli import COMMANDS, main
from memcore.faces.cli.command import BAD_INPUT, spoken
from memcore.faces.page.actions import handle
from memcore.faces.page.presets import presets
from memcore.faces.page.session import Session
from memcore.faces.render import page
from memcore.i18n import sentences
from memcore.i18n.answers import ANSWERS_IN_CHINESE
from memcore.i18n.engine_texts import helps, words
from memcore.i18n.messages.table import MESSAGES_IN_CHINESE
from memcore.i18n.models import MODELS_IN_CHINESE
from memcore.i18n.page import LANGUAGES, WORDS, complaint, speaking, translated
from memcore.messages import Message, joined
from memcore.questions.advising.changes import CHANGES
from memcore.serving.job import server_of

pytestmark = pytest.mark.machine  # tables of texts

ROOT = Path(__file__).parent.parent / "memcore"
SILENT = (
    *(
        "__init__",
        "__main__",
        "faces/cli/completing",
        "faces/notebook",
        "faces/goals/phrases",
        "trainers/pytorch/torchtitan_commits",
        "trainers/pytorch/prime_rl_commits",
        "i18n",
        "records",
        "registry",
    ),
    *("faces/render/accuracy",),
    *("config/json_schema", "tensors", "symbols", "hardware/accelerators"),
    *(
        "trainers/pytorch/spelling",
        "formats/containers",
        "faces/page/exchanging",
        "faces/page/presets",
        "tools/unsloth",
        "servers/generate/script",
        "trainers/pytorch/titan_module",
    ),  # other tools' names, and files to take away
    *(
        "questions/reconciling/lines",
        "rules",
        "trainers/megatron/rules",
    ),  # what logs look like; rules have a table of their own
    *("serving/gguf_mixes", "serving/gguf_types"),
)
"""Modules that never speak to a page in sentences."""
CHINESE = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
MARKUP = re.compile(
    r"^id=|^text\{|^--?[a-z]|^pip |^# |<[a-z]|</|\(\?|·|\.(py|cpp|cc|cu|cuh|rs)\b|\w\[\w+, |^[a-z0-9_ ]+_[a-z_ ]+$"
)
WORD = re.compile(r"[A-Za-z](?:[\w.*-]*\w)?")
ANSWERS = {**ANSWERS_IN_CHINESE, **words()}
CHINESE_TEXTS = (*MESSAGES_IN_CHINESE.values(), *ANSWERS.values())
SCHEMAS = [f"{path} {setting.kind.schema()}" for path, setting in SETTINGS.items()]
LATIN = set(WORD.findall(" ".join((*SCHEMAS, *(re.sub("{.*?}", "", text) for text in CHINESE_TEXTS)))))
"""Names that Chinese texts have, and words that settings take."""
NAMES = {"source", "help", "label", "unit", "flag", "title", "program", "launch", "default"}
"""Arguments that are names, places to look up, or have tables of their own."""
ENGLISH = re.compile(r"(?<![\w.'-])[a-z]{3,} [a-z]{3,}(?![\w.])|\b(the|of|with|which|is|are)\b")
SENTENCE = re.compile(r"([a-z']{2,} ){3,}[a-z]{2,}")
"""Four English words in a row."""
NO_SENTENCE = re.compile(r"来源：|each block rounded up to|documented by any source|^  \d  ")
"""Sources and formulas."""
PROSE = re.compile(r"[a-z]{2,}[',]?s? [a-z{'(]|[}]'? [a-z]{2,}")
"""Words one after another."""
OF_JSON = {
    *("Expecting value", "Expecting ',' delimiter", "Expecting ':' delimiter", "Extra data", "Invalid \\escape"),
    *("Expecting property name enclosed in double quotes", "Unterminated string starting at"),
    *("Invalid control character at", "Illegal trailing comma before end of object"),
    "Illegal trailing comma before end of array",
}
"""What Python says of broken JSON."""
NAMED = re.compile(r"[\w.-]*[-.\d][\w.-]*( ('[^']+'|above \d+|and '[^']+'|or '[^']+'|only))*|[\w.-]+(, [\w.-]+)+")
"""Names with commas between them, or a setting's path and values."""
NOT_SAID = {
    # Programs, their settings and their calls
    *(
        "vllm serve",
        "lmdeploy serve",
        "lmdeploy chat",
        *("ollama run", "ollama serve", "ollama pull", "ollama create"),
        *("litgpt finetune", "litgpt pretrain", "tune run"),
        "sglang serve",
        "full_shard auto_wrap",
        "megatron bridge",
        "needs {v1}optimizer",
        "CUDA out of memory",
    ),
    *("weight and optimizer={v1} MB", "activation={v1} MB, total={v3} MB"),
    *("Theoretical memory footprints: {v1}", "Theoretical memory footprints: {v1}, {v3}"),
    *("mem_fraction_static {v1}", "gpu_memory_utilization {v1}", "rotary_emb.cos_sin_cache ({v1})"),
    "fully_shard(model, reshard_after_forward=True)",
    'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")',
    "training.implementation 'transformer-engine'",
    "llama_kv_cache, llama_memory_recurrent",
    # Sources
    *("'Max memory' banners of public logs", "capacity in public out-of-memory messages", "recalled, unconfirmed"),
    *("contexts observed in public logs", "NCCL 2.30 and public reports", "NCCL 2.30: peers, channels and buffers"),
    *("a public catalog of GPUs", "vendor's figure, unconfirmed", "stas00/ml-engineering, tables of accelerators"),
    "bitsandbytes/optim/optimizer.py, init_state: blocks of 256; tensors below 4096 elements in fp32",
    "{v0}; get_state_buffer: from 100 000 elements on in managed memory",
    "start-up logs of vLLM 0.19.0 on H100 (jgchn/llm-d-planner)",
    "vllm, model_executor/layers/quantization/compressed_tensors",
    "the model's config.json",
    # Commands, examples of arguments, and lines that programs read
    *("memcore {v1}", "\r[{v1}] {v3} of {v5}"),
    *("::{v1} file={v3},title=memcore::{v5}", "complete -c memcore -n '__fish_seen_subcommand_from {v1}' {v3}{v4}"),
    *("train.yaml train.log", "configs/*.yaml --accelerator h100-sxm-80gb", "train.yaml --to torchtitan"),
    "seq, batch, users, context, gpus, tp, accelerator, adapter-rank, layers",
    "torch/optim: states are made when a parameter is first updated",
    "transformers, trainer.py, evaluation_loop: kept on the GPU without eval_accumulation_steps",
    "the model's parameters",
    "the recorded step",
    " (each block rounded up to 512 B)",
    # Keys of tables, tags, and classes of a picture
    *(
        "quantity {v1}",
        "moment {v1}",
        "{v0} stored",
        "{v0} shared",
        "owner {v1}",
        "first and last",
        "to tiles",
        "pasted into the page",
        "2 or more",
    ),
    *("out of memory", "{v0} at {v2}", "peak here", "peak beaten", 'class="picture strip"', "S({v1}) in bytes"),
    # Of other interfaces, or of a mistake in the code
    *(
        " (did you mean '{v1}'?)",
        "no logits",
        "{v0}, in other layers",
        "no heading of a search's rows",
    ),
    *("{v0} ({v2} parameters)", "{v0} on {v2} × {v4}", "{v0} on one {v2}", "{v0} ({v2}): {v4} parameters"),
    # Read again where they are shown: `describe.when`
    *("{v0}layer {v2}", "{v0}layers {v2} to {v4}", "{v0}layers {v2}, {v4} … {v6}", "vision {v1} "),
}
"""What no visitor reads as a sentence, or a source, which stays in its language."""
OF_SETTINGS = {text for each in SETTINGS.values() for text in (each.label, each.help, each.default)}
OF_SETTINGS |= {text for each in SETTINGS.values() for text in getattr(each.kind, "meanings", {}).values()}
"""They have tables by the setting."""
KNOWN = {*NOT_SAID, *OF_SETTINGS, *(each for each, _ in WORDS.values()), *words().values(), *helps().values()}
"""Texts that need no row."""


ROWS = {**ANSWERS, **MESSAGES_IN_CHINESE}
NAMES_OF = re.compile(r"\{(\w+)(?::s)?\}")
"""Names of a row's values."""
KEYS = {NAMES_OF.sub("{}", each): each for each in ROWS}
"""Rows by what they say besides their values."""


def escaped(text):
    """A text as a template without places."""
    return text.replace("{", "{{").replace("}", "}}")


def numbered(node):
    """An f-string as `NOT_SAID` has it: with numbers where values are."""
    parts = (
        escaped(each.value)
        if isinstance(each, ast.Constant)
        else f"'{{v{number}}}'"
        if each.conversion == ord("r")
        else f"{{v{number}}}"
        for number, each in enumerate(node.values)
    )
    return "".join(parts)


SAY = {"Message": 0, "at": 1, "refuse": 1, "UnsupportedError": 1}
"""What says a template with values, and which of its arguments the template is."""


@cache
def nodes_of(path):
    """The nodes of a module's syntax; it is parsed once for all tests."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.fixture(scope="module", autouse=True)
def _parsed():
    """What was parsed goes after the last test."""
    yield
    nodes_of.cache_clear()


def messages_of(nodes):
    """The messages of a module: what their templates are, and what they are given."""
    for node in nodes:
        if isinstance(node, ast.Call):
            number = SAY.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            for each in node.args[number : number + 1] if number is not None else ():
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each, node.args[number + 1 :]


def texts_of(nodes):
    """The other texts of a module, but for docstrings and names: those that are finished, and f-strings."""
    passed = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for template, values in messages_of(nodes):
        passed |= {template, *filter(are_names, values)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            passed |= set(node.values)
        elif isinstance(node, ast.keyword) and node.arg in NAMES:
            passed |= set(ast.walk(node.value))
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node not in passed:
            said = numbered(node) if isinstance(node, ast.JoinedStr) else node.value
            if isinstance(said, str) and PROSE.search(said) and not MARKUP.search(said) and said not in KNOWN:
                yield said, isinstance(node, ast.JoinedStr)


def are_names(node):
    """Whether a value of a message is a list of names, or a setting with its value, which stay as they are."""
    return isinstance(node, ast.Constant) and bool(NAMED.fullmatch(str(node.value)))


def missing(template):
    """The pieces of a template that have words and no row."""
    return [each.key for each in sentences.pieces(template) if each.key not in KEYS and not each.is_list]


def modules():
    """Modules that a page may speak from."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        if not name.startswith(SILENT):
            yield path


def test_every_sentence_has_a_chinese_row():
    """Whatever a module says, refuses, warns or assumes: values are those of a message, and its template has its rows."""
    texts = [(path.name, *each) for path in modules() for each in texts_of(nodes_of(path))]
    assert len(texts) > 1000
    assert [(path, said) for path, said, unfinished in texts if unfinished] == [], (
        "f-strings forget their values: say them with Message"
    )
    templates = [(path.name, each.value) for path in modules() for each, _ in messages_of(nodes_of(path))]
    finished = [(path, escaped(said)) for path, said, _ in texts if said not in KEYS and missing(said)]
    assert [(path, each) for path, template in templates + finished for each in missing(template)] == []


@pytest.mark.machine
def test_every_message_has_its_values():
    """A template has as many places as it is given values."""
    found = [each for path in ROOT.rglob("*.py") for each in messages_of(nodes_of(path))]
    assert len(found) > 500
    for template, values in found:
        places = sum(name is not None for piece in sentences.pieces(template.value) for _, name, *_ in piece.fields)
        assert places == len(values) or any(isinstance(each, ast.Starred) for each in values), template.value


@pytest.mark.machine
def test_every_row_is_said():
    """A row of a text that nobody says any more goes."""
    said = set()
    for path in set(ROOT.rglob("*.py")) - set((ROOT / "i18n").rglob("*.py")):
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts = (node.value, *node.value.split("; "))
                said |= {*texts, *(re.sub(r"\{(![rs])?(:[^{}]*)?\}", "{}", each) for each in texts)}
    assert [row for key, row in KEYS.items() if row in MESSAGES_IN_CHINESE and key not in said | OF_JSON] == []


def test_rows_say_the_same():
    """A row's values are those of its English, and it is in Chinese."""
    assert len(KEYS) == len(ROWS)
    for english, chinese in ROWS.items():
        assert sorted(NAMES_OF.findall(english)) == sorted(set(NAMES_OF.findall(chinese))), english
    for english, chinese in (*MESSAGES_IN_CHINESE.items(), *MODELS_IN_CHINESE.items()):
        assert CHINESE.search(chinese), english
        assert "; " not in english, english


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_opens_without_the_messages(language, monkeypatch):
    """What is said when something is wrong is loaded when the first of it is said in Chinese."""
    asked = []
    for each in ("_rows", "_messages"):
        monkeypatch.setattr(sentences, each, lambda: asked.append(1) or {})
    for step in handle(Session(), {"do": "start", "language": language}):
        assert isinstance(step, dict)
    assert asked == []


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("training.sequence_length", "x; y", "应为整数，如 8192、8k 或 7B，实为 'x; y'"),
        ("parallelism.tensor_parallel_size", "3", "值为 3，不能整除 meta-llama/Llama-3.1-8B 的查询头数（32）"),
        ("training.quantization", "nf4", "值为 'nf4'；量化权重是冻结的，没有适配器就没有可训练参数"),
        ("engine.type", "none or ddp", "值为 'none or ddp'；允许：none, ddp, fsdp,"),
    ],
)
def test_a_wrong_field_is_explained_in_chinese(path, text, said):
    """What a user wrote stays as it is."""
    texts = {"model": "llama-3.1-8b", "training.sequence_length": "8192", "engine.type": "fsdp",
             "hardware.num_gpus": "8", path: text}  # fmt: skip
    with speaking("zh"), pytest.raises(MemcoreError) as caught:
        estimate(from_texts(texts))
    with speaking("zh"):
        assert said in complaint(caught.value)
    assert not CHINESE.search(str(caught.value))


def test_suggestions_are_made_in_chinese():
    """Every change that is suggested has a name, but for two that are names."""
    names = {
        each.title for each in (*CHANGES, *(row for server in registry.SERVERS for row in server_of(server).changes))
    } - {
        "Adafactor",
        "Flash attention",
    }
    with speaking("zh"):
        assert [each for each in names if not CHINESE.search(translated(each))] == []


@pytest.mark.parametrize("name", ["qlora-8b-24gb", "deepseek-v3", "serve-32b-50", "gguf-8b"])
def test_an_answer_has_no_english_sentence(name):
    """Whatever is read of it: names, formulas and sources are not sentences."""
    found = estimate(presets()[name].config)
    with speaking("zh"):
        html = "".join(page.sections(found).values())
    read = re.findall(r">([^<>]+)<", re.sub(r"<code.*?</code>", "", html, flags=re.DOTALL))
    assert len(read) > 200
    assert [each for each in read if ENGLISH.search(each) and "/" not in each] == []


@pytest.mark.parametrize(
    "text", ["found " * 330, "found x, which found y, " * 80, "'\\" * 900, "a and " * 300, "{0} {v:d} " * 200]
)
def test_what_a_file_says_does_no_harm(text):
    """Names in a file may be anything: a finished text is looked up as a whole, and what stands in quotes never."""
    with speaking("zh"):
        assert translated(text) == text
        assert translated(Message("found {!r}", text)) == f"值为 {text!r}"


@pytest.mark.parametrize(
    ("said", "chinese"),
    [
        (Message("found {!r}; needs {}", "norms", "engine.type"), "值为 'norms'；需要 engine.type"),
        (Message("{}; {}", "leave it out", Message("found {:,}", 4096)), "请去掉此项；值为 4,096"),
        (joined(", ", ("norms", Message("window {}", 4))), "归一化层，窗口 4"),
        (joined(" and ", ("ddp", "fsdp")), "ddp 和 fsdp"),
        (Message("allowed: {}", joined(", ", ("none", "all"))), "允许：none, all"),
        (Message("which nobody has translated: {}", "norms"), "which nobody has translated: norms"),
        (str(ConfigError.at("", "found {}", 3)), "found 3"),
        (ConfigError.at("", "found {}", 3).problems[0].message, "值为 3"),
        (str(ValueError(Message("found {}", 3))), "值为 3"),
        (copy.deepcopy(Message("found {}", Message("window {}", 4))), "值为窗口 4"),
        (pickle.loads(pickle.dumps(Message("found {}", 3))), "值为 3"),  # noqa: S301
    ],
)
def test_a_message_keeps_its_values(said, chinese):
    """Whatever carries a message in English, its template is looked up, and its values one by one."""
    with speaking("zh"):
        assert translated(said) == chinese


BANNED = re.compile(
    r"\bmodelled\b|\banew\b|equally many|taken to need|聚合|lets go of|so many|cannot share|\bbeside\b|nobody reads|\bidles\b|\bleanest\b|, was \{|"
    r"\bthat binds\b|a log of yours|建模|这么多|聚集|瓦片|桶|作业|图块|词元|无人读取|分担|位数最多"
)
"""Phrases that messages avoid: what is not supported yet is said so, and what is split is not shared."""


def test_messages_are_plain():
    """Refusals and notes of either language are without the phrases that read as translated."""
    tables = (MESSAGES_IN_CHINESE, ANSWERS, helps(), dict(WORDS.values()))
    texts = [each for table in tables for row in table.items() for each in row]
    assert len(texts) > 5000
    assert [each for each in texts if BANNED.search(each)] == []


@pytest.mark.parametrize(
    "command",
    [
        "estimate --model llama-3.1-8b --adapter lora --accelerator rtx-4090",
        "estimate --model qwen3-32b --engine vllm --max-len 8192 --accelerator h100-sxm-80gb",
        "estimate --model llama-3.1-8b --engine fsdp --gpus 64 --pp 4 --accelerator h100-sxm-80gb",
        "explain --model gpt2 --seq 256 --accelerator t4",
        "explain --model gpt2 --engine vllm --accelerator t4",
        "advise --model gpt2 --seq 512 --accelerator t4",
        "solve --for batch --model gpt2 --seq 512 --accelerator t4",
        "quick 1B",
        "validate --model gpt2",
        "check --model gpt2 --accelerator t4",
        "hardware h100",
        "formulas --model llama-3.1-8b --gpus 8 --seq 4096",
        "formulas --model qwen3-30b-a3b --gpus 8 --engine megatron --tp 2 --pp 2",
        "estimate --help-all",
        *(f"{name} --help" for name in COMMANDS),
        "--help",
        "",
    ],
)
def test_the_command_line_speaks_chinese(command, monkeypatch, capsys):
    """Every line of an answer fits its terminal, and none is an English sentence; sources and names stay as they are."""
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("LC_ALL", "LC_MESSAGES", "MEMCORE_LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    try:
        assert main(command.split()) != BAD_INPUT
    except SystemExit as stopped:
        assert stopped.code == 0
    printed = capsys.readouterr().out.splitlines()
    assert any(CHINESE.search(line) for line in printed)
    assert [line for line in printed if columns(line) > 80] == []
    assert [line for line in printed if SENTENCE.search(line) and not NO_SENTENCE.search(line)] == []


@pytest.mark.parametrize(
    ("arguments", "environment", "language"),
    [
        ([], {}, "en"),
        ([], {"LANG": "zh_CN.UTF-8"}, "zh"),
        ([], {"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ([], {"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "", "LC_ALL": ""}, "zh"),
        ([], {"LANG": "en_US.UTF-8", "MEMCORE_LANGUAGE": "zh"}, "zh"),
        (["--language", "en"], {"MEMCORE_LANGUAGE": "zh"}, "en"),
        (["--language=zh"], {}, "zh"),
        (["--language", "zh", "--json"], {}, "en"),
        (["--csv"], {"LANG": "zh_CN.UTF-8"}, "en"),
        (["--format", "github"], {"LANG": "zh_CN.UTF-8"}, "en"),
    ],
)
def test_the_language_of_an_answer(arguments, environment, language):
    """The flag, then the variable of memcore, then the locale; what programs read is English."""
    found, rest = spoken(["estimate", *arguments, "job.json"], environment)
    assert found == language
    assert rest[0] == "estimate"
    assert rest[-1] == "job.json"
    assert not any(each.startswith("--language") for each in rest)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("estimate --language fr", "error: --language: found 'fr'; allowed: en, zh"),
        ("estimate --language", "error: --language: found ''; allowed: en, zh"),
        ("estimate --language zh --modle gpt2", "错误：未识别的参数：--modle（是否指 --model？）"),
        ("explain --language zh --model gpt2 --at noon", "错误：--at：值为 'noon'；允许："),
        ("plan --language zh --model gpt2 --price x", "错误：--price：应为大于 0 的数，如 2.5，实为 'x'"),
        (
            "estimate --language zh --model gpt2 --gpus abc",
            "错误：--gpus：应为整数，如 8192、8k 或 7B，实为 'abc'",
        ),
        ("estimate --language zh nofile.yaml", "错误：nofile.yaml：没有这个文件或目录"),
        ("solve --language zh --model gpt2", "错误：--for：必填，例如"),
        ("nothing --language zh", "错误：COMMAND：值为 'nothing'；允许："),
    ],
)
def test_errors_of_the_command_line(command, said, capsys):
    """An error is in the language that is asked for."""
    assert main(command.split()) == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        ("峰值时刻", 8, ["峰值时刻"]),
        ("显存峰值出现在损失的梯度。", 12, ["显存峰值出现", "在损失的梯", "度。"]),
        ("参数（8 个）与激活值", 12, ["参数（8 个）", "与激活值"]),
        ("  最大的部分是激活值：57.1 GiB", 18, ["  最大的部分是激活", "    值：57.1 GiB"]),
    ],
)
def test_lines_of_wide_characters(line, width, lines):
    """A Chinese character takes two columns; no line begins with what closes, and a number keeps its unit."""
    assert fitted(line, width) == lines
    assert all(columns(each) <= width for each in lines)
