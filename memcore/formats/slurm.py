"""What a batch script asks Slurm for, as the variables that its commands find, and the processes that `srun` starts.

Source: Slurm 25.05, doc/man/man1/sbatch.1 (options; output environment variables) and srun.1 (`--ntasks-per-node`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_ASKED = re.compile(r"^#SBATCH[ \t]+(--?[a-zA-Z][a-z-]{0,30})(?:=|[ \t]+|(?=\d))([\w:,-]{1,60})", re.MULTILINE)
_NAMES: Mapping[str, str] = {
    "-N": "--nodes", "-n": "--ntasks", "-G": "--gpus", "--tasks-per-node": "--ntasks-per-node",
}  # fmt: skip
_COUNT = re.compile(r"(?:gpu:)?(?:[\w.-]+:)?(\d{1,5})")
"""A count behind what is counted: `4`, `gpu:4`, `gpu:h100:4`."""
_LAUNCHERS = re.compile(r"torchrun|torch\.distributed|accelerate|deepspeed|nproc|num_processes|\blitgpt\b|\bray\b")
"""What starts the processes of a node itself."""


def variables(text: str) -> dict[str, str]:
    r"""Return the variables that Slurm sets for a batch script; empty without `#SBATCH` lines.

    >>> variables("#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:4\n")["SLURM_GPUS_ON_NODE"]
    '4'
    """
    asked = {_NAMES.get(name, name): found[1] for name, value in _ASKED.findall(text) if (found := _COUNT.match(value))}
    if not asked:
        return {}
    nodes = int(asked.get("--nodes", "1"))
    each = asked.get("--gpus-per-node", asked.get("--gres"))
    if each is None and "--gpus" in asked and nodes and not int(asked["--gpus"]) % nodes:
        each = str(int(asked["--gpus"]) // nodes)
    tasks = asked.get("--ntasks-per-node")
    every = asked.get("--ntasks") if tasks is None else str(nodes * int(tasks))
    given: Mapping[str, str | None] = {
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(nodes)),
        **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), each),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), every),
        "SLURM_NTASKS_PER_NODE": tasks,
    }
    return {name: value for name, value in given.items() if value is not None}


_EVERY = re.compile(r"(?<!\S)(?:[\w./-]*/)?deepspeed (?=--|\S+\.py)")
_COUNTED = re.compile(r"--(?:num_gpus|num_nodes|include|exclude|hostfile)\b")


def processes(asked: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Return launcher flags for processes of which only Slurm knows the number.

    Those that `srun` starts for a script of Python, and those of deepspeed. `asked`: as `variables` gives it.
    """
    tasks = asked.get("SLURM_NTASKS_PER_NODE", "1")
    spoken = " ".join(words)
    each = asked.get("SLURM_GPUS_ON_NODE")
    if each and _EVERY.search(spoken) and not _COUNTED.search(spoken):
        return ["--num_gpus", each]  # all that it sees on this node (deepspeed, launcher/runner.py)
    if tasks == "1" or "srun" not in words or ".py" not in spoken or _LAUNCHERS.search(spoken):
        return []
    return ["--nnodes", asked["SLURM_NNODES"], "--nproc_per_node", tasks]


_STARTED = re.compile(
    r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|(?:ba)?sh|vllm|sglang|uv|env|numactl|nsys|swift|megatron|tune"
    r"|apptainer|singularity|enroot|trtllm-\w+|[\w.-]+\.(?:sh|py))$"
)
"""Programs that `srun` starts, behind its own options."""
_COUNTS: Mapping[str, str] = {"-N": "--nodes", "-n": "--ntasks", "--tasks-per-node": "--ntasks-per-node"}


def started_by(command: Sequence[str]) -> list[str]:
    """Return what `srun` starts, with the processes that it starts of a script of Python; another command as it is.

    >>> started_by("srun -p gpu --nodes=2 --ntasks-per-node=8 python -u train.py --lr 1".split())
    ['--nnodes', '2', '--nproc_per_node', '8', 'python', '-u', 'train.py', '--lr', '1']
    """
    words = [*command]
    if "srun" not in words[:2]:
        return words
    at = words.index("srun")
    start = next((number for number in range(at + 1, len(words)) if _STARTED.match(words[number])), None)
    if start is None:
        return words
    own, program = words[at + 1 : start], words[start:]
    asked: dict[str, str] = {}
    for word, follows in zip(own, [*own[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        asked[_COUNTS.get(name, name)] = value if equals else follows
    nodes, each = asked.get("--nodes", "1"), asked.get("--ntasks-per-node", "")
    every = asked.get("--ntasks", "")
    if not each and every.isdecimal() and nodes.isdecimal() and int(nodes) and not int(every) % int(nodes):
        each = str(int(every) // int(nodes))
    script = next((number for number, word in enumerate(program) if word.endswith(".py")), None)
    counted = each not in ("", "1") and script is not None and not _LAUNCHERS.search(" ".join(program[:script]))
    return [*words[:at], *(["--nnodes", nodes, "--nproc_per_node", each] if counted else []), *program]
