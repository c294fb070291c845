"""Commands in containers: those of compose, Kubernetes, charts, dstack, SkyPilot, llama-swap and `docker run`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memcore.errors import UnsupportedError
from memcore.formats.nodes import card_of
from memcore.formats.shell import END, ENVIRONMENT

_TOLD = (
    "services", "commands", "apiVersion", "kind", "containers", "models", "spec", "cmd", "servingEngineSpec", "run",
    "decode", "prefill",
)  # fmt: skip
"""Keys at the top of such files."""
_IMAGES: Mapping[str, str] = {
    "text-generation-inference": "text-generation-launcher", "huggingfaceserver": "vllm serve",
    "ollama": "ollama serve", "vllm": "vllm serve", "llama": "llama-server", "sglang": "sglang.launch_server",
}  # fmt: skip
"""What an image runs where its command begins with a flag: its entry point. The first that is in its name."""
_PROGRAM = re.compile(
    r"vllm serve|vllm\.entrypoints|sglang\.launch_server|sglang serve|trtllm-serve|llama-server|llama-cli"
    r"|text-generation-launcher|lmdeploy serve|\bollama\b"
)
_COMMANDS = ("command", "commands", "args", "cmd", "run")
_DEEPEST = 16
_REST = ('"$@"', '"$$@"', "$@", "$$@")
"""How a script has the arguments that it is called with."""
_SHELLS = re.compile(r"(?:.*/)?(?:ba|z|da)?sh$")
_FILLED = re.compile(r"\$\{\w+:?-[^${}]*\}")
"""A variable with what it is without an environment."""


def commands(content: Mapping[Any, Any]) -> str | None:
    """Return the shell script that a file of containers amounts to; None for a file of something else.

    >>> commands({"services": {"a": {"image": "vllm/vllm-openai", "command": "--model org/m --port 1"}}})
    'vllm serve "--model" "org/m" "--port" "1"'
    >>> commands({"servingEngineSpec": {"modelSpec": [{"modelURL": "org/m", "vllmConfig": {"maxModelLen": 8}}]}})
    'vllm serve "org/m" "--max-model-len" "8"'
    """
    if isinstance(content.get("command"), str) and isinstance(content.get("compute"), Mapping):
        return None if content.get("parameters") else _on_platform(content)
    if not any(key in content for key in _TOLD):
        if not content or not all(_swaps(each) and _serves(str(each["cmd"])) for each in content.values()):
            return None
        content = {"models": content}  # a part of llama-swap's file
    content = _filled_in(content)
    found = list(_scripts(_swapped(content), 0, ""))
    return "\n".join(found) if found else None


def _on_platform(content: Mapping[Any, Any]) -> str:
    """Return the command of a run on MosaicML's platform with the processes that its GPUs give Composer.

    Runs with `parameters` are read by them (llm-foundry, mcli/*.yaml).
    """
    gpus = content["compute"].get("gpus")
    return f"export NPROC_PER_NODE={gpus}\n{content['command']}" if gpus else str(content["command"])


def _filled_in(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a file of llama-swap without macros: a model's own hold before those of the file, also inside those.

    Source: llama-swap, internal/config/config.go (`LoadConfigFromReader` merges the macros of a model over the global
    ones before it fills them in).
    """
    macros, models = content.get("macros"), content.get("models")
    general = macros if isinstance(macros, Mapping) else {}
    own = {
        name: _without_macros(each, {**general, **each["macros"]}, 0)
        for name, each in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(each, Mapping) and isinstance(each.get("macros"), Mapping)
    }
    content = {**content, "models": {**models, **own}} if own and isinstance(models, Mapping) else content
    if not general:
        return content
    return {name: _without_macros(value, general, 0) for name, value in content.items() if name != "macros"}


def _swapped(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a file of llama-swap with each command in one line, and without the programs of other kinds of models.

    Lines of a command go on without a sign there, and those of comments are left out (internal/config/commands.go).
    """
    models = content.get("models")
    if not isinstance(models, Mapping):
        return content
    whole = {name: {**each, "cmd": _in_one_line(each["cmd"])} if _swaps(each) else each
             for name, each in models.items()}  # fmt: skip
    known = {name: each for name, each in whole.items() if _swaps(each) and _serves(each["cmd"])}
    return {**content, "models": known or whole}


def _swaps(model: object) -> bool:
    return isinstance(model, Mapping) and isinstance(model.get("cmd"), str)


def _serves(command: str) -> bool:
    """Return whether a command runs a known server, or a container that may have one."""
    return _PROGRAM.search(command) is not None or contained([*command.split(), END]) is not None


def _in_one_line(command: str) -> str:
    lines = [line.strip() for line in command.split("\n")]
    return " ".join(line.removesuffix("\\") for line in lines if line and not line.startswith("#"))


def _without_macros(content: object, macros: Mapping[Any, Any], deep: int) -> Any:
    """What stands for `${name}` in commands of llama-swap (internal/config/macros.go: each may hold earlier ones)."""
    if isinstance(content, str):
        for name, value in reversed(list(macros.items())):
            if len(content) < _LONGEST:
                content = content.replace(f"${{{name}}}", str(value))
        return content
    if isinstance(content, Mapping) and deep < _DEEPEST:
        return {key: _without_macros(value, macros, deep + 1) for key, value in content.items()}
    return [_without_macros(each, macros, deep + 1) for each in content] if isinstance(content, list) else content


_LONGEST = 2**16
"""Characters of a command to which macros are still added."""


RELEASE, CARD = "SERVER_RELEASE", "NODE_ACCELERATOR"
"""The variables that say which release of a server a container's image has, and which GPU its node."""
_RELEASES = re.compile(
    r"(?:^|/)(?:(?:vllm-openai|sglang)(?:-rocm)?|text-generation-inference|lmdeploy|tensorrt-llm/release|llama\.cpp)"
    r":[\w.-]*?(?:(?<![\w.])v?(\d{1,3}(?:\.\d{1,4}){1,3})(?:\.post\d)?(?!\.?\d)|\bb(\d{3,6})\b)"
)


def release_of(image: str) -> str:
    """Return the release that the tag of a server's own image names, as text; empty where it names none.

    >>> release_of("vllm/vllm-openai:v0.10.0"), release_of("lmsysorg/sglang:v0.5.2-cu126"), release_of("vllm:v1.0")
    ('v0.10.0', 'v0.5.2', '')
    """
    found = _RELEASES.search(image)
    return "" if found is None else f"v{found[1]}" if found[1] else found[2]


_ELSEWHERE = re.compile(r"(?:vllm|sglang)[\w/.-]{0,40}?(?:tpu|ascend|npu|hpu|gaudi|neuron|cpu)")
"""Images of servers for other devices than GPUs."""


def elsewhere(text: str) -> bool:
    """Return whether a text names a server's image for other devices than GPUs."""
    return _ELSEWHERE.search(text) is not None


def program_of(image: str) -> str:
    """Return the program that an image runs; empty for an unknown image.

    Raises UnsupportedError for an image for other devices.
    """
    if elsewhere(image):
        raise UnsupportedError("image", "found {!r:.80}; supported: GPUs", image)
    return next((program for name, program in _IMAGES.items() if name in image), "")


def _scripts(content: object, deep: int, card: str) -> Iterator[str]:
    """Yield what containers run, on nodes with an accelerator."""
    if deep > _DEEPEST:
        return
    if isinstance(content, Mapping):
        card = card_of(content) or card
        own = [content[name] for name in _COMMANDS if content.get(name)]
        own = own or [[] for each in (content.get("entrypoint"),) if _PROGRAM.search(" ".join(_words(each or "")))]
        described = _described(content)
        if described is not None:
            release = release_of(f"{content.get('repository')}:{content.get('tag')}")
            yield "".join(_variables(content)) + _on(card) + _of(release) + described
        elif (own and all(_is_command(each) for each in own)) or _known_image(content):
            yield "".join(_variables(content)) + _run(content, [_expanded(each, content) for each in own], card)
        else:
            for value in content.values():
                yield from _scripts(value, deep + 1, card)
    elif isinstance(content, list):
        for value in content:
            yield from _scripts(value, deep + 1, card)


def _on(card: str) -> str:
    """Return what stands in front of a command that runs on an accelerator."""
    return f"{CARD}={card} " if card else ""


_EXPANDED = re.compile(r"\$\((\w{1,80})\)")
"""A variable of a container's environment in its command, as Kubernetes fills it in."""


def _expanded(own: Any, content: Mapping[Any, Any]) -> Any:
    """Return a command with the container's variables as a shell has them, without empty lines around it."""
    given = content.get("env")
    known = {_pair(each)[0] for each in given} if isinstance(given, list) else set[str]()
    if isinstance(own, list):
        return [_expanded(each, content) for each in own]
    if not isinstance(own, str):
        return own
    own = own if content.get("run") or content.get("commands") else own.strip()
    return _EXPANDED.sub(lambda each: f"${{{each[1]}}}" if each[1] in known else each[0], own)


def _known_image(content: Mapping[Any, Any]) -> bool:
    """Return whether a container runs a server that is told in its environment alone."""
    told = bool(content.get("environment") or content.get("env"))
    return told and isinstance(content.get("image"), str) and "text-generation-inference" in content["image"]


def _described(content: Mapping[Any, Any]) -> str | None:
    """Return the command of a server that a chart or an operator starts from fields of its own; None for other fields.

    Sources: vllm production-stack, helm/templates/deployment-vllm-multi.yaml; kubeai, internal/modelcontroller
    (engine_vllm.go, engine_ollama.go); kserve, huggingfaceserver/__main__.py.
    """
    more = [str(each) for each in content.get("args") or () if isinstance(each, str | int | float)]
    if isinstance(content.get("modelURL"), str):
        return _of_chart(content)
    model = content.get("model")
    if isinstance(model, Mapping) and isinstance(model.get("modelURL"), str):
        return _of_chart(_of_operator(model, content.get("vllmConfig", content)))
    if isinstance(model, Mapping) and str(model.get("uri", "")).startswith(("hf://", "pvc://", "s3://")):
        return _of_inference_service(content, model)
    url, operated = content.get("url"), _OPERATED.get(str(content.get("engine", "")).lower())
    if isinstance(url, str) and operated is not None:
        if _NO_GPU.match(str(content.get("resourceProfile", ""))):
            raise UnsupportedError("resourceProfile", "found {!r:.80}; supported: GPUs", content["resourceProfile"])
        return _joined([*operated, url.partition("://")[2].partition("?")[0], *more], 2)
    stored = content.get("storageUri")
    if isinstance(content.get("modelFormat"), Mapping) and content.get("args") and "--backend=huggingface" not in more:
        name = ["--model", stored.partition("://")[2]] if isinstance(stored, str) else []
        renamed = [
            each.replace("--model_id", "--model").replace("--model_name", "--served-model-name") for each in more
        ]
        own = [each for each in renamed if not each.startswith(("--model_dir", "--backend"))]
        return _joined(["vllm", "serve", *([] if any(each.startswith("--model=") for each in own) else name), *own], 2)
    return None


def _of_inference_service(content: Mapping[Any, Any], model: Mapping[Any, Any]) -> str | None:
    """Return the server of KServe's `LLMInferenceService`, whose container adds words of its environment.

    Source: kserve, config/llmisvcconfig/config-llm-template.yaml.
    """
    template = content.get("template")
    containers = template.get("containers") if isinstance(template, Mapping) else None
    main = next((each for each in containers or () if isinstance(each, Mapping) and each.get("name") == "main"), {})
    if any(main.get(name) for name in ("command", "args")):
        return None
    found = ["vllm", "serve", str(model["uri"]).partition("://")[2]]
    groups = content.get("parallelism")
    for name, size in groups.items() if isinstance(groups, Mapping) else ():
        if name != "tensor":
            message = "found {!r:.80}; splitting over nodes is not supported yet, only 'tensor' is"
            raise UnsupportedError(f"parallelism.{name}", message, size)
        found += ["--tensor-parallel-size", str(size)]
    more = dict(_pair(each) for each in main.get("env") or ()).get("VLLM_ADDITIONAL_ARGS")
    return f"{_joined(found, 2)} {more or ''}".strip()


_NO_GPU = re.compile(r"cpu\b|.*tpu")
"""kubeai's profiles of nodes without GPUs (charts/kubeai/values.yaml)."""
_OPERATED: Mapping[str, tuple[str, ...]] = {"vllm": ("vllm", "serve", "--model"), "ollama": ("ollama", "run")}
"""What kubeai starts for each of its engines, in front of the model."""
_FIELDS: Mapping[str, str] = {
    "maxModelLen": "--max-model-len", "dtype": "--dtype", "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs", "gpuMemoryUtilization": "--gpu-memory-utilization", "maxLoras": "--max-loras",
    "runner": "--runner", "convert": "--convert",
}  # fmt: skip
_SWITCHES: Mapping[str, str] = {
    "enableChunkedPrefill": "enable-chunked-prefill", "enablePrefixCaching": "enable-prefix-caching",
}  # fmt: skip
"""Fields of `vllmConfig` and the flags that the chart makes of them."""


def _of_operator(model: Mapping[Any, Any], given: object) -> Mapping[Any, Any]:
    """Return the fields of a `VLLMRuntime` as a chart has them: some of vLLM's stand next to the model's address.

    Those of vLLM had no section of their own at first.

    Source: vllm production-stack, operator/internal/controller/vllmruntime_controller.go.
    """
    config = given if isinstance(given, Mapping) else {}
    own = {name: model[name] for name in _FIELDS if model.get(name)}
    set_ones = {
        name: value
        for name, value in config.items()
        if name in _SWITCHES or (name in (*_FIELDS, "extraArgs") and value)
    }
    return {**model, "vllmConfig": {**dict.fromkeys(_SWITCHES, False), **own, **set_ones}}


def _of_chart(content: Mapping[Any, Any]) -> str:
    given = content.get("vllmConfig")
    config: Mapping[Any, Any] = given if isinstance(given, Mapping) else {}
    found = ["vllm", "serve", str(content["modelURL"])]
    found += ["--enable-lora"] if content.get("enableLoRA") else []
    for name, value in config.items():
        if name in _FIELDS:
            found += [_FIELDS[name], str(value)]
        elif name in _SWITCHES:
            found.append(f"--{'' if value else 'no-'}{_SWITCHES[name]}")
        elif name not in ("extraArgs", "v0", "v1"):
            found += [f"--{name}", str(value)]  # the chart has no such field, which the reader says
    return _joined([*found, *(str(each) for each in config.get("extraArgs") or ())], 2)


def _joined(words: Sequence[str], bare: int) -> str:
    """Return a command whose first words are bare."""
    return " ".join([*words[:bare], *(_quoted(word) for word in words[bare:])])


def _is_command(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)
    )


def _of(release: str) -> str:
    """Return what stands in front of a command of a server's release."""
    return f"{RELEASE}={release} " if release else ""


def _run(content: Mapping[Any, Any], own: list[Any], card: str) -> str:
    """Return one container's command: a script is taken as it is, words are quoted."""
    mounts = [_mount(each) for each in content.get("volumes") or ()]
    words = [_on_host(word, mounts) for each in own for word in _words(each)]
    exported = f"export {_on(card)}\n" if card else ""
    if content.get("commands") or content.get("run"):
        return exported + "\n".join(words)
    entry = _words(content.get("entrypoint") or "")
    release = release_of(str(content.get("image", "")))
    told = exported + (f"export {_of(release)}\n" if release else "")
    script = next((word for word in entry if "\n" in word.strip()), None)
    if script is not None:
        rest = " ".join(_quoted(word) for word in words)
        for each in _REST:
            script = script.replace(each, rest)
        return told + script.replace("$$", "$")
    least = 0 if _shell(entry) else 1
    script = next((word for word in words if "\n" in word.strip() or word.count(" --") > least), None)
    if script is not None:
        return told + script
    named = _PROGRAM.search(" ".join(entry))
    own_program = "" if entry[-1:] and entry[-1].endswith(".sh") else " ".join(entry)
    usual = program_of(str(content.get("image", "")))
    program = _from(entry, named) if named else own_program or usual or _UNKNOWN
    on_a_model = named is not None or usual == _ON_A_MODEL
    behind = not words or words[0].startswith("-") or (on_a_model and not _runs(words))
    start = f"{program} " if behind else ""
    return _on(card) + _of(release) + start + " ".join(_said(word, own) for word in words)


def _from(entry: Sequence[str], named: re.Match[str]) -> str:
    """Return an entry point from its program on, with the words after it."""
    own = named[0].split()
    return _joined([*own, *entry[named.string.count(" ", 0, named.start()) + len(own) :]], len(own))


_ON_A_MODEL = "vllm serve"
"""An image's program whose first word may be its model."""
_RUNS = re.compile(r"(?:.*/)?(?:python[\d.]*|uv|env|vllm)$")


