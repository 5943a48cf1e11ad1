"""Writes a model folder of a few kilobytes: a two-layer Llama's config and a trained tokenizer, no weights.

usage: tiny-model.py FOLDER     (start the server with --load-format dummy)
"""

import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)

special = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>"]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
words = "a night walks its grid and every cell ends in a word with the line that proves it".split()
corpus = (" ".join(words[(i * k + k) % len(words)] for k in range(12)) + f" {i}" for i in range(2000))
tokenizer.train_from_iterator(
    corpus,
    trainers.BpeTrainer(vocab_size=1024, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
)
tokenizer.save(os.path.join(folder, "tokenizer.json"))


def write(name, content):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(content, f, indent=1)


ends = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
write("special_tokens_map.json", ends)
write(
    "tokenizer_config.json",
    ends
    | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    },
)
write(
    "config.json",
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 1024,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    },
)
