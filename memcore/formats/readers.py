"""Texts of other tools to keys and values: JSON, TOML, YAML, and command lines in scripts."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memcore.errors import ConfigError, Problem
from memcore.formats.as_shell import of_batch, of_dockerfile, of_unit
from memcore.formats.containers import RELEASE, commands, contained, elsewhere, within
from memcore.formats.deployed import deployed
from memcore.formats.modelfile import modelfile_in
from memcore.formats.normalized import GPUS, PER_NODE, interpolated
from memcore.formats.notebooks import of_shell
from memcore.formats.shell import END, ENVIRONMENT, FILE, OUTSIDE, words
from memcore.formats.slurm import started_by
from memcore.formats.values import number, underscored
from memcore.formats.yaml import read_yaml
from memcore.limits import NESTING, whole
from memcore.messages import Message
from memcore.untrusted import deepest, fault, parse_json, unmarked

_TRAINERS = {"--model_name_or_path", "--per_device_train_batch_size"}
_PYTHON = re.compile(r"^(?:import [a-z]\w*(?: as \w+)?|from [a-z][\w.]* import .+|def \w+\(.*)$", re.MULTILINE)
_SHELL = re.compile(r"#![^\n]*\b(?:ba|z|da)?sh\b")
_DOCUMENT = re.compile(r"^---[ \t]*$", re.MULTILINE)
_SWIFT = re.compile(
    r"\bswift[ /](?:cli/)?(?:_megatron/)?[a-z]|\bmegatron (?:sft|pt|rlhf|export)\b"
    r"|\bllm_(?:sft|dpo|orpo|simpo|rlhf)\.py\b"
)
_PROCESSES = ("--num_processes", "--num_gpus", "--nproc_per_node", "--nproc-per-node")
_SAID: Mapping[str, bool] = {"True": True, "true": True, "False": False, "false": False}
_NAMES = re.compile(r"\[[a-z][\w ]*\]|[a-z_]+( [a-z_]+)+")
_FLAG = re.compile(r"--?[A-Za-z]|\*(?:env|file)\.")
_FLAGS = re.compile(r"(?:^|\s)--?[A-Za-z]")
_DIGITS = re.compile(r"[0-9_]{100,}")
_BEFORE = re.compile(r"(?:[ \t]*(?:#[^\n]*|%[^\n]*|---[ \t]*)?\r?\n)*[ \t]*")
"""Empty lines, comments, and how a document of YAML begins."""
_KEY = re.compile(r"""["']?[\w.-]+["']?[ \t]*:(?:\s|$)""")
_TABLE = re.compile(r"^[ \t]*\[{1,2}[\w.\"' -]+\]{1,2}[ \t]*(?:#.*)?$", re.MULTILINE)
_TOML_FIRST = re.compile(r"""\[|[\w.\"'-]+[ \t]*=""")
_TOML_STRING = re.compile(
    r""""{3}[^"\\]*(?:(?:\\.?|"(?!""))[^"\\]*)*(?:"{3}|\Z)|"[^"\\\n]*(?:\\.?[^"\\\n]*)*"?|#[^\n]*"""
    r"""|'{3}[^']*(?:'(?!\'\')[^']*)*(?:'{3}|\Z)|'[^'\n]*'?""",
    re.DOTALL,
)
_TOML_BRACKET = re.compile(r"[\[\]{}]")
_TOML_NAME = re.compile(r"[\w. \t-]+")


def read_file(text: str, notes: list[str] | None = None) -> tuple[str, Mapping[str, Any]]:
    """The syntax of a file and its keys, dotted; `notes` takes what there is to say about how it is written.

    Raises ConfigError where no syntax fits.
    """
    try:
        text = of_batch(unmarked(text))
    except ValueError as error:
        raise ConfigError.at("the file", str(error)) from None
    if text.lstrip().startswith("{"):
        return "json", flat(parsed(text, "the file", notes))
    described = modelfile_in(text)
    if described is not None:
        return "modelfile", described
    if _PYTHON.search(text) and not (_SHEBANG.match(text) or of_shell(text)) and not _fenced(text):
        factory = _FACTORY.search(text)
        if factory is not None:
            message = "is a recipe of NeMo in Python, which is not run; pass `nemo llm pretrain --factory {}`"
            raise ConfigError.at("the file", message, factory[1])
        raise ConfigError.at("the file", "is a Python script, which is not run; pass the config that it generates")
    text = of_dockerfile(of_unit(text))
    scripts = [text] if _SHELL.match(text) or of_shell(text) else _fenced(text)
    return of_command(_first_read(scripts)) if scripts else _of_keys(text, notes)


_FACTORY = re.compile(r"^NAME = \"(\w{1,80})\"\s*$(?=[\s\S]{0,8000}?@run\.cli\.factory)", re.MULTILINE)
"""The name of a recipe that a module of NeMo has (nemo/collections/llm/recipes/)."""
_LEFT_OPEN = re.compile(r"\{\{-?[ \t]{0,8}\.?([A-Za-z][\w.]{0,80})[ \t]{0,8}-?\}\}")
"""A place that a template's reader fills in."""


def _of_template(text: str) -> str:
    """A template with variables from outside in its places.

    >>> _of_template("path: {{model_dir}}/vocab.json")
    'path: $model_dir/vocab.json'
    """
    return _LEFT_OPEN.sub(lambda each: f"${each[1].replace('.', '_')}", text) if "{{" in text else text


def _submitted(content: Mapping[Any, Any]) -> dict[str, Any] | None:
    """The parameters of a run of MosaicML's platform, and its GPUs (mcli: `compute.gpus`); None for another file."""
    parameters, compute = content.get("parameters"), content.get("compute")
    if not isinstance(parameters, Mapping) or "command" not in content:
        return None
    gpus = compute.get("gpus") if isinstance(compute, Mapping) else None
    counted = {GPUS: gpus} if isinstance(gpus, int) and gpus > 0 else {}
    return {**interpolated(flat(parameters)), **counted}


def _of_keys(text: str, notes: list[str] | None) -> tuple[str, Mapping[str, Any]]:
    """TOML, flags, YAML, or the command that a YAML file of containers holds."""
    first = _BEFORE.match(text)
    start = first.end() if first else 0
    if _TOML_FIRST.match(text, start) and _TABLE.search(text):
        return "toml", flat(_toml(text))
    if _is_command(text, start) or (_overriding_in(text) and not _KEY.match(text, start)):
        return of_command(read_command(text))
    content = _documents(_of_template(text), notes)
    submitted = _submitted(content) if isinstance(content, Mapping) else None
    if submitted is not None:
        return "yaml", submitted
    script = commands(content) if isinstance(content, Mapping) else None
    if script is not None:
        return of_command(read_command(script))
    if isinstance(content, Mapping) and isinstance(content.get("MODEL_ARGS"), Mapping):
        return "argv", {**_tested(content["MODEL_ARGS"]), **_around(content.get("ENV_VARS"))}
    if not isinstance(content, Mapping):
        if text.startswith("<", start):
            raise ConfigError.at("the file", "is HTML or XML; download the file itself")
        raise ConfigError.at("the file", "contains no keys; allowed: JSON, YAML, TOML, or a command line")
    return "yaml", interpolated(flat(content))


def _is_command(text: str, start: int) -> bool:
    """Whether a text is a command or a script, by flags or by a program that may have none."""
    commanded = _FLAGS.search(text) is not None or _WRITES.search(text) is not None
    return (commanded and not _KEY.match(text, start)) or _ALONE.search(text) is not None


_WRITES = re.compile(r"^[ \t]*cat\b[^\n#]{0,200}<<-?[ \t]{0,8}[\"']?\w", re.MULTILINE)
"""A command that writes a file out of a script."""
_ALONE = re.compile(
    r"^(?:[A-Z_]\w{0,80}=[^\s=]{0,200} ){0,20}(?:vllm serve|ollama run|lmdeploy serve api_server|trtllm-serve) \S+"
    r"|^(?:[A-Z_]\w{0,80}=[^\s=]{0,200} ){1,20}(?:(?:ba)?sh )?[\w./-]{1,200}\.sh\s*$",
    re.MULTILINE,
)


_SHEBANG = re.compile(r"#![^\n]{0,80}\b(?:ba|z|da|k|)sh\b")
"""A script of a shell, which may hold a Python script."""
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)")
_OF_SHELL = frozenset({"", "bash", "sh", "shell", "zsh", "console", "shell-session", "text"})
_PROMPT = re.compile(r"^[ \t]*\$ ", re.MULTILINE)


