"""Texts with the commands of several jobs: the reader names them and asks which; pages of Markdown; placeholders."""

import pytest

from memcore.errors import ConfigError, MemcoreError
from memcore.tools import imported
from memcore.tools.sources import Source, read_sources

RECIPE = """# GLM-4.7

Install with `uv pip install -U vllm`.

```bash
uv pip install -U vllm --torch-backend auto
docker pull vllm/vllm-openai-rocm:v0.15.1
```

```bash
vllm serve zai-org/GLM-4.7-FP8 \\
     --tensor-parallel-size 4 \\
     --tool-call-parser glm47
```

```python
from openai import OpenAI
client = OpenAI(base_url="http://localhost:8000/v1")
llm = LLM(model="zai-org/GLM-4.7")
```

## In 16 bits

``` shell
$ vllm serve zai-org/GLM-4.7 --tensor-parallel-size 8 --max-model-len <MAX_LENGTH>
```

```bash
vllm bench serve --model zai-org/GLM-4.7 --random-input-len 8000
```
"""
TWICE = """torchrun a.py --num-layers 4 --hidden-size 64 --num-attention-heads 4
torchrun a.py --num-layers 8 --hidden-size 64 --num-attention-heads 4
"""
SAME = "sglang serve --model-path a/b --tp 4 --port 1\n```\n"


def test_the_jobs_are_named_and_asked_for():
    with pytest.raises(ConfigError, match="It has 2 commands for 2 jobs") as raised:
        imported(RECIPE)
    assert "1: zai-org/GLM-4.7-FP8 / 2: zai-org/GLM-4.7" in str(raised.value)
    assert "as in FILE#2" in str(raised.value)


@pytest.mark.parametrize(("job", "model", "ranks"), [(1, "zai-org/GLM-4.7-FP8", 4), (2, "zai-org/GLM-4.7", 8)])
def test_one_is_chosen_by_its_number(job, model, ranks):
    read = imported(RECIPE, job=job).config
    assert read["model"] == model
    assert read["parallelism"] == {"tensor_parallel_size": ranks}


def test_a_number_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="found #3; it has 2 commands"):
        imported(RECIPE, job=3)


def test_a_placeholder_is_asked_for_by_its_name():
    with pytest.raises(ConfigError, match=r"\$MAX_LENGTH, which the script does not set"):
        read_sources([Source("GLM.md", RECIPE, 2)])
    config, _ = read_sources([Source("GLM.md", RECIPE, 2)], given=["inference.max_model_len"])
    assert "inference" not in config


def test_commands_of_one_job_are_one():
    read = imported(f"# A\n```\n{SAME}\n# B\n```bash\n{SAME.replace('--port 1', '--port 2')}")
    assert read.config["parallelism"] == {"tensor_parallel_size": 4}
    assert "2 commands describe the same job" in read.notes


def test_two_runs_of_a_training_script_are_two_jobs():
    with pytest.raises(ConfigError, match="It has 2 commands for 2 jobs"):
        imported(TWICE)
    assert imported(TWICE, job=2).config["model"]["num_layers"] == 8


@pytest.mark.parametrize(
    "text", ["```\nls\n```\n", "# Text\n\n```python\nimport os\n```\n", "```bash\nvllm serve 'a\n```"]
)
def test_pages_without_a_command_are_refused(text):
    with pytest.raises(MemcoreError):
        imported(text)


def test_the_command_line_takes_the_number(tmp_path, capsys):
    from memcore.faces.cli import main

    file = tmp_path / "GLM.md"
    file.write_text(RECIPE, encoding="utf-8")
    assert main(["estimate", f"{file}#1", "--accelerator", "h200-sxm-141gb"]) == 0
    assert "GLM-4.7" in capsys.readouterr().out
