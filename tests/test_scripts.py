"""Python scripts and notebooks: what their calls say of a job; none of them is run."""

import json

import pytest
from conftest import truth

from memcore.config.settings import SETTINGS
from memcore.errors import MemcoreError
from memcore.formats.notebooks import code_of
from memcore.formats.python import calls
from memcore.formats.readers import flat
from memcore.tools import imported
from memcore.tools.sources import Source, read_sources

P, POLICY, BITS = "training.precision", "training.activation_checkpointing.policy", "training.quantization"
OFFLOADED, TYPE, RANK = "training.offload.activations", "training.adapter.type", "training.adapter.rank"
AUTOCAST = "engine.autocast"
SERVES, WEIGHTS, CONTEXT = "engine.type", "inference.quantization", "inference.max_model_len"
TARGETS, LENGTH = "training.adapter.target_modules", "training.sequence_length"
UNSLOTH = """from unsloth import FastLanguageModel
import torch
max_seq_length = 2048 # Choose any! We auto support RoPE Scaling internally!
dtype = None # None for auto detection. Float16 for Tesla T4, V100, Bfloat16 for Ampere+
load_in_4bit = True # Use 4bit quantization to reduce memory usage. Can be False.
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name = "unsloth/Meta-Llama-3.1-8B-bnb-4bit",
    max_seq_length = max_seq_length,
    dtype = dtype,
    load_in_4bit = load_in_4bit,
)
"""
ADAPTED = """model = FastLanguageModel.get_peft_model(
    model,
    r = 16, # Choose any number > 0 ! Suggested 8, 16, 32, 64, 128
    target_modules = ["q_proj", "k_proj", "v_proj", "o_proj",
                      "gate_proj", "up_proj", "down_proj",],
    lora_alpha = 16,
    lora_dropout = 0, # Supports any, but = 0 is optimized
    bias = "none",    # Supports any, but = "none" is optimized
    use_gradient_checkpointing = "unsloth", # True or "unsloth" for very long context
    random_state = 3407,
    use_rslora = False,
    loftq_config = None,
)
"""
TRAINED = """trainer = SFTTrainer(model = model, tokenizer = tokenizer, args = SFTConfig(
    per_device_train_batch_size = 2, gradient_accumulation_steps = 4, warmup_steps = 5, max_steps = 60,
    learning_rate = 2e-4, optim = "adamw_8bit", weight_decay = 0.01, seed = 3407, report_to = "none"))
"""
ASKED = """from transformers import Trainer
USE_LORA = False
USE_QLORA = False
if USE_LORA or USE_QLORA:
    peft_config = LoraConfig(r=8, use_dora=True)
    model = get_peft_model(model, peft_config)
else:
    model = AutoModelForImageTextToText.from_pretrained("gpt2", _attn_implementation="flash_attention_2")
    for param in model.vision_model.parameters():
        param.requires_grad = False
Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=2, optim="adamw_hf", bf16=True)).train()
model = AutoModelForImageTextToText.from_pretrained("gpt2-medium", dtype="float32", quantization_config=BitsAndBytesConfig(load_in_8bit=True))
"""
"""huggingface/smollm, vision/finetuning/SmolVLM2_Video_FT.ipynb; trl, examples/notebooks/openenv_sudoku_grpo.ipynb."""
AGAIN = """if False:
    model, tokenizer = FastLanguageModel.from_pretrained(model_name = "lora_model", load_in_4bit = False)
"""
QLORA = """import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments
from trl import SFTTrainer
BATCH = 2
bnb_config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf", quantization_config=bnb_config, device_map="auto")
peft_config = LoraConfig(lora_alpha=16, lora_dropout=0.1, r=64, bias="none", task_type="CAUSAL_LM", target_modules=["q_proj"])
args = TrainingArguments(output_dir="x", per_device_train_batch_size=BATCH * 2, bf16=True, gradient_checkpointing=True)
trainer = SFTTrainer(model=model, peft_config=peft_config, max_seq_length=512, args=args)
"""
FULL = """from trl import SFTConfig, SFTTrainer
SFTTrainer(model="Qwen/Qwen3-0.6B", args=SFTConfig(max_length=4096, packing=True), train_dataset=dataset).train()
"""
ADAPTS = "from trl import SFTConfig, SFTTrainer\nLOADED\nSFTTrainer(m, args=SFTConfig()).train()\n"
SERVED = """from vllm import LLM, SamplingParams
llm = LLM(model="Qwen/Qwen3-8B", tensor_parallel_size=2, max_model_len=8 * 1024, enforce_eager=False,
          gpu_memory_utilization=0.85, kv_cache_dtype="fp8", enable_prefix_caching=False, seed=1)
"""
READ = {
    UNSLOTH + ADAPTED + TRAINED + AGAIN: {
        "model": "unsloth/Meta-Llama-3.1-8B", BITS: "nf4-double", P: "bf16", POLICY: "full", OFFLOADED: "cpu",
        RANK: 16, TARGETS: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], LENGTH: 2048,
        "training.implementation": "unsloth", "training.micro_batch_size": 2, "training.optimizer.name": "adamw-8bit"},
    UNSLOTH.replace("= True", "= False") + ADAPTED + TRAINED: {"model": "unsloth/Meta-Llama-3.1-8B", BITS: None, P: "bf16"},
    UNSLOTH.replace("    dtype", "    full_finetuning = True,\n    dtype") + TRAINED: {BITS: None, TYPE: None, OFFLOADED: "cpu"},
    UNSLOTH.replace("    dtype", '    full_finetuning = True, attn_implementation = "eager",\n    dtype') + ADAPTED + TRAINED: {
        BITS: None, TYPE: None, OFFLOADED: "cpu", "training.attention": "math"},  # molab/Paddle_OCR_(1B)_Vision.py
    UNSLOTH + ADAPTED.replace('"unsloth"', "True") + TRAINED: {POLICY: "full", OFFLOADED: None},
    UNSLOTH + ADAPTED.replace('"unsloth"', "False") + TRAINED: {POLICY: "none", OFFLOADED: None},
    QLORA: {"model": "meta-llama/Llama-2-7b-hf", BITS: "nf4-double", RANK: 64, TARGETS: ["q_proj"], LENGTH: 512,
            "training.micro_batch_size": 4, POLICY: "full", TYPE: "lora", P: "bf16", AUTOCAST: True},
    QLORA.replace(' bnb_4bit_quant_type="nf4",', "").replace(", gradient_checkpointing=True", ""): {
        BITS: "fp4-double", POLICY: "none"},
    QLORA.replace("bf16=True", "bf16=torch.cuda.is_bf16_supported()"): {P: "bf16", AUTOCAST: True},
    QLORA.replace("device_map=", 'torch_dtype=getattr(torch, "float" + "16"), device_map=').replace("bf16=True, ", ""): {
        P: "fp16", TYPE: "lora"},  # peft, examples/olora_finetuning/olora_finetuning.py
    ASKED: {"model": "gpt2", TYPE: None, BITS: None, "training.attention": "flash", "training.optimizer.name": "adamw",
            "training.optimizer.implementation": "transformers"},
    FULL: {"model": "Qwen/Qwen3-0.6B", LENGTH: 4096, POLICY: "full", TYPE: None, P: "bf16-autocast",
           "training.packed_sequences": True},
    FULL.replace(", args=SFTConfig(max_length=4096, packing=True)", ""): {
        LENGTH: 1024, POLICY: "full", P: "bf16-autocast", "training.micro_batch_size": 8},
    # transformers_doc/en/pytorch/language_modeling.ipynb
    "from transformers import Trainer\nn = 128\ndef group(x):\n    return {k: [t[i : i + n] for i in range(0, 9, n)] for k, t in x}\n"
    "m = AutoModelForCausalLM.from_pretrained('gpt2')\nnotebook_launcher(lambda: Trainer(m, TrainingArguments('o', bf16=True)).train(), num_processes=2)\n": {
        LENGTH: 128, "hardware.num_gpus": 2, "engine.type": "ddp"},
    "from tensorrt_llm import LLM\nllm = LLM('gpt2', kv_cache_config=KvCacheConfig(free_gpu_memory_fraction=0.5), max_batch_size=4)": {
        SERVES: "tensorrt-llm", "engine.free_gpu_memory_fraction": 0.5, "inference.max_num_seqs": 4},
    FULL.replace("SFTTrainer(", "m = tokenizer(t, truncation=True, max_length=512)\nSFTTrainer("): {LENGTH: 512},
    "from transformers import GPT2Config, GPT2LMHeadModel, Trainer\nconfig = GPT2Config(n_layer=6, vocab_size=len(t))\n"
    "config.n_embd = 512\nTrainer(model=GPT2LMHeadModel(config=config)).train()\n": {
        "model.model_type": "gpt2", "model.n_layer": 6, "model.n_embd": 512, "model.vocab_size": None},
    ADAPTS.replace("LOADED", "m = AutoModelForCausalLM.from_pretrained('gpt2', n_layer=8)\ndel m.transformer.h[6:]"): {
        "model.n_layer": 6, "model.n_embd": 768},
    "from transformers import pipeline, GenerationConfig\npipe = pipeline('text-generation', 'gpt2')\n"
    "pipe(x, generation_config=GenerationConfig(max_new_tokens=9, num_beams=4))": {
        "inference.output_length": 9, "inference.batch_size": 4},
    "from transformers import AutoModelForCausalLM\nindex.fit(x)\nm = AutoModelForCausalLM.from_pretrained('gpt2', "
    "quantization_config=TorchAoConfig(Int8WeightOnlyConfig()))\nm.generation_config.max_new_tokens = 7\n"
    "m.generate(**tokenizer(['a', 'b'], return_tensors='pt', truncation=True, max_length=5))": {
        WEIGHTS: "int8", "inference.output_length": 7, "inference.prompt_length": 5, "inference.batch_size": 2},
    SERVED: {"model": "Qwen/Qwen3-8B", "parallelism.tensor_parallel_size": 2, "inference.max_model_len": 8192,
             "engine.enforce_eager": False, "engine.enable_prefix_caching": False, "inference.kv_cache_dtype": "fp8",
             "engine.gpu_memory_utilization": 0.85, "engine.type": "vllm"},
    "from llama_cpp import Llama\nllm = Llama.from_pretrained('unsloth/Qwen3-8B-GGUF', '*q4_k_m.gguf', type_k=8)\n": {
        "model": "unsloth/Qwen3-8B-GGUF", SERVES: "llama.cpp", WEIGHTS: "q4_k_m", CONTEXT: 512, "inference.batch_size": 1,
        "engine.n_gpu_layers": 0, "engine.n_ubatch": 512, "engine.cache_type_k": "q8_0", "engine.flash_attn": False,
        "engine.swa_full": True},
    "from llama_cpp import Llama\nfrom huggingface_hub import hf_hub_download\npath = hf_hub_download('unsloth/Qwen3-8B-GGUF', "
    "filename='Qwen3-8B-Q8_0.gguf')\nllm = Llama(path, n_ctx=64, n_gpu_layers=-1, offload_kqv=True, flash_attn=True)\n": {
        "model": "unsloth/Qwen3-8B-GGUF", SERVES: "llama.cpp", WEIGHTS: "q8_0", CONTEXT: 64, "engine.n_batch": 64,
        "engine.n_gpu_layers": None, "engine.flash_attn": True},
    "from langchain_community.llms import LlamaCpp\nllm = LlamaCpp(model_path='Qwen3-8B-Q8_0.gguf', n_gpu_layers=9, top_p=1)": {
        "model": "Qwen/Qwen3-8B", SERVES: "llama.cpp", "engine.n_batch": 8, "engine.n_gpu_layers": 9, CONTEXT: 512},
    "from llama_index.llms.llama_cpp import LlamaCPP\nllm = LlamaCPP(model_url='https://a/b/Qwen3-8B-Q8_0.gguf', "
    "model_kwargs={'n_gpu_layers': 1})": {
        "model": "Qwen/Qwen3-8B", SERVES: "llama.cpp", "engine.n_gpu_layers": 1, CONTEXT: 3900},
    "import sglang as sgl\nllm = sgl.Engine(model_path='Qwen/Qwen3-8B', tp_size=2, mem_fraction_static=0.6, skip_tokenizer_init=False)": {
        "model": "Qwen/Qwen3-8B", SERVES: "sglang", "engine.mem_fraction_static": 0.6,
        "parallelism.tensor_parallel_size": 2},
    "from lmdeploy import PytorchEngineConfig, pipeline\nname = 'org/InternVL2-8B'\nlength = 9 if 'vl3' in name.lower() else 4096\n"
    "pipe = pipeline(name, backend_config=PytorchEngineConfig(session_len=length, block_size=64, tp=2))": {
        "model": "org/InternVL2-8B", SERVES: "lmdeploy", CONTEXT: 4096, "inference.block_size": 64,
        "engine.backend": "pytorch", "parallelism.tensor_parallel_size": 2},
    "from transformers import AutoModelForCausalLM, BitsAndBytesConfig\nmodel = AutoModelForCausalLM.from_pretrained('a/b', "
    "quantization_config=BitsAndBytesConfig(load_in_8bit=True))\nmodel.generate(**inputs, max_new_tokens=64, use_cache=False)": {
        "model": "a/b", SERVES: "transformers", WEIGHTS: "int8", "inference.output_length": 64, "inference.use_cache": False},
    "from transformers import pipeline\npipe = pipeline('text-generation', 'a/b', torch_dtype=torch.float16, batch_size=4)\n"
    "pipe(texts, max_new_tokens=8)": {
        "model": "a/b", SERVES: "transformers", "inference.weight_dtype": "fp16", "inference.output_length": 8,
        "inference.batch_size": 4},
    "from transformers import AutoModelForCausalLM, Trainer\nmodel = AutoModelForCausalLM.from_pretrained('a/b')\nN = 7\n"
    "ids = made['input_ids'][:N]\nTrainer(model, TrainingArguments('x')).train()": {"model": "a/b", LENGTH: 7},
    "from langchain_community.llms import VLLM\nllm = VLLM(model='a/b', tensor_parallel_size=2, top_k=5, "
    "vllm_kwargs={'gpu_memory_utilization': 0.5})": {
        "model": "a/b", SERVES: "vllm", "parallelism.tensor_parallel_size": 2, "engine.gpu_memory_utilization": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_calls_say_what_a_job_is(text):
    found = flat(imported(text).config)
    assert {path: found.get(path) for path in READ[text]} == READ[text]


def notebook(*cells):
    """A notebook of cells of code, each in one piece or in lines."""
    sources = [each.splitlines(keepends=True) if at % 2 else each for at, each in enumerate(cells)]
    return json.dumps({"cells": [{"cell_type": "code", "source": each} for each in sources], "nbformat": 4})


def test_a_notebook_is_its_cells():
    cells = ["%%capture\n!pip install unsloth \\\n  trl\nimport os", "%%bash\nls 007", UNSLOTH, ADAPTED, TRAINED]
    assert imported(notebook(*cells)).config == imported(UNSLOTH + ADAPTED + TRAINED).config


REFUSED = {
    UNSLOTH + "trainer = PPOTrainer(model, args=PPOConfig(beta=0.1))\n": "PPOTrainer: found in line",
    QLORA.replace("LoraConfig(", "ShiraConfig("): "ShiraConfig: found in line",
    QLORA.replace("LoraConfig(", "made(")
    + "get_peft_model(model, peft_config)\n": "get_peft_model: its config in line",
    QLORA.replace('bias="none"', "exclude_modules=['a']"): "exclude_modules: found ['a']",
    QLORA.replace('["q_proj"]', r"r'.*\.1.*q_proj'"): "adapters on only some layers",
    UNSLOTH.replace("    dtype", "    load_in_fp8 = True,\n    dtype") + ADAPTED + TRAINED: "load_in_fp8: found True",
    QLORA.replace("BitsAndBytesConfig(", "HqqConfig("): "HqqConfig: found in line",
    QLORA
    + "other = TrainingArguments(output_dir='y', per_device_train_batch_size=8)\n": "different arguments in lines",
    "import deepspeed\nfrom transformers import AutoModel\nmodel = AutoModel.from_pretrained('a/b')\n"
    "engine = deepspeed.init_inference(model, tensor_parallel={'tp_size': 2})\nengine.generate(x)\n": "init_inference: found",
    "import torch\nfor x in range(3):\nprint(x)\nTrainingArguments(": "is not Python: line",
    notebook("print(1)"): "notebook that neither trains nor serves",
    "import torch\n\ndef build():\n    return torch.zeros(1)\n": "is a Python script, which is not run",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_supported_is_refused_by_name(text):
    with pytest.raises(MemcoreError) as raised:
        imported(text)
    assert REFUSED[text] in str(raised.value)


def test_what_nobody_knows_is_asked_for_by_name():
    text = FULL.replace('"Qwen/Qwen3-0.6B"', '"Qwen/Qwen3-0.6B"').replace("4096", "config.length")
    with pytest.raises(MemcoreError, match=r"found \$length, which the script does not set; give it with --seq"):
        read_sources([Source("a.py", text)])
    config, _ = read_sources([Source("a.py", text)], given=[LENGTH])
    assert config["model"] == "Qwen/Qwen3-0.6B"
    rewards = "GRPOTrainer(model=model, args=GRPOConfig(max_prompt_length=n + 1, max_completion_length=2048 - n))\n"
    with pytest.raises(MemcoreError, match=r"found \$max_completion_length, which the script does not set"):
        read_sources([Source("a.py", UNSLOTH + ADAPTED + rewards)])


def test_what_a_script_freezes_is_said():
    assert any("parameters that it freezes are counted as trained" in note for note in imported(ASKED).notes)
    adapted = ASKED.replace("USE_LORA = False", "USE_LORA = True")
    assert not any("freezes" in note for note in imported(adapted).notes)


SPAWNS = "import subprocess\nMODEL, LENGTH = 'Qwen/Qwen3-4B', 2 * 1024\n"
STARTED_FROM = {
    SPAWNS + "subprocess.Popen(['vllm', 'serve', MODEL, '--max-model-len', str(LENGTH)])": 2048,
    SPAWNS + "launch_server_cmd('python3 -m sglang.launch_server --model-path Qwen/Qwen3-4B --context-length 4096')": 4096,
    notebook("MODEL = 'Qwen/Qwen3-4B'\nLENGTH = 512", "!nohup vllm serve {MODEL} --max-model-len $LENGTH &"): 512,
    # aws ai-on-eks, ray-vllm-deepseek.yml
    "apiVersion: v1\ndata:\n  a.py: |\n    import os\n    from vllm import LLM\n    class A:\n        def __init__(self, length):\n"
    "            self.llm = LLM('Qwen/Qwen3-4B', max_model_len=length)\n    A.bind(length=int(os.environ.get('N', '256')))\n": 256,
}  # fmt: skip
"""What starts a server from Python or from a cell, and the longest sequence."""


@pytest.mark.parametrize(("text", "longest"), STARTED_FROM.items())
def test_commands_that_scripts_start(text, longest):
    found = flat(read_sources([Source("a", text)])[0])
    assert (found["model"], found[CONTEXT]) == ("Qwen/Qwen3-4B", longest)


def test_a_notebook_of_several_servers():
    text = notebook(
        "from vllm import LLM\nllm = LLM('Qwen/Qwen3-8B')", "!vllm serve Qwen/Qwen3-4B", "!pip install vllm"
    )
    with pytest.raises(MemcoreError, match="describes 2 jobs"):
        imported(text)


def test_a_notebook_that_starts_a_script():
    """philschmid/deep-learning-pytorch-huggingface, training/fsdp-qlora-distributed-llama3.ipynb."""
    settings = (
        "%%writefile a.yaml\nmodel_name_or_path: gpt2\nmax_seq_length: 64\nper_device_train_batch_size: 3\nbf16: true\n"
    )
    cells = ("!pip install trl", settings, "!torchrun --nproc_per_node=4 \\\n  train.py --config a.yaml", "print(1)")
    found = flat(read_sources([Source("a.ipynb", notebook(*cells))])[0])
    assert (found["training.micro_batch_size"], found["hardware.num_gpus"]) == (3, 4)


FREEZES = {
    ("google/paligemma2-3b-pt-224", "for p in model.vision_tower.parameters():\n    p.requires_grad = False"): [
        "language-model", "projector"],
    ("google/paligemma2-3b-pt-224", "model.vision_tower.requires_grad_(False)\nmodel.multi_modal_projector.requires_grad_(False)"): [
        "language-model"],
    ("Qwen/Qwen2.5-VL-3B-Instruct", "model.visual.requires_grad_(False)"): ["language-model"],  # with its merger
    ("NousResearch/Llama-2-7b-hf", "for p in model.parameters():\n    p.requires_grad = False\n"
                                 "for p in model.lm_head.parameters():\n    p.requires_grad = True"): ["lm_head"],
    ("NousResearch/Llama-2-7b-hf", "for p in model.model.layers[:16].parameters():\n    p.requires_grad = False"): None,
    ("NousResearch/Llama-2-7b-hf", "for n, p in model.named_parameters():\n    p.requires_grad = 'bias' in n"): None,
}  # fmt: skip


@pytest.mark.parametrize("case", FREEZES)
def test_what_a_script_freezes(case):
    """What is not known to be frozen is counted as trained, and said."""
    name, done = case
    text = ASKED.replace("gpt2", name).replace(
        "    for param in model.vision_model.parameters():\n        param.requires_grad = False\n", ""
    )
    read = imported(text.replace("Trainer(", f"{done}\nTrainer(", 1))
    assert flat(read.config).get("training.trainable") == FREEZES[case]
    assert any("parameters that it freezes" in note for note in read.notes) == (FREEZES[case] is None)


def test_a_script_that_is_only_named_may_adapt():
    """philschmid/deep-learning-pytorch-huggingface: scripts/run_fsdp_qlora.py quantizes by itself."""
    line = "torchrun --nproc_per_node=4 scripts/run_fsdp_qlora.py --model_name_or_path gpt2 --per_device_train_batch_size 1"
    said = [note for note in imported(line).notes if "run_fsdp_qlora.py is not read" in note]
    assert "training.quantization" in said[0]
    for other in (f"{line} --use_peft true", line.replace("qlora", "sft")):
        assert not any("is not read" in note for note in imported(other).notes)


def test_a_script_without_its_trainer_is_asked_for_its_batch():
    """matrixorigin/mojo, py/llmtoy/qwen3/model.py."""
    source = Source("a.py", UNSLOTH + ADAPTED)
    with pytest.raises(MemcoreError, match="give it with --micro-batch"):
        read_sources([source])
    config, _ = read_sources([source], given=["training.micro_batch_size"])
    assert flat(config)[RANK] == 16


def test_each_trainer_of_a_script_is_a_job():
    """unslothai/notebooks, python_scripts/Qwen3_(4B)-GRPO.py: some examples first, rewards then."""
    rewards = (
        "GRPOTrainer(model = model, args = GRPOConfig(per_device_train_batch_size = 1, gradient_accumulation_steps = 1,\n"
        "    num_generations = 6, max_completion_length = 64))\n"
    )
    text = UNSLOTH + ADAPTED + TRAINED + rewards
    with pytest.raises(MemcoreError, match="the script: It describes 2 jobs.*1: SFTConfig:.*2: GRPOConfig:"):
        imported(text)
    first, second = (flat(imported(text, None, job).config) for job in (1, 2))
    assert (first["training.micro_batch_size"], first.get("training.method.name"), first[RANK]) == (2, None, 16)
    assert (second["training.micro_batch_size"], second["training.method.name"], second[RANK]) == (6, "grpo", 16)


@pytest.mark.parametrize(
    "before", ["", "options = {}\nfor key in keys:\n    options[key] = 1\n", "options = dict(a=1)\ndel options['a']\n"]
)
def test_arguments_that_are_elsewhere_are_said(before):
    found = imported(before + FULL.replace("packing=True", "**options"))
    assert any("arguments of SFTConfig are in options" in note for note in found.notes)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("2 * 3 - 1", 5),
        ("-1e-4", -1e-4),
        ("'a' + 'b'", "ab"),
        ("f'{n}-x'", "2-x"),
        ("not flag", False),
        ("1 if flag else 2", 1),
        ("args.rank", 8),
        ("os.environ.get('RANK', 4)", 4),
        ("os.environ['RANK']", "$RANK"),
        ("dict(a=n)", {"a": 2}),
        ("twice", 2),
        ("longer", ["a", "b"]),
        ("counted", 3),
        ("looped", "$looped"),
        ("kind", "d"),
        ("second", "b"),
        ("rest", "$rest"),
        ("given.get('a', 3) + given.get('b', 4)", 5),
        ("'a-b'.replace('-', '')", "ab"),
        ("given['a']", 1),
        ("n in (2, 3) and torch.cuda.get_device_capability()[0] >= 8", True),
        ("chosen", "yes"),
        ("'chat' in 'A/Chat'.lower()", True),
        ("maybe", "$maybe"),
        ("unknown(1)", "$unknown"),
        ("2 ** 9999999", "$x"),
        ("1 / 0", "$x"),
        ("10 ** 9 * 10 ** 9 * 99", "$x"),
    ],
)
def test_expressions(said, value):
    code = (
        "n, flag = 2, True\ntwice = 1\ntwice = 2\nmaybe = 1\nif x:\n    maybe = 2\nlonger = ['a']\nlonger.append('b')\n"
        "counted = 1\ncounted += 2\nlooped = 1\nfor looped in (1, 2):\n    pass\ngiven = dict(a=1)\n"
        "if n == 2:\n    chosen = 'yes'\nelse:\n    chosen = 'no'\n"
        "kind = 'a'\nif kind == 'b':\n    kind = 'c'\nelif kind == 'a':\n    kind = 'd'\n"
        "def both(kind='e'):\n    second = 1\n    return kind, 'b'\nfirst, second = both()\nrest = 1\nfirst, *rest = both()\n"
        f"p.add_argument('--rank', type=int, default=8)\nf(x={said})"
    )
    assert next(each for each in calls(code) if each.name == "f").arguments["x"] == value


