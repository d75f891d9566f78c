"""Writes subwords.json: small tokenizers of the shapes that models have, with hard texts as ids and
as what is decoded again.

    pip install tokenizers sentencepiece && python3 subwords.py
"""
import base64, io, json, os, random, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

here = os.path.dirname(os.path.abspath(__file__))
text = ["To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the",
        "slings and arrows of outrageous fortune, or to take arms against a sea of troubles 12 345 2026.",
        "naïve café Zürich 東京 你好 世界 привет мир ελλάδα हिन्दी العربية 🙂👍", "it's we'll I'm you've they're don't SHE'S", "x = 3.14; y += f(x)\n\treturn\n"] * 3
texts = ["", " ", "To be, or not to be", "  two  spaces\n\n\tand a tab ", "it's 'tis WE'LL I'M don'T 'ſ", "naïve café 東京 🙂", "x=3.14159; 2026 1234567 ½ ² ٣٤", "a<|end|>b", "a <|end|> b<|end|><|end|>", " lead", "Zürich\r\nnew line\r\n\r\nend\r",
         "👨\u200d👩\u200d👧 👍🏽 🇩🇪🇫🇷", "e\u0301 n\u0303 क्षि ก็ a\u0300\u0301\u0302\u0303", "ﬁne ①②Ⅳ ｆｕｌｌ ㌔ ǆ \ufb03", "İstanbul ẞ ŉ ΑΣ", "\u00a0nbsp\u3000wide\u200bzero\ufeffbom\u2028line", "tab\there\x0bvt\x0cff", "a" * 150, "antidisestablishmentarianism" * 5, "....!!!???——“”‘’", "<s> </s> <unk> [CLS] <0x41>", "a\u0000b\u0001c\x7fd\x85e", "مرحبا بالعالم", "한국어 조선말", "\ud7ff\ue000\ufffd\U0010ffff", "snake_case camelCase HTTP2Server __init__", "\n\n\n   \n  x", "▁under▁line _", "the the<|end|>the", "The  <mask> the<mask>the", "maybe be beside to_be 東京 be\u0301", "〇々⽭東⺔京ㄠ ฿", "TO to WE we  <mask>  <mask>x"]
all = []


def add(name, t, more=()):
    raw = json.loads(t.to_str())
    all.append({"name": name, "tokenizer": raw, "cases": [{"text": x, "ids": (i := t.encode(x).ids), "back": t.decode(i)} for x in texts + list(more)]})


def bpe(name, size=320, special=("<|end|>",), model=None, bytes_=True, **parts):
    t = Tokenizer(model or models.BPE())
    for k, v in parts.items():
        if k not in ("added",):
            setattr(t, k, v)
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if bytes_ else [], special_tokens=list(special), **parts.get("train", {})))
    t.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    for a in parts.get("added", []):
        t.add_tokens([a])
    add(name, t)


def level(**k):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **k)


def split(regex, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(regex), behavior, invert)


back = decoders.ByteLevel()
llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
bpe("gpt2", pre_tokenizer=level(), decoder=back)
bpe("gpt2 with a space first", pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True), decoder=back)
bpe("llama3", pre_tokenizer=pre_tokenizers.Sequence([split(llama3), level(use_regex=False)]), decoder=back, model=models.BPE(ignore_merges=True))
bpe("qwen2", normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.Sequence([split(llama3.replace("{1,3}", "")), level(use_regex=False)]), decoder=back)
bpe("gpt4o", pre_tokenizer=pre_tokenizers.Sequence([split(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"), level(use_regex=False)]), decoder=back)
bpe("deepseek", pre_tokenizer=pre_tokenizers.Sequence([split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), level(use_regex=False)]), decoder=back)
bpe("falcon", pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), level(), pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")]), decoder=back)
bpe("starcoder", pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Digits(True), level()]), decoder=back)
bpe("clip", model=models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), special=["<unk>"], normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
    pre_tokenizer=pre_tokenizers.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), level()]), decoder=decoders.BPEDecoder("</w>"), train={"end_of_word_suffix": "</w>"})
