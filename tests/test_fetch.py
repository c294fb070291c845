"""`--fetch`: what is asked of the hub, what is read of it, and what is said where it gives nothing."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from test_checkpoints_listed import of_gguf

import memcore
from memcore.errors import ConfigError
from memcore.faces.cli import main
from memcore.networks.catalog import catalog, find_model
from memcore.servers.llamacpp.gguf import gguf_file
from memcore.tools import hub
from memcore.tools.repositories import Place, place_of, wanted

TINY = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 256, "torch_dtype": "bfloat16"}  # fmt: skip
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_secret"  # noqa: S105
SMALL = "Qwen/Qwen3-0.6B"


def header(tensors):
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


FP8 = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
WEIGHTS = header({"a": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}})
INDEX = {"metadata": {"total_size": 640}, "weight_map": {"model.layers.0.a": "x", "model.layers.1.a": "x"}}
GGUF = of_gguf({"general.name": "Qwen3 0.6B", "general.file_type": 15, "qwen3.block_count": 28,
                "general.architecture": "qwen3"}, gguf_file(find_model(SMALL), "Q4_K_M"))  # fmt: skip
OF_PLAIN = {"general.architecture": "llama", "llama.block_count": 2, "general.file_type": 7,
            "general.base_model.0.repo_url": "https://huggingface.co/me/plain"}  # fmt: skip
TENSORS = gguf_file(find_model(TINY), "Q8_0")
WHOLE, FIRST, SECOND = (of_gguf(OF_PLAIN, each) for each in (TENSORS, TENSORS[:5], TENSORS[5:]))
REPOSITORIES = {
    "me/plain": {"config.json": TINY, "model.safetensors": WEIGHTS + bytes(64), "README.md": {}},
    "me/quantized": {"config.json": TINY, "hf_quant_config.json": FP8, "model.safetensors.index.json": INDEX},
    "me/adapter": {"adapter_config.json": {"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"],
                                           "base_model_name_or_path": "me/plain"}, "adapter_model.safetensors": {}},
    "me/m-GGUF": {"m-Q8_0.gguf": WHOLE, "mmproj-F16.gguf": {}, "s-Q4_K_M.gguf": GGUF},
    "me/parts": {"m-Q8_0-00001-of-00002.gguf": FIRST, "m-Q8_0-00002-of-00002.gguf": SECOND, "config.json": TINY},
    "me/gated": {"config.json": TINY},
    "me/pictures": {"model_index.json": {}},
    "me/broken": {"config.json": b"<html>"},
    "me/long": {"config.json": b"{" + b" " * 2**24 + b"}"},
    "me/moved": {"config.json": TINY},
    "me/away": {"config.json": TINY},
}  # fmt: skip
STATUSES = {
    "me/gated": (401, {"X-Error-Code": "GatedRepo"}),
    "me/moved": (307, {"Location": "/cache/me/plain/config.json"}),
    "me/away": (302, {"Location": "http://localhost:1/me/plain"}),
    "me/files": (302, {"Location": "file:///etc/hostname"}),
    "me/round": (302, {"Location": "/api/models/me/round/revision/main"}),
    "me/busy": (429, {}),
    "me/refused": (403, {}),
    "me/none": (401, {"X-Error-Code": "RepoNotFound"}),
    "me/old": (404, {"X-Error-Code": "RevisionNotFound"}),
}


class Answers(BaseHTTPRequestHandler):
    """A hub with these repositories; it notes what is asked, by whom, and how much is sent."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization"), self.headers.get("Range")))
        found = re.match(r"/(?:api/models/|cache/)?(\w+/[\w-]+)/(.+)", self.path)
        name, rest = found.groups()
        listed = self.path.startswith("/api/")
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}" and name == "me/gated"
        if name in STATUSES and not allowed and not (listed and name in REPOSITORIES):
            return self.say(*STATUSES[name], b"")
        files = REPOSITORIES[name]
        if listed:
            return self.say(200, {}, {"sha": COMMIT, "siblings": [{"rfilename": each} for each in files]})
        return self.say(200, {}, files[rest.rpartition("/")[2]])

    def say(self, status, headers, body):
        held = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for each in {**headers, "Content-Length": str(len(held))}.items():
            self.send_header(*each)
        self.end_headers()
        self.wfile.write(held)

    def log_message(self, *_):
        pass


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What a hub at HF_ENDPOINT was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.asked = []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield server.asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("given", "files", "said"),
    [
        ("model me/plain", ["config.json", "model.safetensors"], "lists 1 tensors of 64 bytes"),
        ("model hf.co/me/plain", ["config.json", "model.safetensors"], "commit 0123456789ab"),
        ("estimate me/quantized --engine vllm", ["config.json", "hf_quant_config.json", "model.safetensors.index.json"],
         "lists 2 tensors of 640 bytes"),
        ("validate --model me/quantized", ["config.json", "hf_quant_config.json", "model.safetensors.index.json"], ""),
        ("estimate me/adapter", ["adapter_config.json", "config.json"], "of me/adapter from"),
        ("estimate me/m-GGUF", ["s-Q4_K_M.gguf"], f"{SMALL} by its name"),
        ("estimate me/m-GGUF:q8_0", ["m-Q8_0.gguf", "config.json"], "of me/plain from"),
        ("model me/moved", ["config.json", "config.json"], "fetched config.json of me/moved"),
        ("estimate 'vllm serve me/plain'", ["config.json", "model.safetensors"], "read as a command of vLLM"),
    ],
)  # fmt: skip
def test_what_a_repository_has_is_read(asked, capsys, given, files, said):
    words = [each for pair in re.findall(r"'([^']+)'|(\S+)", given) for each in pair if each]
    assert main([*words, "--fetch", "--json"]) == 0
    out, err = capsys.readouterr()
    assert said in err
    assert [path.rpartition("/")[2] for path, *_ in asked if not path.startswith("/api/")] == files
    assert all(COMMIT in path or path.startswith(("/api/", "/cache/")) for path, *_ in asked)
    assert all((sent is not None) == path.endswith((".gguf", "model.safetensors")) for path, _, sent in asked)
    assert out.startswith("{")


