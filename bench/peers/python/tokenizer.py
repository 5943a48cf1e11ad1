"""Makes a small byte-level BPE tokenizer in the folder that is given: 8,000 entries, learned from made-up words."""

import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)

rng = random.Random(1)
syllables = [consonant + vowel for consonant in "bcdfghklmnprstvz" for vowel in "aeiou"]
words = ["".join(rng.choice(syllables) for _ in range(rng.randint(1, 4))) for _ in range(9000)]
lines = [" ".join(rng.choice(words) for _ in range(40)) for _ in range(4000)]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=8000,
    special_tokens=["<s>", "</s>"],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tokenizer.train_from_iterator(lines, trainer)
tokenizer.save(str(folder / "tokenizer.json"))

settings = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "model_max_length": 1048576,
    "clean_up_tokenization_spaces": False,
}
(folder / "tokenizer_config.json").write_text(json.dumps(settings))
(folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": 8000, "n_positions": 1048576}))
