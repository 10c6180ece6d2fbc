"""Every call of NVIDIA's tritonclient.http that Millrace answers, against a server in repository mode `explicit`.

drive_tritonclient.py HOST:PORT MODEL: loads MODEL (one FP32 input, one FP32 output), asks it in every form, unloads it. Prints a JSON
object; an exception or a wrong answer ends it with another exit code than 0.
"""

import json
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def check(holds, what):
    if not holds:
        sys.exit(f"wrong: {what}")


def refused(what, words, call):
    try:
        call()
    except InferenceServerException as error:
        check(words in str(error), f"{what}: {error}")
        return
    check(False, f"{what}: no error")


url, name = sys.argv[1:3]
client = triton.InferenceServerClient(url, concurrency=4)
check(any(entry["name"] == name and entry["state"] == "UNKNOWN" for entry in client.get_model_repository_index()), "index before")
client.load_model(name)
check(client.is_server_live() and client.is_server_ready() and client.is_model_ready(name), "health")
check(not client.is_model_ready("none"), "health of a model that is not there")
check("binary_tensor_data" in client.get_server_metadata()["extensions"], "server metadata")
model = client.get_model_metadata(name)
version = model["versions"][-1]
check(client.get_model_config(name, version)["input"][0]["data_type"] == "TYPE_FP32", "configuration")
source, target = model["inputs"][0], model["outputs"][0]["name"]
frame = np.random.default_rng(1).random(source["shape"]).astype(np.float32)


def tensor(binary):
    out = triton.InferInput(source["name"], source["shape"], source["datatype"])
    out.set_data_from_numpy(frame, binary_data=binary)
    return out


expected, answers = None, 0
for request_coding in (None, "gzip", "deflate"):
    for response_coding in (None, "gzip", "deflate"):
        for binary_in in (True, False):
            for binary_out in (True, False, None):
                outputs = None if binary_out is None else [triton.InferRequestedOutput(target, binary_data=binary_out)]
                result = client.infer(name, [tensor(binary_in)], outputs=outputs, request_id="id7", priority=3, timeout=20_000_000,
                                      request_compression_algorithm=request_coding, response_compression_algorithm=response_coding,
                                      parameters={"mine": "x"}, headers={"X-Extra": "1"}, query_params={"q": "1"})
                expected = result.as_numpy(target) if expected is None else expected
                check(np.array_equal(result.as_numpy(target), expected), f"an answer: {request_coding} {response_coding} {binary_in} {binary_out}")
                check(result.get_response()["id"] == "id7" and result.get_response()["model_version"] == version, "an answer's head")
                answers += 1
classes = client.infer(name, [tensor(True)], outputs=[triton.InferRequestedOutput(target, class_count=2)], model_version=version).as_numpy(target)
check(classes.shape == (2,), f"classification's shape: {classes.shape}")
check(int(classes.flat[0].decode().split(":")[1]) == int(expected.argmax()), "classification")
pending = [client.async_infer(name, [tensor(True)]) for _ in range(16)]
check(all(np.array_equal(one.get_result().as_numpy(target), expected) for one in pending), "asynchronous answers")
statistics = client.get_inference_statistics(name)["model_stats"][0]
check(statistics["inference_stats"]["success"]["count"] == answers + 1 + len(pending), f"statistics: {statistics}")
client.get_inference_statistics()
refused("an unknown model", "404", lambda: client.infer("none", [tensor(True)]))
refused("a sequence", "501", lambda: client.infer(name, [tensor(True)], sequence_id=5, sequence_start=True))
refused("shared memory", "501", lambda: client.get_system_shared_memory_status())
refused("a region's registration", "501", lambda: client.register_cuda_shared_memory("x", b"handle", 0, 64))
refused("a load with a configuration", "501", lambda: client.load_model(name, config="{}"))
refused("a load of a model that is not there", "404", lambda: client.load_model("none"))
client.unload_model(name)
check(not client.is_model_ready(name), "health after unloading")
print(json.dumps({"answers": answers, "asynchronous": len(pending)}))