def _fenced(text: str) -> list[str]:
    """Return a Markdown page's commands of a shell, those for other devices than GPUs only where there are no others.

    None for a text that is no such page.
    """
    blocks: list[str] = []
    lines: list[str] = []
    fence, taken, language = "", False, ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if not fence and mark:
            language = mark[2].lower()
            fence, taken, lines = mark[1], language in _OF_SHELL, []
        elif fence and mark and mark[1].startswith(fence) and not mark[2]:
            block = "\n".join(lines)
            blocks += [block] if taken else _contained_in(block) if language in _YAML else []
            fence = ""
        elif fence:
            lines.append(line)
    told = [
        _PROMPT.sub("", each)
        for each in blocks
        if _LAUNCHED.search(each) or _TGI in each or not _TRAINED.isdisjoint(each.split())
    ]
    return [each for each in told if not elsewhere(each)] or told


_YAML = ("yaml", "yml")
_TGI = "huggingface/text-generation-inference:"
"""An image that is told everything by variables, and needs no flags."""


def _contained_in(block: str) -> list[str]:
    """The commands of containers in a block of YAML; none in another one."""
    try:
        content = _documents(textwrap.dedent(block), None)
    except ConfigError:
        return []
    script = commands(content) if isinstance(content, Mapping) else None
    return [] if script is None else [script]