def _runs(words: Sequence[str]) -> bool:
    """Return whether words begin with a program, and not with what one is run on."""
    return _PROGRAM.search(" ".join(words)) is not None or _shell(words) or _RUNS.match(words[0]) is not None


_UNKNOWN = "container"
"""What stands for the program of an image that nobody knows, whose flags are not those of another container."""


def _words(value: object) -> list[str]:
    """Return the words of a command, which is a list of them, a text, or a script."""
    listed = value if isinstance(value, list) else _split(str(value)) if "\n" not in str(value) else [value]
    return [str(word).replace("$$", "$") for word in listed]


_DRIVE = re.compile(r"\b[A-Za-z]:\\")


def _split(text: str) -> list[str]:
    r"""Return a text's words as compose and llama-swap split it, without quotes around them.

    >>> _split('bash -c "a --b 1" C:x')
    ['bash', '-c', 'a --b 1', 'C:x']
    """
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    lexer.escape = "" if _DRIVE.search(text) else lexer.escape
    try:
        return list(lexer)
    except ValueError:  # a quotation that does not end
        return text.split()


def _quoted(word: str) -> str:
    """Return a word for the shell, in which variables count."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{escaped}"'


def _said(word: str, own: Sequence[Any]) -> str:
    """Return a word of a command; a variable alone in a text, not in a list, may be several words, or none."""
    alone = _VARIABLE.fullmatch(word) is not None and all(isinstance(each, str) for each in own)
    return word if alone else _quoted(word)


_VARIABLE = re.compile(r"\$\{\w+(?::?-[^${}]*)?\}|\$\w+")
"""A variable, perhaps with what it is without an environment."""


def _variables(content: Mapping[Any, Any]) -> Iterator[str]:
    """Assignments of a container's environment, and of what SkyPilot and dstack tell the first of its nodes."""
    for name in ("env", "environment", "envs"):
        given = content.get(name)
        pairs = given.items() if isinstance(given, Mapping) else [_pair(each) for each in given or ()]
        for key, value in pairs:
            if not re.fullmatch(r"\w+", str(key)) or not isinstance(value, str | int):
                continue
            text = str(value).replace("$$", "$")
            if "$" not in text or _FILLED.fullmatch(text):
                yield f'export {key}="{text}"\n'
    gpus = _gpus(content.get("resources"))
    if gpus:
        yield f"DSTACK_GPUS_NUM={gpus}\nSKYPILOT_NUM_GPUS_PER_NODE={gpus}\n"
        nodes = content.get("num_nodes", content.get("nodes", 1))
        yield f"SKYPILOT_NUM_NODES={nodes}\nDSTACK_NODES_NUM={nodes}\nSKYPILOT_NODE_RANK=0\nDSTACK_NODE_RANK=0\n"


