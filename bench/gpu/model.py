"""Writes a model folder without weights: a config of Llama-3-8B's shape and a tokenizer of 32,000 entries.

usage: model.py FOLDER     (start the server with --load-format dummy)
"""
import glob, json, os, sys, sysconfig

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SIZE = 32000
SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>"]

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
texts = sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "**", "*.py"), recursive=True))[:1500]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train(texts, trainers.BpeTrainer(vocab_size=SIZE, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
if tokenizer.get_vocab_size() != SIZE:
    sys.exit(f"model.py: {tokenizer.get_vocab_size()} entries came of {len(texts)} files, {SIZE} are needed")


def write(name, content):
    with open(os.path.join(folder, name), "w") as f:
        json.dump(content, f, indent=1)


write("tokenizer_config.json", {
    "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIAL[0], "eos_token": SPECIAL[1], "model_max_length": 131072,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
})
write("config.json", {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": SIZE, "max_position_embeddings": 32768, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 0, "eos_token_id": 1,
})
tokenizer.save(os.path.join(folder, "tokenizer.json"))  # last: it says that the folder is whole
