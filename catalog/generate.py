"""Write `memcore/data/catalog.json`, the models that are known by name.

    python catalog/generate.py            write it
    python catalog/generate.py --check    fail if it is out of date

It joins the checkpoints of the tests (`tests/truth/checkpoints.json`) and those of `catalog/further.json`; of a
checkpoint in both, the tests have the last word. Configurations that leave out the longest sequence get it from
`further.json`. The base of rotations and the epsilon of norms, which change no size, are those of the file as it was
published (`tests/truth/published.json`), or of the file that `ALIKE` names. Licences come from rules on ids in
`licences.json`, which names the source of each; the licences of other checkpoints are not known. The dtype is that of
the published file.
Names with a remark, like `google/gemma-4-31B (text stack)`, belong to the tests only.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRUTH = ROOT / "tests/truth/checkpoints.json"
FURTHER = ROOT / "catalog/further.json"
PUBLISHED = ROOT / "tests/truth/published.json"
FILES = (
    PUBLISHED,
    *(
        ROOT / f"tests/truth/{name}_published.json"
        for name in ("modelsa", "modelb", "models1", "models1_second", "models2")
    ),
)
LICENCES = ROOT / "catalog/licences.json"
CATALOG = ROOT / "memcore/data/catalog.json"

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
"""Names of the longest sequence, one of them for each family."""

NUMBERS = ("rope_theta", "rotary_emb_base", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps")
"""Names of the numbers that change no size."""
ALIKE = (
    (r"(meta-llama|NousResearch|nvidia)/.*Llama-(Guard-)?3(\.\d)?-\d+B.*", "meta-llama/Meta-Llama-3.1-8B"),
    (r"Qwen/Qwen1\.5-(0\.5|1\.8|7)B(-Chat)?", "Qwen/Qwen1.5-7B-Chat"),
    (r"Qwen/Qwen1\.5-MoE-A2\.7B(-Chat)?", "Qwen/Qwen1.5-MoE-A2.7B-Chat"),
    (r"Qwen/Qwen2-(1\.5|7|72)B(-Instruct)?", "Qwen/Qwen2-72B-Instruct"),
    (r"Qwen/Qwen2\.5-(Coder-)?(0\.5|1\.5|3|7)B(-Instruct)?", "Qwen/Qwen2.5-7B"),
    (r"Qwen/Qwen3-[\d.]+B(-Base)?", "Qwen/Qwen3-8B"),
    (r"allenai/OLMo-2-.*", "allenai/OLMo-2-1124-7B-Instruct"),
    (r"deepseek-ai/DeepSeek-(V3|R1)(-Zero|-0324|-0528)?", "deepseek-ai/DeepSeek-V3"),
    (r"mistralai/Mistral-7B(-Instruct)?-v0\.3", "mistralai/Mistral-7B-Instruct-v0.3"),
    (r"mistralai/Mixtral-8x\d+B(-Instruct)?-v0\.1", "mistralai/Mixtral-8x7B-v0.1"),
    (r"zai-org/GLM-4\.[567]", "zai-org/GLM-4.5"),
)
"""Patterns of checkpoints that differ from a published one only in size; published files that match must agree."""


def main(arguments: list[str]) -> int:
    """Write or check the catalog."""
    text = catalog()
    if "--check" not in arguments:
        CATALOG.write_text(text, encoding="utf-8")
    elif not CATALOG.exists() or CATALOG.read_text(encoding="utf-8") != text:
        sys.stderr.write("memcore/data/catalog.json is out of date: run catalog/generate.py\n")
        return 1
    return 0


def catalog() -> str:
    """The file, one checkpoint a line, sorted by name whatever the case."""
    further = json.loads(FURTHER.read_text(encoding="utf-8"))
    checkpoints: dict[str, Any] = further["checkpoints"]
    truth: dict[str, Any] = json.loads(TRUTH.read_text(encoding="utf-8"))
    entries = {hub_id: entry(found, {}) for hub_id, found in checkpoints.items()}
    for hub_id, found in truth.items():
        if " " not in hub_id:
            config = checkpoints.get(hub_id, {"config": {}})["config"]
            entries[hub_id] = entry(found, further["maximum_lengths"].get(hub_id) or length(section(config)))
    published: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    files = {**{name.partition(" (")[0]: file for name, file in published.items()}, **published}
    for pattern, name in ALIKE:
        for hub_id in filter(re.compile(pattern).fullmatch, files):
            if numbers(files[hub_id]["config"]) != numbers(files[name]["config"]):
                raise SystemExit(f"the numbers of {hub_id} are not those of {name}")
    for hub_id, found in entries.items():
        like = next((name for pattern, name in ALIKE if re.fullmatch(pattern, hub_id)), None)
        source = files.get(hub_id) or files.get(like or "")
        if source is not None:
            config, own = found["config"], section(found["config"])
            text = {**own, **{key: value for key, value in numbers(source["config"]).items() if key not in own}}
            entries[hub_id] = {**found, "config": {**config, "text_config": text} if own is not config else text}
    known = dtypes()
    entries = {name: {**found, "dtype": known[name]} if name in known else found for name, found in entries.items()}
    rules = json.loads(LICENCES.read_text(encoding="utf-8"))["licences"]
    for hub_id, found in entries.items():
        licence = next((name for pattern, name, _ in rules if re.fullmatch(pattern, hub_id)), None)
        entries[hub_id] = {**found, "licence": licence} if licence else found
    lines = (
        f"{json.dumps(hub_id)}: {json.dumps(entries[hub_id], separators=(',', ':'))}"
        for hub_id in sorted(entries, key=lambda name: (name.lower(), name))
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def entry(checkpoint: dict[str, Any], longest: dict[str, int]) -> dict[str, Any]:
    """Return what the catalog keeps of a checkpoint; `longest` is added if its configuration says nothing about it."""
    config = {key: value for key, value in checkpoint["config"].items() if key != "architectures" or unusual(value)}
    text = section(config)
    if not length(text):
        text = {**text, **longest}
    config = {**config, "text_config": text} if "text_config" in config else text
    return {"config": config, "parameters": checkpoint["parameters"]}


def dtypes() -> dict[str, str]:
    """Return the dtype that a published file says its weights are in, by hub id."""
    files = [json.loads(file.read_text(encoding="utf-8")) for file in FILES]
    found = {}
    for name, row in ((name, row) for file in files for name, row in file.items()):
        said = (part.get(key) for part in (row["config"], section(row["config"])) for key in ("dtype", "torch_dtype"))
        if dtype := next(filter(None, said), None):
            found[name.partition(" (")[0]] = dtype.removeprefix("torch.")
    return found


def numbers(config: dict[str, Any]) -> dict[str, float]:
    """Return the base of rotations and the epsilon of norms under the names that they have in a file."""
    text = section(config)
    ropes = [each for key in ("rope_parameters", "rope_scaling") if isinstance(each := text.get(key), dict)]
    found = {**(ropes[0] if ropes else {}), **text}
    return {key: found[key] for key in NUMBERS if isinstance(found.get(key), (int, float))}


def unusual(architectures: list[str]) -> bool:
    """Whether a class is another than its type's checkpoints mostly have."""
    return any(not name.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) for name in architectures)


def section(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that describes the language model."""
    found: dict[str, Any] = config.get("text_config", config)
    return found


def length(config: dict[str, Any]) -> dict[str, int]:
    """The longest sequence, under the name that it has there."""
    return {key: config[key] for key in LENGTHS if key in config}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