_COUNTED = re.compile(r"(?:[^:]*:)*(\d{1,4})")


def _gpus(resources: object) -> int:
    """GPUs of a node: `accelerators: H100:8` (SkyPilot), `gpu: 80GB:8` (dstack); 0 where they are not counted."""
    if not isinstance(resources, Mapping):
        return 0
    wanted = resources.get("accelerators", resources.get("gpu"))
    if isinstance(wanted, Mapping):
        words = [str(name if count is None else count) for name, count in wanted.items()]  # `{L4:1, A10G:1}`
        counts = [int(found[1]) for each in words if (found := _COUNTED.fullmatch(each))]
        return counts[0] if len(set(counts)) == 1 else 0
    found = _COUNTED.fullmatch(str(wanted)) if isinstance(wanted, str) else None
    return int(found[1]) if found and ":" in str(wanted) else 1 if isinstance(wanted, str) else 0


def _pair(each: object) -> tuple[str, object]:
    if isinstance(each, Mapping):
        return str(each.get("name", "")), each.get("value")
    name, _, value = str(each).partition("=")
    return name, value


_SIZED = re.compile(r"(?<![a-z\d])\d{1,4}(?:\.\d{1,2})?b(?![a-z\d])", re.IGNORECASE)
"""A model's size in its name."""


