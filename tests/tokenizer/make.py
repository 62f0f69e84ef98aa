"""Makes the fixture of the tokenizer's tests with the `tokenizers` library of Hugging Face.

    python3 -m venv VENV && VENV/bin/pip install tokenizers
    VENV/bin/python tests/tokenizer/make.py

writes, beside itself:
    tokenizer.json  a byte-level BPE of some hundred merges, trained on the lines below
    cases.json      texts, and for each variant of the file what the library makes of them

A variant names a file and the parts of it that are replaced; its `ids` are one list for each text
(null: not part of this variant). `long` are [text, times], to be repeated; of their ids there are only
the number and a hash: h = (h * 1000003 + id) mod 2^32 over all, from 0. `decode` are id lists and the text that they give without
special tokens. The tests read the files; this script is not run by them.
"""
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
STAGES = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
          r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
          r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

CORPUS = """\
The quick brown fox jumps over the lazy dog. The dog was not amused, and the fox didn't care.
It's what we've got; they'll see that I'm right, you're wrong, and he'd say so. DON'T SHOUT!
In the beginning there was nothing, which exploded. Then there were numbers: 1 2 3 10 100 1000 2024.
for (int i = 0; i < n; i++) { sum += a[i] * b[i]; }  // the loop that everyone writes
    if (x == NULL) return -1;\n        else return 0;\n\n\treturn value;
def encode(text):\n    return [token for token in text.split(" ") if token]\n
Größe, Straße, Übermut und süße Äpfel. Le garçon a mangé du pâté à l'hôtel. El niño comió piñas.
Быстрая коричневая лиса прыгает через ленивую собаку. Это не так просто, как кажется.
我们的模型可以理解中文。今天天气很好，我们去公园吧。我们的模型很好。
これは日本語の文章です。トークナイザーのテストをしています。日本語です。
한국어 문장입니다. 오늘은 날씨가 좋습니다. 한국어입니다.
नमस्ते दुनिया। यह एक परीक्षण है। नमस्ते।
مرحبا بالعالم. هذا اختبار. مرحبا.
Emoji: 😀 😀 😀 😂 👍 👍🏽 👨‍👩‍👧‍👦 ❤️ 🎉🎉🎉
aaaaaaaaaaaaaaaa aaaaaaaa aaaa aa ======== ---- .... !!! ??? the the the the then there these
"""