bpe("added tokens", pre_tokenizer=level(), decoder=back, added=[AddedToken("the", normalized=True), AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("be", single_word=True), AddedToken("東京", rstrip=True), AddedToken("<|end|><|end|>")])
bpe("normalized added tokens", normalizer=normalizers.Lowercase(), pre_tokenizer=level(), decoder=back, added=[AddedToken("TO", normalized=True), AddedToken("WE", normalized=False), AddedToken("<mask>", rstrip=True, normalized=False)])
raw_bytes = [f"<0x{b:02X}>" for b in range(256)]


def fallback(name, model, **parts):
    t = Tokenizer(model)
    for k, v in parts.items():
        setattr(t, k, v)
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=340, special_tokens=["<unk>", "<s>", "</s>"] + raw_bytes))
    raw = json.loads(t.to_str())
    raw["added_tokens"] = [a for a in raw["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(raw))
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    t.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    add(name, t)


spaces = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
fallback("llama2", models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
fallback("llama2 by words", models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False), decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
fallback("gemma", models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True), normalizer=normalizers.Replace(" ", "▁"), pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"), decoder=spaces)

# Unigram
rules = os.path.join(here, "rules.tsv")
with open(rules, "w") as f:
    f.write("\n".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) for a, b in [("ﬁ", "fi"), ("①", "1"), ("②", "2"), ("\t", " "), ("\u3000", " "), ("e\u0301", "é"), ("ｆ", "f"), ("ｕ", "u"), ("ｌ", "l"), ("\u200b", ""), ("a\u0300", "à"), ("👍🏽", "👍"), ("한", "han")]) + "\n")
m = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=m, vocab_size=120, normalization_rule_tsv=rules, minloglevel=2, hard_vocab_limit=False)
os.remove(rules)
p = sentencepiece_model_pb2.ModelProto()
p.ParseFromString(m.getvalue())
own = p.normalizer_spec.precompiled_charsmap
if len(sys.argv) > 1:  # another map, such as that of nmt_nfkc, from a model of SentencePiece's
    p.ParseFromString(open(sys.argv[1], "rb").read())
    own = p.normalizer_spec.precompiled_charsmap


def unigram(name, train={}, unk=0, bytes_=False, post=True, **parts):
    t = Tokenizer(models.Unigram())
    for k, v in parts.items():
        setattr(t, k, v)
    special = ["<unk>", "<s>", "</s>"]
    t.train_from_iterator(text, trainers.UnigramTrainer(vocab_size=180, special_tokens=special + (raw_bytes if bytes_ else []), unk_token="<unk>", **train))
    raw = json.loads(t.to_str())
    raw["added_tokens"] = [a for a in raw["added_tokens"] if not a["content"].startswith("<0x")]
    raw["model"]["byte_fallback"], raw["model"]["unk_id"] = bytes_, unk
    t = Tokenizer.from_str(json.dumps(raw))
    if post:
        t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    t.add_special_tokens([AddedToken("<|end|>", normalized=False), AddedToken("<mask>", lstrip=True, normalized=False)])
    add(name, t)


mapped = normalizers.Precompiled(own)
meta = lambda s="always", split=True: pre_tokenizers.Metaspace(prepend_scheme=s, split=split)
unigram("t5", normalizer=mapped, pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta()]), decoder=decoders.Metaspace())
unigram("xlm", normalizer=normalizers.Sequence([mapped, normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizer=meta(), decoder=decoders.Metaspace())
unigram("albert", normalizer=normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), mapped]), pre_tokenizer=meta(), decoder=decoders.Metaspace())
unigram("nmt", normalizer=normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizer=meta(), decoder=decoders.Metaspace())
unigram("unigram of bytes", bytes_=True, pre_tokenizer=meta("first", False), decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
unigram("unigram by spaces", normalizer=normalizers.Strip(), pre_tokenizer=meta("never"), decoder=decoders.Metaspace(prepend_scheme="never"), post=False)

# WordPiece
for cased in (False, True):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=not cased)
    t.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.add_special_tokens([AddedToken("<|end|>", normalized=False)])
    add("bert cased" if cased else "bert", t)

if __name__ == "__main__":
    name = os.environ.get("OUT", os.path.join(here, "subwords.json"))
    with open(name, "w") as f:
        json.dump(all, f, separators=(",", ":"), ensure_ascii=True)