@pytest.mark.parametrize(
    "text", ["{", '{"cells": 3, "cell_type": 1}', '{"cells": [1, {"cell_type": "code", "source": ""}]}']
)
def test_broken_notebooks_say_nothing(text):
    assert not code_of(text)


def test_deep_nesting_ends():
    with pytest.raises(MemcoreError):
        imported("import torch\nx = TrainingArguments(a=" + "[" * 5000 + "]" * 5000 + ")")


HOSTILE = {
    "sums": "a0 = 'x'\n" + "".join(f"a{n} = a{n - 1} + a{n - 1}\n" for n in range(1, 90)) + "f(x=a89)",
    "lists": "a0 = [1]\n" + "".join(f"a{n} = [a{n - 1}, a{n - 1}]\n" for n in range(1, 60)) + "f(x=a59)",
    "mappings": "a0 = {'b': 1}\n"
    + "".join(f"a{n} = dict(b=a{n - 1}, c=a{n - 1})\n" for n in range(1, 60))
    + "f(x=a59)",
    "circles": "a = b\nb = a\nf(x=a)",
    "itself": "a = a + a\nf(x=a)",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_values_that_grow_end(kind):
    value = next(each for each in calls(HOSTILE[kind]) if each.name == "f").arguments["x"]
    assert str(value).startswith("$") or len(str(value)) < 10_000


def test_long_scripts_are_refused():
    with pytest.raises(MemcoreError, match="longer than"):
        calls("x = 1\n" * 200_000)


LOADED = """import os
from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments, Trainer
from trl import DPOTrainer, ModelConfig, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer, get_peft_config
name = "a/b"
model = AutoModelForCausalLM.from_pretrained(name)
{}
name = "./trained"
again = AutoModelForCausalLM.from_pretrained(name)
"""
HEAD = LOADED.partition("name =")[0]
FURTHER = {
    LOADED.format("DPOTrainer(model, args=TrainingArguments('x', per_device_train_batch_size=2), max_length=64, "
                  "peft_config=LoraConfig(r=4))"): {
        "model": "a/b", "training.method.name": "dpo", LENGTH: 64, RANK: 4},
    LOADED.format("Trainer(model, args=TrainingArguments('x'))"): {"model": "a/b", LENGTH: "$max_length"},
    LOADED.format("SFTTrainer(model, args=SFTConfig(dataset_kwargs={'skip_prepare_dataset': True}))"): {
        LENGTH: "$max_length"},
    LOADED.format("N = int(os.getenv('N', '3'))\nSFTTrainer(model, args=SFTConfig(per_device_train_batch_size=N))"): {
        "training.micro_batch_size": 3, LENGTH: 1024},
    LOADED.format("T = 'q_proj,v_proj'\nSFTTrainer(model, args=SFTConfig(), "
                  "peft_config=LoraConfig(target_modules=T.split(',')))"): {TARGETS: ["q_proj", "v_proj"], RANK: 8},
    HEAD + "c = ModelConfig(model_name_or_path='a/b', use_peft=True, lora_target_modules=['q_proj'])\n"
    "GRPOTrainer(model=c.model_name_or_path, args=GRPOConfig(beta=0.1), peft_config=get_peft_config(c))": {
        "model": "a/b", TYPE: "lora", RANK: 16, "training.method.name": "grpo", "training.method.reference": None},
    LOADED.format("SFTTrainer('c/d', model_init_kwargs=dict(attn_implementation='flash_attention_2', use_cache=False), "
                  "peft_config=LoraConfig(target_modules=find_all_linear_names(model)))"): {
        "training.attention": "flash", TARGETS: "all-linear"},
    LOADED.format("RLOOTrainer(model, args=RLOOConfig(max_completion_length=64))"): {
        "training.method.name": "grpo", "training.method.completion_length": 64, "training.method.reference": "copy"},
    LOADED.format("RLOOTrainer(model, args=RLOOConfig(beta=0.0))"): {
        "training.method.name": "grpo", "training.method.reference": None},
    "from unsloth import FastVisionModel\nfrom trl import SFTTrainer, SFTConfig\n"
    "m, t = FastVisionModel.from_pretrained('a/b')\nm = FastVisionModel.get_peft_model(m)\n"
    "SFTTrainer(model=m, args=SFTConfig(max_length=64))": {TARGETS: "all-linear", RANK: 16},
}  # fmt: skip


@pytest.mark.parametrize("text", FURTHER)
def test_further_scripts(text):
    found = flat(imported(text).config)
    assert {path: found.get(path) for path in FURTHER[text]} == FURTHER[text]


MADE = """import dataclasses
import torch
from liger_kernel.transformers import apply_liger_kernel_to_llama
from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, Trainer as Loop, TrainingArguments
class Trainer(Loop):
    pass
tokens = tokenizer(texts, truncation=True, max_length=64)
model = AutoModelForCausalLM.from_pretrained("a/b", torch_dtype=torch.float32)
{}
args = TrainingArguments("x", per_device_train_batch_size=2, bf16=True)
{}
trainer = Trainer(model=model, args=args{})
trainer.train()
"""
LORA = "model = get_peft_model(model, LoraConfig(r=4))"
BATCH, COMPILED, OPTIMIZER = "training.micro_batch_size", "training.compile", "training.optimizer.name"
ALTERED = {
    ("", "", ""): {P: "bf16-mixed", BATCH: 2, LENGTH: 64, POLICY: "none", COMPILED: None, "training.loss": None},
    ("model.half()", "", ""): {P: "fp16"},
    ("model = model.to('cuda')\nmodel = model.to(dtype=torch.bfloat16)", "", ""): {P: "bf16", AUTOCAST: None},
    ("model = model.bfloat16()\n" + LORA, "", ""): {P: "bf16", AUTOCAST: True, RANK: 4},
    ("model.half()\nmodel = prepare_model_for_kbit_training(model)\n" + LORA, "", ""): {P: "bf16-mixed", POLICY: "none"},
    ("model = torch.compile(model)", "", ""): {COMPILED: True},
    ("apply_liger_kernel_to_llama()", "", ""): {"training.implementation": "liger", "training.loss": "fused-linear"},
    ("try:\n    model.half()\nexcept ValueError:\n    model.float()", "", ""): {P: "fp16"},
    ("", "args = dataclasses.replace(args, per_device_train_batch_size=8)", ""): {BATCH: 8},
    ("", "if __name__ == '__main__':\n    args.gradient_checkpointing = True", ""): {POLICY: "full", BATCH: 2},
    ("", "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': True})", ""): {
        POLICY: "full", "training.activation_checkpointing.use_reentrant": True},
    ("", "lion = bnb.optim.PagedLion8bit(model.parameters())", ", optimizers=(lion, None)"): {
        OPTIMIZER: "paged-lion-8bit"},
    ("", "args.optim = 'sgd' if torch.cuda.is_available() else 'adamw_torch'", ", optimizers=(None, None)"): {
        OPTIMIZER: "sgd"},
    ("model.set_attn_implementation('flash_attention_2')", "", ""): {"training.attention": "flash"},
    ("", "setattr(args, 'per_device_train_batch_size', 8)", ""): {BATCH: 8},
    ("", "def more(a):\n    a.per_device_train_batch_size = 8\nmore(args)", ""): {BATCH: 8},
    ("", "args = args.set_training(learning_rate=1e-5, batch_size=8)", ""): {BATCH: 8, POLICY: "none"},
    ("", "args.set_optimizer('adafactor')\nargs.set_dataloader(train_batch_size=4)", ""): {
        OPTIMIZER: "adafactor", BATCH: 4},
    (LORA.replace("LoraConfig(r=4)", "c").replace("model =", "c = LoraConfig(r=4)\nc.r = 8\nmodel ="), "", ""): {RANK: 8},
    ("model = AutoModelForSequenceClassification.from_pretrained('a/b', num_labels=2)", "", ""): {
        "training.method.name": None},
}  # fmt: skip
"""What is done to a model, to the arguments and by the trainer, and what becomes of the job."""


@pytest.mark.parametrize("changes", ALTERED)
def test_what_is_done_before_training(changes):
    found = flat(imported(MADE.format(*changes)).config)
    assert {path: found.get(path) for path in ALTERED[changes]} == ALTERED[changes]


SAID = {
    "setattr(args, name, 8)": True,
    "model.model.layers = model.model.layers[:4]": True,
    "del model.lm_head": True,
    "model.config.num_hidden_layers = 4": True,
    "model = patch(model)": True,
    "parts = []\nfor n, p in model.named_modules():\n    parts.append((p, n))\nfor p, n in parts:\n    setattr(p, n, 1)": True,
    "model.to('cuda', torch.float16)": True,
    "model.resize_token_embeddings(60000)": True,
    "tokenizer.add_tokens(words)\nmodel.resize_token_embeddings(len(tokenizer))": True,
    "model.resize_token_embeddings(len(tokenizer))\nmodel, tokenizer = setup_chat_format(model, tokenizer)": False,
    "model.lm_head = model.lm_head.float()": True,
    "trainer.model = trainer.model.float()": False,
    "for name, part in model.named_modules():\n    part.to(torch.float32)": True,
    "for p in model.parameters():\n    p.data = p.data.float()": True,
    "for p in model.parameters():\n    p.register_post_accumulate_grad_hook(step)": True,
    "def cut(m):\n    m.head = None\n    return m\nmodel = cut(model)": True,
    "part = getattr(model, 'model')\npart.norm = None": True,
    "trainer.optimizer = mine": True,
    "torch.set_default_dtype(torch.float16)": True,
    "class Own(Trainer):\n    def compute_loss(self, *_):\n        pass": True,
    "class Own(Trainer):\n    def log(self, *_):\n        pass": False,
    "model.config.use_cache = False\nmodel.generation_config.top_k = 1": False,
    "print(model)\nmodel.print_trainable_parameters()\nsave(args.to_dict())": False,
    "sum(p.numel() for p in model.parameters())\nmodel.to('cuda')\nmodel.train()": False,
    "import os\nos.environ['A'] = '1'\ntorch.backends.cuda.matmul.allow_tf32 = True": False,
    "trainer.add_callback(a)\ntrainer = train_on_responses_only(trainer)": False,
}  # fmt: skip
"""What a script does between making its trainer and training, and whether a note says that it is not read."""


@pytest.mark.parametrize("done", SAID)
def test_what_is_done_and_not_read_is_said(done):
    text = MADE.format("", "", "").replace("trainer.train()", f"{done}\ntrainer.train()\nmodel.norm = None")
    assert any(": not read: " in note for note in imported(text).notes) == SAID[done]


OF_LOOPS = """import torch
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
tokens = AutoTokenizer.from_pretrained("a/b")(texts, truncation=True, max_length=64)
{}
loader = DataLoader(tokens, shuffle=True, batch_size=4)
optimizer = torch.optim.{}(model.parameters())
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    if step % 3 == 0:
        optimizer.step()
"""
FROM_CONFIG = "model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained('a/b'))"


@pytest.mark.parametrize(("loads", "optimizer", "found"), [
    ("model = AutoModelForCausalLM.from_pretrained('a/b')", "AdamW", {
        P: "fp32", BATCH: 4, LENGTH: 64, "training.gradient_accumulation_steps": 3}),
    ("model = AutoModelForCausalLM.from_pretrained('a/b', dtype=torch.bfloat16)", "SGD", {P: "bf16", OPTIMIZER: "sgd"}),
    (FROM_CONFIG + "\naccelerator = Accelerator(mixed_precision='bf16')", "AdamW", {P: "bf16-mixed", "model": "a/b"}),
    (FROM_CONFIG + "\nmodel = FSDP(model, auto_wrap_policy=p, mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))",
     "AdamW", {P: "bf16-mixed", "engine.type": "fsdp", "engine.version": 1}),
    ("model = AutoModelForCausalLM.from_pretrained('a/b', dtype=torch.bfloat16)\nfully_shard(model, offload_policy=p, "
     "mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))",
     "AdamW", {P: "bf16", "engine.type": "fsdp", "engine.version": 2, "engine.cpu_offload": True}),
    ("model = AutoModelForCausalLM.from_pretrained('a/b', dtype=torch.bfloat16)\nconfig = {'train_micro_batch_size_per_gpu': 2,"
     "'bf16': {'enabled': True}, 'zero_optimization': {'stage': 3}, 'optimizer': {'type': 'AdamW'}, 'gradient_clipping': 1}\n"
     "model, *_ = deepspeed.initialize(model=model, config=config)",
     "AdamW", {P: "bf16-mixed", BATCH: 2, "engine.type": "deepspeed", "engine.zero_stage": 3}),
])  # fmt: skip
def test_a_loop_of_its_own_is_the_trainers(loads, optimizer, found):
    read = imported(OF_LOOPS.format(loads, optimizer))
    assert found.items() <= flat(read.config).items()
    assert any("a training loop of its own" in note for note in read.notes)
    assert not any("not read:" in note for note in read.notes)


def test_lightnings_trainer_is_a_loop():
    """NielsRogge/Transformers-Tutorials, CANINE: its trainer has no arguments of transformers'."""
    text = OF_LOOPS.format("model = AutoModelForCausalLM.from_pretrained('a/b')", "AdamW").partition("for batch")[0]
    text += "trainer = Trainer(gpus=1, precision='bf16-mixed', accumulate_grad_batches=2, strategy='fsdp')\ntrainer.fit(net)\n"
    read = imported(text)
    found = flat(read.config)
    assert (found[BATCH], found["training.gradient_accumulation_steps"], found[P]) == (4, 2, "bf16-mixed")
    assert [str(each) for each in read.notes if "not read of" in each] == ["line 9: not read of Trainer: strategy"]


OF_PEFT = {
    "IA3Config()": {TYPE: "ia3", TARGETS: ["q_proj", "v_proj", "down_proj"]},
    "AdaLoraConfig(init_r=6, r=8, target_r=4, target_modules=['q_proj'])": {
        TYPE: "adalora", "training.adapter.init_r": 6, RANK: None, TARGETS: ["q_proj"]},
    "LoHaConfig(r=4, rank_dropout=0.1, target_modules=r'.*(q|v)_proj')": {TYPE: "loha", RANK: 4, TARGETS: ["q_proj", "v_proj"]},
    "VeraConfig(target_modules='all-linear')": {TYPE: "vera", RANK: 256, TARGETS: "all-linear"},
    "OFTConfig(oft_block_size=16, target_modules=['q_proj'])": {TYPE: "oft", "training.adapter.block_size": 16},
    "PrefixTuningConfig(num_virtual_tokens=30, task_type='CAUSAL_LM')": {
        TYPE: "prefix-tuning", "training.adapter.num_virtual_tokens": 30},
    "PromptEncoderConfig(num_virtual_tokens=8)": {TYPE: "p-tuning"},
    "LNTuningConfig()": {TYPE: "ln-tuning", RANK: None},
    "LoraConfig(bias='all', fan_in_fan_out=True, init_lora_weights='pissa', use_dora=True)": {TYPE: "dora", RANK: 8},
}  # fmt: skip
"""Configs of PEFT's methods, and the adapters that they are."""


@pytest.mark.parametrize("made", OF_PEFT)
def test_other_methods_of_peft(made):
    text = MADE.replace("a/b", "Qwen/Qwen3-0.6B").format(f"model = get_peft_model(model, {made})", "", "")
    read = imported(text)
    found = flat(read.config)
    assert {path: found.get(path) for path in OF_PEFT[made]} == OF_PEFT[made]
    assert [str(each) for each in read.notes if "not read" in each] == (
        ["line 10: not read of LoraConfig: bias"] if "bias" in made else []
    )


def test_a_trainer_keeps_the_model_that_it_was_given():
    """tloen/alpaca-lora, finetune.py: what is compiled then is a name of the script's."""
    text = MADE.format("", "", "").replace("trainer.train()", "model = torch.compile(model)\ntrainer.train()")
    assert COMPILED not in flat(imported(text).config)


def test_values_go_through_functions_and_objects():
    """decodingml/llm-twin-course and Vasanthengineer4949/NLP-Projects-NHV: parameters, and a mapping that an object keeps."""
    code = (
        "def inner(a, b=2):\n    f(x=a, y=b)\ndef outer(a, b=3):\n    inner(a, b)\n"
        "class Kept:\n    def __init__(self, c):\n        self.c = c\n    def go(self):\n        g(x=self.c['k'])\n"
        "@dataclass\nclass Own:\n    a: int = 1\nown = Own(a=9)\ndef takes(arguments):\n    h(x=arguments.a)\ntakes(own)\n"
        "p.add_argument('--kind', default='one')\nargs = p.parse_args()\nKept({'k': 7}).go()\n"
        "if args.kind == 'one':\n    outer(a=5)\nelse:\n    outer(a=6)\n"
    )
    said = {each.name: each.arguments for each in calls(code)}
    assert (said["f"], said["g"], said["h"]) == ({"x": 5, "y": 3}, {"x": 7}, {"x": 9})


def test_trainers_that_share_arguments_are_jobs():
    """HandsOnLLM/Hands-On-Large-Language-Models, chapter 11: the second trainer takes what the first one took."""
    load = "model = AutoModelForCausalLM.from_pretrained('a/b')\n"
    one, two = (f"args = TrainingArguments('x', per_device_train_batch_size={size})\n" for size in (2, 8))
    text = "import transformers\n" + load + one + "Trainer(model, args)\n" * 2 + load + two + "Trainer(model, args)\n"
    assert [flat(imported(text, None, job).config)[BATCH] for job in (1, 2, 3)] == [2, 2, 8]


def test_each_model_of_a_script_is_a_job():
    """huggingface/notebooks, examples/language_modeling.ipynb: two models with the same arguments."""
    once = 'model = AutoModelForCausalLM.from_pretrained("{}")\nTrainer(model, TrainingArguments("x", bf16=True)).train()\n'
    with pytest.raises(MemcoreError, match="It describes 2 jobs.*1: a/b:.*2: c/d:"):
        imported("import transformers\n" + once.format("a/b") + once.format("c/d"))


def test_a_model_to_compare_with_stays_next_to_adapters():
    """on1659/RadarCustomLLM_Game, dpo/train.py: `ref_model` with adapters; of 4 bits, prepared and under autocast."""
    loads = 'AutoModelForCausalLM.from_pretrained("a/b", load_in_4bit=True, dtype=torch.bfloat16)'
    text = HEAD + f"model = prepare_model_for_kbit_training({loads})\nmodel = get_peft_model(model, LoraConfig())\n"
    for given, reference in ((f"ref_model={loads}", "copy"), (loads, "copy"), ("ref_model=None", None), ("None", None)):
        found = flat(imported(text + f"DPOTrainer(model, {given}, args=DPOConfig('x'))").config)
        assert found.get("training.method.reference") == reference
        assert (found[P], found["engine.prepare_model_for_kbit_training"]) == ("bf16-mixed", True)


def test_a_class_with_labels_has_no_logits():
    """lun2hang/playgemma_textcls_sft, gemma2b_sft_Qlora_cls.py."""
    found = imported(MADE.replace("AutoModelForCausalLM", "AutoModelForSequenceClassification").format("", "", ""))
    assert flat(found.config)["training.method.name"] == "classify"
    assert any("2 outputs of the head" in note for note in found.notes)


def test_what_nobody_reads_of_loaders_and_trainers_is_said():
    text = MADE.replace("torch_dtype=torch.float32", "num_hidden_layers=2")
    notes = imported(text.format("model.resize_token_embeddings(9)", "", ", optimizer_cls_and_kwargs=(A, {})")).notes
    for said in ("from_pretrained: num_hidden_layers", "not read: model.resize_token_embeddings(9)", "optimizer_cls_and_kwargs",
                 "it names no dtype: fp32 weights are counted"):  # fmt: skip
        assert any(said in note for note in notes)
    assert not any("dtype" in note or "not read" in note for note in imported(MADE.format("", "", "")).notes)


def test_a_config_that_nothing_takes_is_not_read():
    found = imported(MADE.format("c = LoraConfig(r=4)\nq = BitsAndBytesConfig(load_in_4bit=True)", "", ""))
    assert not {TYPE, BITS} & flat(found.config).keys()
    assert [str(note) for note in found.notes if "()" in note] == [
        "line 10: not read: LoraConfig()", "line 11: not read: BitsAndBytesConfig()"]  # fmt: skip


def test_arguments_from_elsewhere_are_asked_for():
    text = FULL.replace("SFTConfig(max_length=4096, packing=True)", "made_elsewhere()").replace("SFTConfig, ", "")
    with pytest.raises(MemcoreError, match=r"found \$per_device_train_batch_size"):
        read_sources([Source("a.py", text)])


def test_what_only_the_run_decides_on_is_said():
    """OpenBMB/MiniCPM, finetune/finetune.py; attributes of classes are no names: `rank` is 4 there, not here."""
    text = (
        HEAD
        + "class Own:\n    rank = 4\nrank = 8\nif asked:\n    config = LoraConfig(r=rank)\nSFTTrainer(model, args=SFTConfig(), peft_config=config)"
    )
    found = imported(text)
    assert flat(found.config)[RANK] == 8
    assert any("only the run decides on LoraConfig: it is counted" in note for note in found.notes)


@pytest.mark.parametrize(
    ("given", "bits"), [("", "fp4"), (", bnb_4bit_quant_type='nf4', bnb_4bit_use_double_quant=True", "nf4-double")]
)
def test_few_bits_without_a_config(given, bits):
    """datawhalechina/self-llm, models/DeepSeek: all of it to `from_pretrained`, with torch.half."""
    loads = f"AutoModelForCausalLM.from_pretrained('a/b', load_in_4bit=True, torch_dtype=torch.half{given})"
    text = MADE.replace('AutoModelForCausalLM.from_pretrained("a/b", torch_dtype=torch.float32)', loads)
    found = flat(imported(text.format("model = prepare_model_for_int8_training(model)\n" + LORA, "", "")).config)
    assert (found[BITS], found[POLICY]) == (bits, "full")


def test_arguments_of_a_class_that_has_the_name_of_its_base():
    """rohan-paul/LLM-FineTuning-Large-Language-Models: read by a parser, and handed on to another of its class."""
    own = "class TrainingArguments(transformers.TrainingArguments):\n    per_device_train_batch_size: int = field(default=3)\n"
    parsed = "a = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\n"
    made = "b = TrainingArguments(per_device_train_batch_size=a.per_device_train_batch_size)\n"
    load = "model = AutoModelForCausalLM.from_pretrained('a/b', quantization_config=GPTQConfig(bits=4))\n"
    rest = "ids = [f'{i}' for i in range(2)]\nOwnTrainer(model=model, args=b).train()\n"
    found = flat(imported(HEAD + own + parsed + load + made + rest).config)
    assert (found["training.micro_batch_size"], found[BITS]) == (3, "gptq")
    assert found["training.sequence_length"] == "$max_length"


def test_where_adapters_differ():
    """PEFT's patterns and lists, those of a comprehension among them; a row of its table; a repository that is fetched."""
    load = "model = AutoModelForCausalLM.from_pretrained(snapshot_download('a/b'))\n"
    table = "wanted = TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING['llama']\n"
    config = "peft = LoraConfig(target_modules=wanted, rank_pattern={'q_proj': 4}, layers_to_transform=[i + 2 for i in range(2)])\n"
    found = flat(imported(HEAD + load + table + config + "SFTTrainer(model=model, peft_config=peft).train()\n").config)
    names = {"target_modules": ["q_proj", "v_proj"], "rank_pattern": "q_proj=4", "layers_to_transform": [2, 3]}
    assert {name: found[f"training.adapter.{name}"] for name in names} == names
    assert found["model"] == "a/b"


def test_only_the_run_knows():
    later = "if rows > 9:\n    args.per_device_train_batch_size = 8"
    for changes in (("", later, ""), ("", "", ", optimizers=(make(), None)")):
        with pytest.raises(MemcoreError, match=r"found \$(per_device_train_batch_size|optim), "):
            read_sources([Source("a.py", MADE.format(*changes))])
    with pytest.raises(MemcoreError, match="PeftModel: its adapter in line 10 is in another file"):
        imported(MADE.format("model = PeftModel.from_pretrained(model, 'c/d', is_trainable=True)", "", ""))


@pytest.mark.parametrize(
    ("batch", "right", "silent"),
    [
        ("scripts_unseen", (14, 21), (11, 0)),
        ("scripts_second", (9, 12), (1, 0)),
        ("scripts_third", (4, 5), (0, 0)),
        ("scriptsb_blind", (15, 25), (4, 0)),
        ("scriptsb_second", (7, 9), (1, 0)),
        ("scripts_fourth", (29, 42), (2, 0)),
        ("scripts_fifth", (13, 15), (1, 0)),
        ("scripts1_blind", (70, 79), (1, 0)),
        ("scripts1_second", (27, 33), (0, 0)),
        ("scripts2_blind", (37, 39), (0, 0)),
        ("scripts2_second", (13, 15), (1, 0)),
        ("scripts2_third", (10, 10), (0, 0)),
    ],
)
def test_scripts_as_written_down(batch, right, silent):
    """Scripts were judged by their deciding keys when they were first read, and after mends; their texts are not kept."""
    rows = truth(batch).values()
    assert all(row["source"] and set(row["keys"]) <= {"model", *SETTINGS} for row in rows)
    for verdict, figures in (("right or rightly refused", right), ("silent", silent)):
        assert tuple(sum(row[when] == verdict for row in rows) for when in ("blind", "after")) == figures