def test_the_answer_is_that_of_the_files(asked, tmp_path, capsys):
    """A fetched model is the one of the same files, and what is saved gives it again without a network."""
    for name in ("config.json", "hf_quant_config.json"):
        (tmp_path / name).write_text(json.dumps(REPOSITORIES["me/quantized"][name]))
    files = memcore.load(tmp_path / "config.json", tmp_path / "hf_quant_config.json")
    found = memcore.fetch("me/quantized", revision="v2")
    assert found.model == {**files.model, "_name_or_path": "me/quantized"}
    assert found.model["quantization_config"]["quant_method"] == "modelopt"
    assert found.notes[0].startswith("fetched config.json, hf_quant_config.json, model.safetensors.index.json of me/q")
    assert asked[0][0] == "/api/models/me/quantized/revision/v2"
    for name in ("me/quantized", "me/m-GGUF"):
        kept = tmp_path / "kept.json"
        assert main(["model", name, "--fetch", "--save", str(kept), "--json"]) == 0
        count, first = len(asked), capsys.readouterr().out
        assert main(["model", str(kept), "--json"]) == 0
        assert capsys.readouterr().out == first
        assert len(asked) == count


def test_parts_of_a_gguf_file_are_one(asked):
    whole, split = memcore.fetch("me/m-GGUF:Q8_0"), memcore.fetch("me/parts")
    tensors = [int(re.search(r"lists (\d+) tensors", "\n".join(each.notes))[1]) for each in (whole, split)]
    assert tensors == [len(TENSORS), len(TENSORS)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("me/gated", "me/gated/config.json: is gated: accept its licence on 127.0.0.1"),
        ("me/refused", "is gated, and your token has no access"),
        ("me/none", "no such repository or file, or it is private"),
        ("me/old --revision v9", "has no such revision"),
        ("me/busy", "takes no more requests"),
        ("me/broken", "me/broken/config.json: is not JSON"),
        ("me/long", "is longer than 16,777,216 bytes"),
        ("me/away", "redirects too often, or to an address that is not https"),
        ("me/files", "redirects too often, or to an address that is not https"),
        ("me/round", "redirects too often"),
        ("me/pictures", "has no config.json"),
        ("me/m-GGUF:Q5_K_S", r"no GGUF file for Q5_K_S; it has Q8_0, Q4_K_M"),
        ("me/plain:Q4_K_M", "has no GGUF files"),
        ("https://example.org/me/plain", "not an address of 127.0.0.1"),
        ("../etc/passwd", "expected an id of the hub"),
    ],
)
def test_what_the_hub_does_not_give_is_said(asked, capsys, given, said):
    assert main(["model", *given.split(), "--fetch"]) == 2
    err = capsys.readouterr().err
    assert re.search(said, err), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_token_is_for_its_host_alone(asked, monkeypatch, tmp_path, capsys):
    """It comes from the environment or from the hub's file, and is in no error; it does not follow to another host."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert main(["model", "me/gated", "--fetch"]) == 0
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert main(["model", "me/gated", "--fetch"]) == 2
    assert main(["model", "me/moved", "--fetch"]) == 0
    assert {sent for _, sent, _ in asked} == {f"Bearer {TOKEN}", "Bearer hf_other"}
    monkeypatch.setenv("HF_TOKEN", "hf_other\r\nX: y")
    assert main(["model", "me/gated", "--fetch"]) == 2
    shown = "".join(capsys.readouterr())
    assert TOKEN not in shown
    assert "hf_other" not in shown
    first = Request("https://hub.example/a")
    first.add_unredirected_header("Authorization", "Bearer x")
    for address, kept in (("https://hub.example/b", "Bearer x"), ("https://cdn.example/b", None)):
        again = hub._Redirects().redirect_request(first, None, 302, "", {}, address)
        assert again.get_header("Authorization") == kept
    with pytest.raises(HTTPError):
        hub._Redirects().redirect_request(first, None, 302, "", {}, "http://hub.example/b")
    assert not hub._is_safe(hub.urlsplit("http://mirror.example/a"))


def test_nothing_is_sent_without_the_flag(asked, monkeypatch, capsys):
    """An unknown id names the flag; a catalog's needs none; what switches the network off holds."""
    for given in (["model", "me/plain"], ["estimate", "me/plain"], ["estimate", "--model", "me/plain"]):
        assert main(given) == 2
        assert "--fetch asks the model hub for it" in capsys.readouterr().err
    assert main(["model", "qwen3-8b", "--revision", "v2"]) == 2
    assert main(["estimate", "--fetch"]) == 2
    assert main(["estimate", "8B on a 3090", "--fetch"]) == 2
    assert capsys.readouterr().err.count("needs the id of a model") == 1
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert main(["model", "me/plain", "--fetch"]) == 2
    assert "HF_HUB_OFFLINE: is set" in capsys.readouterr().err
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "ftp://127.0.0.1")
    with pytest.raises(ConfigError, match="HF_ENDPOINT"):
        memcore.fetch("me/plain")
    assert asked == []