TEXTS = [
    "", " ", "  ", "   ", " " * 17, "\n", "\n\n", "\r\n\n", "\r\n\r\n", "\t", "\t\t x", " \n ", " \n\n  a",
    "\u00a0", "\u00a0a", "a\u00a0b", "\u2003a", "a\u3000b", "\u0085x", "\u180ea", "\u180e!", "a\u200bb", "\u2028\u2029",
    "\u1680x", "a\u202fb", "\x1ca\x1d\x1e\x1f b", "a", "ab", "abc", "aaaa", "a b", " a", "a ", " a ", "  x",
    "1", "12", "123", "1234", "1234567", "12345678901234567890", "3.14159", "1,000,000", "½¾", "①②③④",
    "Ⅷ", "٣٤٥٦", "১২৩৪", "x1y2z3", "1st 2nd", "0x1F", "I'LL", "I'll", "don't", "DON'T", "it's'", "'s", "''s",
    "they've'd", "'\u017f", "x'\u017f y", "we\u2019re", "hello", "hello world", " whole", "whole", " whole whole",
    "Hello, World!", "the quick brown fox", "The quick brown fox jumps over the lazy dog.",
    "it's what we've got", "HTTPServerError", "camelCaseWords", "snake_case_words", "kebab-case-words",
    "__init__", "a.b.c", "...", "....", "!!!", "?!?!", "a!b?c", "$100", "100%", "#tag @name", "(a)(b)",
    "[[1,2],[3,4]]", "{\"a\": 1}", "<a href=\"x\">", "http://example.com/a?b=c&d=e#f", "x@y.z", "C:\\dir\\f",
    "for (int i = 0; i < n; i++) {\n    sum += a[i];\n}\n", "\tif x:\n\t\treturn\n", "a\n\n\nb", "a \n \n b",
    "a  b   c    d", "trailing   ", "   leading", "tab\tand space \t mix\t", "line\r\nline\r\n", "/* c */\n\n//\n",
    "é", "e\u0301", "e\u0301te\u0301", "Å\u212b\u0041\u030a", "ñ n\u0303", "a\u0300\u0301\u0302b", "\u0301", " \u0301",
    "Größe Straße", "STRASSE ẞ", "ﬁ ﬂ", "ǅ ǆ Ǆ", "İstanbul ıI", "naïve café", "Быстрая лиса", "ЭТО",
    "Ελληνικά Σσς", "עברית שָׁלוֹם", "مرحبا بالعالم", "مَرْحَبًا", "नमस्ते दुनिया", "क्ष", "ภาษาไทย ก็", "தமிழ்",
    "한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "日本語です。", "ﾊﾝｶｸ", "ー々〆", "我们的模型", "我们123的abc模型",
    "中文，标点。", "𠀀𠮷", "𝒳𝒴 𝟘𝟙", "ꙮ", "ᏣᎳᎩ", "ᠮᠣᠩᠭᠣᠯ", "Ꭰꭰ", "😀", "😀😂", "👍🏽", "👨‍👩‍👧‍👦", "❤️", "🇩🇪🇫🇷", "1️⃣", "a😀b",
    " 😀 ", "🏴\U000e0067\U000e0062\U000e007f", "\ufeffbom", "\ufffd", "\uffff", "\U0010ffff", "\ue000",
    "\u0378", "\x00", "a\x00b", "\x01\x02\x7f", "\x1b[0m", "\u0080\u009f", "\u00ad", "soft\u00adhyphen",
    "\u202eabc", "\u2066x\u2069", "z\u0335a\u0336", "x²+y³", "№ ™ © ®", "€£¥", "→ ⇒ ∀x∈ℝ", "─│┌┐", "«quoted»",
    "\u201cquoted\u201d", "a\u2014b", "a\u2026", "¿Qué?", "\u0120a\u010a", "\u0100\u0101", "Ġthe", "Ċ",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", " <|endoftext|> ", "<|endoftext|", "<|user|>",
    "<|user|>hi", "<|user|>x", "<|user|>xy", "<|use", "<<|user|>>", "<|<|user|>", "the<think>the", "<think>", "</think>\n\n",
    "  <mask>  x", "x <mask>", "<mask><mask>", " \t<mask>", "x  <sep>  y", "<sep>\n\nz", "<sep> <mask> <sep>", "<sep>  <mask>",
    "a\u3000<mask>b", "a<sep>\u2003\u00a0b", "<｜fin｜>", "x<｜fin｜>y", "<｜fin｜", "wordlowly", " lo", "hello lo", "lo", "llo loo",
    "lowlowlow", "the\u00e9\u00e9end", "\u00e9\u00e9", "\u00e9", "<|user|>lowly<think> lo <mask>", "<THINK>", "< think>",
    "a<think>", "a<", "a<mask>b", "there's", " there'", "x there'd", "我们的", " whole's",
]
LONG = [("a", 100000), (" ", 20000), ("\n", 5000), ("ab", 20000), ("1", 9999), ("the ", 3000), ("é", 5000), ("😀", 3000),
        ("=", 4097), ("<", 5000), ("我", 4000), ("  \n", 2000), ("aaab", 3000), ("'", 2000)]

# Added tokens: of the vocabulary (the first) and beyond it; some overlap, some take white space.
ADDED = [
    AddedToken("<|endoftext|>", special=True, normalized=False),
    AddedToken("<|user|>", special=True, normalized=False),
    AddedToken("<|user|>x", special=True, normalized=False),
    AddedToken("<think>", special=False, normalized=False),
    AddedToken("</think>", special=False, normalized=False),
    AddedToken("<mask>", special=True, normalized=False, lstrip=True),
    AddedToken("<sep>", special=True, normalized=False, rstrip=True),
    AddedToken("<｜fin｜>", special=True, normalized=False),
    AddedToken("lowly", special=False, normalized=True),
    AddedToken("low", special=False, normalized=True),
    AddedToken("éé", special=False, normalized=True),
    AddedToken("a<", special=False, normalized=True),  # begins in front of a token that goes first
]


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


