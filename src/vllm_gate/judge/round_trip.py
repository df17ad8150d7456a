"""Whether a text survives the way to token ids and back."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

SAMPLES: Mapping[str, str] = {
    "English": "The quick brown fox jumps over 13 lazy dogs; isn't that 100% fine?",
    "code": "def f(x):\n    return {'a': x ** 2, \"b\": [1, 2]}  # ok\n",
    "Chinese": "模型发布之前，先检查它的回答。",
    "Japanese": "公開する前に、モデルの答えを確かめます。",
    "Korean": "배포하기 전에 모델의 답을 확인합니다.",
    "Russian": "Перед выпуском проверяем ответы модели.",
    "Arabic": "نتحقق من إجابات النموذج قبل إصداره.",
    "Hindi": "जारी करने से पहले मॉडल के उत्तर जाँचें।",
    "Thai": "ตรวจคำตอบของโมเดลก่อนปล่อยใช้งาน",
    "emoji": "naïve café 👩‍💻🚀",
}
"""Texts by name, in the scripts that users write."""


def survives(text: str, back: str) -> bool:
    """Whether the text came back as it was; space around it is not the tokenizer's concern."""
    return text.strip() == back.strip()


def survives_normalized(text: str, back: str) -> bool:
    """The same, save for what some tokenizers change by design: compatibility forms, letter case, spacing."""
    return _folded(text) == _folded(back)


def _folded(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