def _mount(volume: object) -> tuple[str, str]:
    """Return the folder on the host and in the container of a mount such as `/data/Qwen3-8B:/model:ro`."""
    if isinstance(volume, Mapping):
        return str(volume.get("source", "")), str(volume.get("target", ""))
    outside, _, rest = str(volume).partition(":")
    return outside, rest.partition(":")[0]


def _on_host(word: str, mounts: Sequence[tuple[str, str]]) -> str:
    """Return a word with the host's name of a mounted folder, if only that name says which model it is.

    >>> _on_host("serve /models/a --b", [("/data/Qwen3-8B", "/models/a")])
    'serve /models/Qwen3-8B --b'
    """
    for outside, inside in mounts:
        name, (parent, slash, own) = outside.rstrip("/").rpartition("/")[2], inside.rstrip("/").rpartition("/")
        if slash and "$" not in name and _SIZED.search(name) and not _SIZED.search(own):
            path = rf"(?<![\w./-]){re.escape(inside.rstrip('/'))}/?(?![\w./-])"
            word = re.sub(path, f"{parent}/{name}".replace("\\", r"\\"), word)
    return word


_ALONE = frozenset({
    "--rm", "-d", "--detach", "-i", "-t", "-it", "-ti", "-dit", "-itd", "--interactive", "--tty", "--privileged",
    "--init", "--read-only", "-P", "--publish-all", "--no-healthcheck", "--oom-kill-disable", "-q", "--quiet", "-id",
})  # fmt: skip
"""Options of `docker run` without a value."""


