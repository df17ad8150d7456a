"""Turn a quantised GGUF file into bf16 safetensors. Run by the interpreter that has transformers.

python unpack_model.py MODEL.gguf OUT_DIR
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

gguf, out = Path(sys.argv[1]), sys.argv[2]
source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
model = AutoModelForCausalLM.from_pretrained(
    **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
)
model.save_pretrained(out)
AutoTokenizer.from_pretrained(**source).save_pretrained(out)