# name, parts of the file, of its model, how many of the texts (0: all)
VARIANTS = [
    ("gpt4", {}, {}, 0),
    ("gpt2, merges as strings", {"pre_tokenizer": level(regex=True)}, {"merges": "strings"}, 0),
    ("gpt2 with a space in front", {"pre_tokenizer": level(True, True)}, {}, 2),
    ("no split, whole pieces first", {"pre_tokenizer": level()}, {"ignore_merges": True}, 4),
    ("gpt4, whole pieces first", {}, {"ignore_merges": True}, 0),
    ("gpt4 with a space in front of each piece",
     {"pre_tokenizer": sequence(split(GPT4), level(True, True))}, {}, 2),
    ("cased, matches kept", {"pre_tokenizer": sequence(split(CASED, "Removed", True), level())}, {}, 0),
    ("three stages", {"pre_tokenizer": sequence(*[split(p) for p in STAGES], level())}, {}, 0),
    ("a string, dropped", {"pre_tokenizer": sequence(sequence(split(".", "Removed", kind="String")),
                                                     split(r"\d"), level())}, {}, 4),
    ("nfc", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}}, {}, -1),
]


def straddle(vocab, merges):
    """Adds merges over the border of any two characters that are neighbours in a short text: a split
    that is missing or one too many then shows in the ids."""
    level_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in TEXTS:
        for a, b in zip(text[:12], text[1:12]):
            pair = [level_of.pre_tokenize_str(a)[0][0][-1], level_of.pre_tokenize_str(b)[0][0][0]]
            if "".join(pair) not in vocab:
                vocab["".join(pair)] = len(vocab)
                merges.append(pair)


def train():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(GPT4), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=256 + 520, show_progress=False, min_frequency=1,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tok.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    file = json.loads(tok.to_str())
    vocab = file["model"]["vocab"]
    for text in ("Ġwhole", "Ġthere'", "æĪĳä»¬çļĦ", "<|endoftext|>"):  # no merges lead to these
        vocab[text] = len(vocab)
    straddle(vocab, file["model"]["merges"])
    tok = Tokenizer.from_str(json.dumps(file))
    tok.add_tokens(ADDED)
    return json.loads(tok.to_str())


def texts():
    rng = random.Random(7)
    pieces = [t for t in TEXTS if t] + [" ", "\n", "the", " the", "'s", "1", "a", "  "]
    made = ["".join(rng.choice(pieces) for _ in range(rng.randint(2, 5))) for _ in range(110)]
    lines = [line for line in CORPUS.splitlines(keepends=True)]
    return TEXTS + lines + made


def patch(file, parts, model):
    file = json.loads(json.dumps(file))
    file.update(parts)
    file["model"].update(model)
    if model.get("merges") == "strings":
        file["model"]["merges"] = PAIRS
    return Tokenizer.from_str(json.dumps(file))


def digest(ids):
    h = 0
    for i in ids:
        h = (h * 1000003 + i) & 0xffffffff
    return [len(ids), h]


def encode_all(tok, all_texts, every):
    def wanted(i, text):
        return all(ord(c) < 0x300 for c in text) if every < 0 else every == 0 or i % every == 0
    return [tok.encode(t, add_special_tokens=False).ids if wanted(i, t) else None
            for i, t in enumerate(all_texts)]


def decodings(tok):
    rng = random.Random(11)
    count = tok.get_vocab_size()
    lists = [[], list(tok.encode("👨‍👩‍👧‍👦 한국어 e\u0301").ids)]
    for n in range(60):  # among single bytes there are many broken characters
        lists.append([rng.randrange(256 if n % 2 else count) for _ in range(rng.randint(1, 12))])
    emoji = tok.encode("😀").ids
    lists += [emoji[:-1], emoji[1:], emoji[:-1] + tok.encode("a").ids]
    return [[ids, tok.decode(ids, skip_special_tokens=True)] for ids in lists]


def write(name, value):
    with open(os.path.join(HERE, name), "w", encoding="ascii") as f:
        json.dump(value, f, separators=(",", ":"))
        f.write("\n")


base = train()
PAIRS = base["model"]["merges"]
write("tokenizer.json", base)
plain = texts()
variants = []
for name, parts, model, every in VARIANTS:
    tok = patch(base, parts, model)
    variants.append({"name": name, "file": "tests/tokenizer/tokenizer.json", "parts": parts,
                     "model": model, "ids": encode_all(tok, plain, every)})
    if every == 0:
        variants[-1]["long"] = [digest(tok.encode(t * n).ids) for t, n in LONG]
tiny = Tokenizer.from_file(os.path.join(HERE, "../tiny/tokenizer.json"))
variants.append({"name": "tiny", "file": "tests/tiny/tokenizer.json", "parts": {}, "model": {},
                 "ids": encode_all(tiny, plain, 5)})
write("cases.json", {
    "texts": plain, "long": LONG, "variants": variants,
    "decode": decodings(patch(base, {}, {})), "tiny_decode": decodings(tiny),
})