def contained(command: Sequence[str]) -> tuple[list[str], Mapping[str, str]] | None:
    """Return what `docker run` runs, and the environment that it is given; None for another command.

    >>> contained("docker run --rm -e A=1 -p 1:2 vllm/vllm-openai:v0.9 --model m".split())
    (['vllm', 'serve', '--model', 'm', '*env.SERVER_RELEASE=v0.9'], {'A': '1'})
    """
    words = list(command)
    at = next((number for number, word in enumerate(words[:3]) if word in ("docker", "podman", "nerdctl")), None)
    if at is None or words[at + 1 : at + 2] not in (["run"], ["create"]):
        return None
    at += 2
    environment: dict[str, str] = {}
    entry: list[str] = []
    mounts: list[tuple[str, str]] = []
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        at += 1
        if name in _ALONE:
            continue
        if not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if name in ("-e", "--env"):
            key, _, said = value.partition("=")
            environment[key] = said
        elif name == "--entrypoint":
            entry = value.split()
        elif name in ("-v", "--volume"):
            mounts.append(_mount(value))
    image, rest = (words[at], [_on_host(each, mounts) for each in words[at + 1 :]]) if at < len(words) else ("", [])
    release = release_of(image)
    told = [f"{ENVIRONMENT}{RELEASE}={release}"] if release else []
    rest = [*rest[:-1], *told, END] if rest[-1:] == [END] else [*rest, *told]
    if entry:
        return [*entry, *rest], environment
    started = [each for each in rest if each != ";"]
    program = program_of(image).split() if not _PROGRAM.search(" ".join(started)) and not _shell(started) else []
    return [*program, *rest], environment


def _shell(command: Sequence[str]) -> bool:
    return bool(command) and _SHELLS.match(command[0]) is not None


_WRAPS = "--wrap"
"""The option of `sbatch` whose value is a script."""


def within(command: Sequence[str]) -> str | None:
    """Return the script that a command hands to a shell, `bash -c '…'`, or to a queue; None for another command.

    >>> within(["sbatch", "--nodes=2", "--wrap=srun run.sh", ";"])
    'srun run.sh'
    """
    for at, word in enumerate(command[:-1]):
        if word == _WRAPS or word.startswith(f"{_WRAPS}="):
            return word.partition("=")[2] or command[at + 1]
    for at, word in enumerate(command[:-2]):
        if _SHELLS.match(word) and command[at + 1] in ("-c", "-lc", "-ec", "-xc"):
            return command[at + 2]
    return None