def test_who_says_nothing_is_not_waited_for(monkeypatch):
    """Nor who sends too slowly."""
    monkeypatch.setattr(hub, "TIMEOUT", 0.05)
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as silent, pytest.raises(ConfigError, match="did not answer"):
        hub.Hub(f"http://127.0.0.1:{silent.server_port}").text(f"http://127.0.0.1:{silent.server_port}/a", "a")
    with pytest.raises(ConfigError, match="cannot be reached"):
        hub.Hub("http://127.0.0.1:1").text("http://127.0.0.1:1/a", "a")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("qwen3-8b", Place("Qwen/Qwen3-8B")),
        ("https://huggingface.co/a/b/tree/refs%2Fpr%2F1", Place("a/b", "refs/pr/1")),
        ("https://huggingface.co/a/b/blob/main/x/y-Q8_0.gguf?download=true", Place("a/b", "main", "", "x/y-Q8_0.gguf")),
        ("hf.co/a/b-GGUF:IQ4_XS", Place("a/b-GGUF", "", "IQ4_XS")),
        ("stability.ai/b", Place("stability.ai/b")),
    ],
)
def test_how_people_write_repositories(name, place):
    assert place_of(name) == place


def test_files_that_say_nothing_of_memory_are_left():
    listed = ["generation_config.json", "config.json", "tokenizer.json", "model-00001-of-00002.safetensors", "onnx/m.onnx",
              "model-00002-of-00002.safetensors", "model.safetensors.index.json", "modules.json"]  # fmt: skip
    assert wanted(Place("a/b"), listed) == ["config.json", "modules.json", "model.safetensors.index.json"]
    blob = place_of("https://huggingface.co/a/b/blob/main/README.md")
    assert wanted(blob, listed) == ["config.json", "modules.json", "model.safetensors.index.json"]
    assert "me/plain" not in catalog()