def _first_read(scripts: list[str]) -> dict[str, Any]:
    """The flags of the commands of several blocks, which may use each other's variables."""
    try:
        return read_command("\n".join(scripts))
    except SeveralJobs:
        raise
    except ConfigError:
        whole = [each for each in scripts if _is_whole(each)]
        if len(whole) in (0, len(scripts)):
            raise
        return read_command("\n".join(whole))


def _is_whole(script: str) -> bool:
    """Whether a script's quotations and brackets end."""
    try:
        words(script)
    except (ValueError, RecursionError):
        return False
    return True


def _documents(text: str, notes: list[str] | None) -> Any:
    """The content of a document; of several, as Kubernetes has them, what each of them holds under its number."""
    parts = [each for each in _DOCUMENT.split(text) if each.strip()]
    if len(parts) < 2 or "apiVersion" not in text:
        return read_yaml(text, notes)
    return {"spec": [read_yaml(each, notes) for each in parts]}


def of_command(found: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The flags of a command with their syntax: arguments of the Trainer's scripts are keys of its files."""
    served = deployed(found)
    if served is not None:
        return "argv", served
    of_file = _of_trainer(found) or _overridden(found) or _KEYED.search(str(found.get("", ""))) is not None
    return ("yaml", as_file(found)) if of_file else ("argv", found)


_KEYED = re.compile(r"\blitgpt (?:finetune|pretrain)|\b(?:llamafactory[.-]cli|lmf) train\b")
"""Programs whose arguments are the keys of their files."""


def _overridden(found: Mapping[str, Any]) -> bool:
    """Whether a command overrides keys of a file, which are all that it says."""
    return any(name[:1].isalpha() and "." in name for name in found)


def _of_trainer(found: Mapping[str, Any]) -> bool:
    """Whether a command runs a loop around the Hugging Face Trainer, whose arguments are the keys of its files."""
    if str(found.get("--module", found.get("-m", ""))).startswith("openrlhf."):
        return False
    return bool(_TRAINERS & {*map(underscored, found)}) or _SWIFT.search(str(found.get("", ""))) is not None


def parsed(text: str, name: str, notes: list[str] | None = None) -> dict[str, Any]:
    """A JSON object. Raises ConfigError for anything else."""
    try:
        found = parse_json(text, notes)
    except ConfigError:
        raise
    except ValueError as error:
        if text.lstrip().startswith("{{"):
            raise ConfigError.at(name, "is a template; pass the output of `helm template`") from None
        raise ConfigError.at(name, "is not JSON: {}", fault(error)) from None
    if not isinstance(found, dict):
        raise ConfigError.at(name, "expected a JSON object")
    return found


def as_file(found: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a script of the Hugging Face Trainer, which are the keys of its files, and the launcher's GPUs."""
    counts = started(found)
    kept = [name for name in found if name[:1] == "*" or name[:1].isalpha() or name.startswith("--")]
    spelled = str if _overridden(found) else underscored
    named = {spelled(name).removeprefix("--"): found[name] for name in kept if name not in _PROCESSES}
    if _overridden(found):  # whatever else stands there is the launcher's
        named = {name: value for name, value in named.items() if f"--{name}" not in found or name in _OF_CONFIG}
    keys = {name: _SAID.get(value, value) if isinstance(value, str) else value for name, value in named.items()}
    keys = {**_opened(keys), "": found.get("", "")}
    return {**keys, **counts}


def started(found: Mapping[str, Any]) -> dict[str, Any]:
    """The GPUs of a launcher's processes, and those of a node where there are several.

    `--num_processes` of accelerate is that of all nodes; torchrun and deepspeed count those of each
    (accelerate, commands/launch.py; torch, distributed/run.py; deepspeed, launcher/runner.py: `--include`).
    """
    listed = (*_PROCESSES, *(_OF_COMPOSER if "composer" in str(found.get("", "")) else ()))
    name = next((each for each in listed if _is_count(found.get(each))), None)
    named = _INCLUDED.fullmatch(str(found.get("--include", "")))
    if name is None and named is None:
        return {}
    each = found[name] if name else len(str(named and named[1]).split(","))
    nodes = 1 if name == _OF_ALL else next((found[of] for of in _NODES if _is_count(found.get(of))), 1)
    if nodes == 1:
        return {GPUS: each}
    if isinstance(each, int) and isinstance(nodes, int):
        return {GPUS: each * nodes, PER_NODE: each}
    return {GPUS: nodes if isinstance(each, int) else each}


def _is_count(value: object) -> bool:
    """Whether a value is a number, or a variable that stands for one."""
    return (isinstance(value, int) and not isinstance(value, bool)) or OUTSIDE.search(str(value)) is not None


_OF_ALL = "--num_processes"
_OF_COMPOSER = ("-n", "--nproc")
"""What Composer's launcher calls the processes of a node (composer/cli/launcher.py)."""
_NODES = ("--nnodes", "--num_nodes")
_INCLUDED = re.compile(r"localhost:(\d{1,2}(?:,\d{1,2})*)")
"""The GPUs of this machine that deepspeed takes."""


def _opened(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are texts of JSON as what they hold: `--gradient_checkpointing_kwargs '{"use_reentrant": 0}'`."""
    opened: dict[str, Any] = {}
    for name, value in keys.items():
        held: Any = None
        if isinstance(value, str) and value.startswith("{"):
            try:
                held = parse_json(value)
            except ValueError:
                held = None
        opened |= flat(held, name) if isinstance(held, dict) else {name: value}
    return opened


_OF_CONFIG = ("config-name", "config", "recipe", "mode", "factory")
"""Options by which a command says what it overrides keys of."""


def _tested(arguments: Mapping[Any, Any]) -> dict[str, Any]:
    """The flags of one of Megatron-LM's functional tests, which are keys there."""
    found = {str(name): _listed(value) for name, value in arguments.items() if value is not None and value is not False}
    return {**found, "": "pretrain_gpt.py"}


def _around(variables: object) -> dict[str, Any]:
    """The environment that such a test runs in."""
    pairs = variables.items() if isinstance(variables, Mapping) else ()
    return {f"{ENVIRONMENT}{name}": value for name, value in pairs}


def _listed(value: Any) -> Any:
    """Several names are a list there, in brackets or not; a shell takes away what quotes (_run_training.sh: `eval`)."""
    value = re.sub(r"[\\\"]", "", value) if isinstance(value, str) else value
    if isinstance(value, str) and _NAMES.fullmatch(value):
        return value.strip("[]").split()
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [word for each in value for word in each.split()]
    return value


def _toml(text: str) -> Any:
    if sys.version_info < (3, 11):
        raise ConfigError.at("the file", "is TOML, which needs Python 3.11 or newer")
    import tomllib  # noqa: PLC0415 — Python 3.10 lacks it

    try:
        _bounded(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError.at("the file", "is not TOML: {}", str(error)) from None


def _bounded(text: str) -> None:
    """Raise ValueError for brackets or tables too deep in each other, and for numbers of too many digits.

    The parser recurses, and takes the square of the time for a name of many parts.
    """
    bare = _TOML_STRING.sub("s", text)
    deepest(_TOML_BRACKET.findall(bare))
    for name in _TOML_NAME.findall(bare):
        if name.count(".") >= NESTING:
            raise ValueError(Message("nested more than {} levels deep", NESTING))
    for digits in _DIGITS.findall(bare):
        whole(digits.replace("_", ""))


def flat(content: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones; empty mappings and nulls are left out.

    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping):
            found |= flat(value, name)
        elif value is not None:
            found[name] = value
    return found


def read_command(text: str) -> dict[str, Any]:
    """The flags of a command line, or of a shell script that builds one; the first word that is none is under `*`.

    >>> read_command("vllm serve gpt2 --enforce-eager")
    {'*': 'gpt2', '--enforce-eager': True, '': 'vllm serve'}
    >>> read_command("vllm serve org/m --tensor-parallel-size 2 --enforce-eager")
    {'*': 'org/m', '--tensor-parallel-size': 2, '--enforce-eager': True, '': 'vllm serve'}

    Raises SeveralJobs for commands of several jobs.
    """
    try:
        jobs = _jobs(words(text))
        found = [_with_release(dict(_flags(job)), text) for job in jobs]
    except (ValueError, RecursionError) as error:
        raise ConfigError.at("the command", "cannot be read: {}", str(error)) from None
    if len(found) > 1:
        raise SeveralJobs(found, [" ".join(word for word in job if not word.startswith("*")) for job in jobs])
    return found[0]


_PINNED = re.compile(r"\b(vllm|sglang|lmdeploy|tensorrt[-_]llm)(?:\[[\w,]{1,40}\])?==v?(\d{1,3}(?:\.\w{1,8}){1,3})")


_OF_PACKAGES: Mapping[str, str] = dict.fromkeys(("tensorrt-llm", "tensorrt_llm"), "trtllm")
"""Programs that are not called like their package."""


def _with_release(found: dict[str, Any], text: str) -> dict[str, Any]:
    """A server's flags with the release that the script installs, if it installs one."""
    program, key = str(found.get("", "")), f"{ENVIRONMENT}{RELEASE}"
    said = {release for name, release in _PINNED.findall(text) if _OF_PACKAGES.get(name, name) in program}
    return {key: f"v{said.pop()}", **found} if len(said) == 1 else found


class SeveralJobs(ConfigError):
    """A text with the commands of several jobs, or a script of several; `said` has notes on each of a script's."""

    def __init__(
        self,
        jobs: Sequence[Mapping[str, Any]],
        texts: Sequence[str],
        syntaxes: Sequence[str] = (),
        said: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self.jobs, self.texts, self.syntaxes, self.said = tuple(jobs), tuple(texts), tuple(syntaxes), tuple(said)
        names = [_model_of(each) for each in jobs]
        told = [f"{each:.70} …" for each in texts] if len(set(names)) < len(names) or not all(names) else names
        listed = " / ".join(f"{number}: {each:.80}" for number, each in enumerate(told[:_LISTED], 1))
        message = Message("It has {} commands for {} jobs", len(texts), len(texts))
        message = Message("It describes {} jobs", len(texts)) if said else message
        choice = Message("append its number to the file name, as in FILE#2, or keep only one: {}", listed)
        super().__init__([Problem("the script" if said else "the command", Message("{}; {}", message, choice))])


_NAMED = ("*", "-hf", "-hfr", "--hf-repo", "-m", "--model", "--model-path", "--model-id", "--model_name_or_path")
"""Flags that say which model a command is for."""


def _model_of(job: Mapping[str, Any]) -> str:
    """Return the model that a command names, which best tells it from others; empty without one."""
    return next((str(job[name]) for name in _NAMED if name in job), "").rpartition("\\")[2]


_LISTED = 24
_LAUNCHED = re.compile(
    r"vllm serve|vllm\.entrypoints|vllm/vllm-openai\S*|sglang\.launch_server|sglang serve|trtllm-serve"
    r"|llama-server|llama-cli|text-generation-launcher|lmdeploy serve api_server|ollama run"
    r"|\b(?:swift|megatron) (?:sft|pt|rlhf|deploy|infer)\b|\b(?:llamafactory[.-]cli|lmf) train\b|\bsrc/train\.py "
    r"|swift/cli/(?:_megatron/)?(?:sft|pt|rlhf|deploy|infer)\.py"
    r"|examples/run_(?:vlm_)?(?:grpo|sft|dpo|rm)\.py"
    r"|verl\.trainer\.\w+|recipe\.dapo\.main_dapo|openrlhf\.cli\.train_\w+|\btraining/run_recipe\.py"
    r"|\bnemo llm (?:finetune|pretrain)\b|\blitgpt (?:finetune|pretrain)|\btune\srun\b"
)
"""Programs whose commands are whole: what else a script runs has nothing to do with them."""
_OVERRIDING = ("verl.trainer.", "recipe.dapo.main_dapo", "training/run_recipe.py")
"""Programs that take keys of a file as words, `actor.lr=1e-6`, as Hydra reads them."""


_OF_VERL = "actor_rollout_ref.model.path="
"""What programs that are built upon verl override as well."""
_OF_NEMO_RL = re.compile(r"examples/run_(?:vlm_)?(?:grpo|sft|dpo|rm)\.py")


def _overriding_in(text: str) -> bool:
    named = any(each in text for each in (*_OVERRIDING, _OF_VERL)) or _OF_NEMO_RL.search(text) is not None
    return named or any(each.search(text) for each in (_FACTORIES, _WITHOUT_SECTIONS))


_OVERRIDE = re.compile(r"[+~]{0,2}([a-z]\w*(?:\.\w+)+|config)=")
_ANY_OVERRIDE = re.compile(r"[+~]{0,2}([a-z]\w*(?:\.\w+)*)=")
_ON_A_FILE = r"\b(?:llamafactory[.-]cli|lmf)\strain\b|\bsrc/train(?:_bash)?\.py\s\S+\.(?:ya?ml|json)\b"
"""LLaMA-Factory on a file, whose keys words override (hparams/parser.py, `read_args`)."""
_WITHOUT_SECTIONS = re.compile(rf"verl\.trainer\.fsdp_sft_trainer|\btune\srun\s|\bcomposer\s.*\.py\s|{_ON_A_FILE}")
"""Programs some of whose keys are in no section."""
_FACTORIES = re.compile(r"\bnemo\sllm\s")
"""What begins a command that overrides whole sections too, as in `peft=none`."""
_SERVED = re.compile(r"vllm|sglang|trtllm-serve|llama-server|llama-cli|text-generation|lmdeploy|ollama|nemo\sllm")
_ON_A_MODEL = re.compile(
    r"(?:vllm|trtllm-serve) serve$|lmdeploy serve api_server$|ollama run$"
    r"|\blitgpt (?:pretrain|finetune_\w+|finetune (?:lora|full))$"
)
"""Programs behind which a model stands, even one whose name has no owner."""
_HANDLED = re.compile(
    r"(?:sudo )?(?:docker|podman) (?:pull|build|push|tag|exec|rm|stop|logs|images?)\b|(?:uv )?pip3? "
    r"|(?:hf|huggingface-cli) |git |curl |pkill |kill |pgrep |which |until |command "
)
"""How commands begin that only name such a program."""
_TRAINED = frozenset({
    "--model_name_or_path", "--model-name-or-path", "--num-layers", "--tensor-model-parallel-size",
    "--per_device_train_batch_size", "--micro-batch-size",
})  # fmt: skip
"""Flags by which a command of a script trains something."""


_PLACES = re.compile(r"@|^\*env\.(?:CUDA_VISIBLE_DEVICES|MASTER_ADDR|MASTER_PORT|NODE_RANK)=")
"""Words that only say where a command runs."""


def _jobs(words: list[str]) -> list[list[str]]:
    """The words of each command that serves or trains, with those of arrays; all, where no such program is known."""
    commands = _parted(words)
    words = [word for each in commands for word in each]
    launched = [each for each in commands if _launches(each)]
    if not launched:
        trained = [each for each in commands if _trains(each)]
        if len({" ".join(each) for each in trained}) < 2:
            return [words]
        launched = trained
    kept = [word for each in commands if each and (_FLAG.match(each[0]) or _OVERRIDE.match(each[0])) for word in each]
    different: dict[str, list[str]] = {}
    for each in launched:
        different.setdefault(" ".join(word for word in each if not _PLACES.search(word)), [*_program_on(each), *kept])
    return list(different.values())


def _parted(found: list[str]) -> list[list[str]]:
    """The words of each command, without what starts a container or a shell around it."""
    commands: list[list[str]] = [[]]
    for word in found:
        commands[-1].append(word)
        if word == END:
            command, environment = contained(commands[-1]) or (started_by(commands[-1]), {})
            script = within(command) or _of_manifest(command)
            commands[-1:] = _submitted_in(command) if script is None else _parted(words(script))[:-1]
            commands += [[f"{ENVIRONMENT}{name}={value}", END] for name, value in environment.items()]
            commands.append([])
    return commands


_STARTS = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|source|(?:ba)?sh|uv)$")
"""Programs that a queue is told to start."""


def _submitted_in(command: list[str]) -> list[list[str]]:
    """The commands that a queue is handed behind two dashes, `submit --gpus 1 -- source setup.sh && python train.py`.

    >>> _submitted_in(["python", "submit.py", "--gpus", "1", "--", "python", "train.py", "--lr", "1", ";"])
    [['python', 'train.py', '--lr', '1', ';']]
    """
    at = command.index("--") if "--" in command[:-1] else 0
    if at < 1 or not _STARTS.match(command[at + 1]):
        return [command]
    found: list[list[str]] = [[]]
    for word in command[at + 1 :]:
        if word in ("&&", END):
            found[-1].append(END)
            found.append([])
        else:
            found[-1].append(word)
    return found[:-1]


def _of_manifest(command: Sequence[str]) -> str | None:
    """The script of the containers that a file describes which a script writes; None for another file or command."""
    name, _, text = command[0].partition("=") if command else ("", "", "")
    if not name.startswith(FILE) or not name.endswith(_YAML):
        return None
    found = _contained_in(text)
    return found[0] if found else None


def script_of(text: str) -> str:
    """The script that a text holds for a container, or is itself."""
    return (_contained_in(text) or [text])[0] if _KEY.match(text.lstrip()) else text


def spoken_in(text: str) -> str:
    r"""The words of a script's commands, each command on a line, without the files that it writes.

    >>> spoken_in("C=a.yml; bash -c \"axolotl train $C\" # here")
    'axolotl train a.yml'
    """
    lines = (" ".join(word.removeprefix(ENVIRONMENT) for word in each if word != END) for each in _commands_of(text))
    return "\n".join(line for line in lines if line and not line.startswith(FILE))


def written(text: str) -> dict[str, str]:
    """The files of settings that a script writes, by name, wherever in it they stand; none for another text."""
    if "<<" not in text:
        return {}
    found = [each[0] for each in _commands_of(text) if each and each[0].startswith(FILE)]
    return {name.removeprefix(FILE): content for name, _, content in (each.partition("=") for each in found)}


def _commands_of(text: str) -> list[list[str]]:
    """The words of each command of a script, and the files that it writes; none if it cannot be read."""
    try:
        return _parted(words(script_of(text)))
    except (ValueError, RecursionError):
        return []


_LAUNCHER = re.compile(r"\b(?:torchrun|accelerate launch|deepspeed)\b[^\n]{0,4000}\.py\b")


def starts(text: str) -> bool:
    """Return whether a script runs a known program, or a Python script that trains or is launched on several GPUs."""
    commands = _commands_of(text)
    return any(_launches(each) or _trains(each) or _LAUNCHER.search(" ".join(each)) is not None for each in commands)


def _launches(command: list[str]) -> bool:
    """Whether a command runs a known program on something."""
    text = " ".join(command)
    found = _LAUNCHED.search(text)
    asks = "--help" in command or "--version" in command
    return found is not None and not asks and not _HANDLED.match(text) and text[found.end() :].strip(f" {END}") != ""


def _trains(command: list[str]) -> bool:
    """Whether a command runs a script of Python that trains."""
    return bool(_TRAINED & set(command)) and any(word.endswith(".py") for word in command)


def _program_on(command: list[str]) -> list[str]:
    """A command without what stands before the program of a server or of NeMo, which starts a container."""
    program = _LAUNCHED.search(" ".join(command))
    if program is None or not _SERVED.search(program[0]):
        return command
    first = program[0].split()[0]
    places = command.index(first) if first in command else None
    return command[
        places if places is not None else next((at for at, each in enumerate(command) if first in each), 0) :
    ]


def _flags(words: list[str]) -> Iterator[tuple[str, Any]]:
    """Flags with their values; programs under an empty name, and what one is run on under `*`.

    That is the first word of an array, where the command has nothing else behind its program.
    """
    programs: list[str] = []
    lone: list[str] = []
    at = 0
    overrides = _overriding_in(" ".join(words))
    whole = " ".join(words)
    pattern = _ANY_OVERRIDE if _FACTORIES.search(whole) or _WITHOUT_SECTIONS.search(whole) else _OVERRIDE
    while at < len(words):
        override = pattern.match(words[at]) if overrides else None
        name, equals, value = words[at].partition("=")
        name = "--factory" if name == "-f" and _FACTORIES.search(whole) else name
        at += 1
        if override is not None or name == END:
            yield from [(override[1], _overriding(value))] if override else ()
            continue
        values = [value] if equals else []
        while not equals and at < len(words) and not (_ends(words[at]) or (overrides and pattern.match(words[at]))):
            values.append(words[at])
            at += 1
        known = [each for each in values if not OUTSIDE.fullmatch(each)]
        if known and _ON_A_MODEL.search(" ".join((name, *known))):
            known = values[: len(known) + 1]
        values = known or values[:1]
        if name in (*_PROCESSES, *_NODES):
            programs += values[1:]  # what the launcher starts
            values = values[:1]
        if not _FLAG.match(name):
            here = [] if equals else [name, *values]
            if len(here) > 1 and ("/" in here[-1] or _ON_A_MODEL.search(" ".join(here[:-1]))):
                yield "*", here.pop()
            programs += here
            lone += here if len(here) == 1 and "/" in name and words[at : at + 1] not in ([], [END]) else ()
        elif not values:
            yield name, True
        else:
            yield name, number(values[0]) if len(values) == 1 else [number(each) for each in values]
    yield from _run_on(programs, lone)


def _run_on(programs: list[str], lone: list[str]) -> Iterator[tuple[str, Any]]:
    """The programs, and the model that the first word of an array names behind the last one."""
    if len(lone) == 1 and _ON_A_MODEL.search(" ".join(programs)):
        yield "*", lone[0]
        programs = [each for each in programs if each != lone[0]]
    yield "", " ".join(programs)


def _overriding(text: str) -> Any:
    """The value of a key that a command overrides; null is none."""
    text = text.strip("'\"")
    return None if text in ("null", "None", "") else _SAID.get(text, number(text))


def _ends(word: str) -> bool:
    """Whether a flag's values end before a word: at the end of the command, a flag, or what Python runs."""
    return word == END or word.endswith(".py") or _FLAG.match(word) is not None
