"""Writes small random models as Hugging Face's libraries do, and values.json: what transformers
and peft make of them.

    pip install torch transformers tokenizers peft && python3 models.py

Each folder has config.json, weights, and for some a tokenizer. values.json has for each folder
ids, what else goes in, and logits, and the tokens that follow the first four; for tokenizers, texts with their ids and what is decoded
again; for gpt2, weights after one step of gradient descent on its next tokens; for llama, the
logits with a LoRA adapter, and the adapter after such a step.
"""
import copy, json, os, shutil
import torch
import transformers as tr
from peft import LoraConfig, get_peft_model
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

here = os.path.dirname(os.path.abspath(__file__))
text = """To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the
slings and arrows of outrageous fortune, or to take arms against a sea of troubles. """ * 3
cases = ["To be, or not to be", "  two  spaces\n\n\tand a tab ", "it's 'tis WE'LL", "naïve café 東京 🙂", "x=3.14159; 2026", "", "a<|end|>b", " lead", "Zürich\r\nnew line"]
values = {}


def flat(t):
    return [float(f"{x:.7g}") for x in t.detach().float().flatten().tolist()]


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        noise = torch.randn(p.shape, generator=g)
        with torch.no_grad():
            p.copy_(p + noise * 0.2 if p.dim() == 1 else noise * (0.5 if "embed" in name or "wte" in name else 0.25))
    return model.eval()


def folder(name):
    path = os.path.join(here, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def save(name, model, **kw):
    model.save_pretrained(folder(name), **kw)
    for extra in ("generation_config.json", "README.md"):
        if os.path.exists(os.path.join(here, name, extra)):
            os.remove(os.path.join(here, name, extra))


def ids(vocab, n=2, length=9):
    k = torch.arange(n * length)
    return ((k * k + 3 * k + 1) % vocab).reshape(n, length)


def causal(name, model, vocab, length=9, **kw):
    save(name, model, **kw)
    x = ids(vocab, length=length)
    y = x[:, :4]
    for _ in range(12):  # the most likely token, by the whole text each time
        y = torch.cat([y, model(y).logits[:, -1:].argmax(-1)], 1)
    values[name] = {"ids": x.tolist(), "logits": flat(model(x).logits), "greedy": y[:, 4:].tolist()}
    return x


def tokens(name, tokenizer):
    tokenizer.save(os.path.join(here, name, "tokenizer.json"))
    values[name]["tokens"] = [{"text": t, "ids": (i := tokenizer.encode(t).ids), "back": tokenizer.decode(i), "bare": tokenizer.encode(t, add_special_tokens=False).ids} for t in cases]


# Tokenizers
byte_level = Tokenizer(models.BPE())
byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
byte_level.decoder = decoders.ByteLevel()
byte_level.train_from_iterator([text], trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|end|>"]))

llama3 = Tokenizer(models.BPE(ignore_merges=True))
llama3.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(__import__("tokenizers").Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
llama3.decoder = decoders.ByteLevel()
llama3.train_from_iterator([text], trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|begin|>", "<|end|>"]))
llama3.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 0)])])

metaspace = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
metaspace.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
metaspace.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
metaspace.train_from_iterator([text], trainers.BpeTrainer(vocab_size=340, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
raw = json.loads(metaspace.to_str())
raw["added_tokens"] = [a for a in raw["added_tokens"] if not a["content"].startswith("<0x")]  # bytes are no special tokens
metaspace = Tokenizer.from_str(json.dumps(raw))
metaspace.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
metaspace.add_special_tokens([AddedToken("<|end|>", normalized=False)])

word_piece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
word_piece.normalizer = normalizers.BertNormalizer(lowercase=True)
word_piece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
word_piece.decoder = decoders.WordPiece()
word_piece.train_from_iterator([text + "naive cafe 京"], trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
word_piece.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])

# GPT-2, and a step of gradient descent
gpt2 = randomize(tr.GPT2LMHeadModel(tr.GPT2Config(vocab_size=byte_level.get_vocab_size(), n_positions=32, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, bos_token_id=0, eos_token_id=0)), 1)
x = causal("gpt2", gpt2, byte_level.get_vocab_size())
tokens("gpt2", byte_level)
labels = (x + 1) % 300
loss = torch.nn.functional.cross_entropy(gpt2(x).logits.reshape(-1, 300), labels.reshape(-1))
loss.backward()
with torch.no_grad():
    after = {n: flat((p - 0.1 * p.grad)) for n, p in gpt2.named_parameters() if "ln" in n or "h.1.attn" in n or n == "transformer.wpe.weight" or n == "transformer.wte.weight"}
values["gpt2"] |= {"labels": labels.tolist(), "loss": float(loss), "after": after}

base = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None)
scaling = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
llama = randomize(tr.LlamaForCausalLM(tr.LlamaConfig(vocab_size=300, rms_norm_eps=1e-5, rope_theta=500.0, rope_scaling=scaling, head_dim=6, **base)), 2)
with torch.no_grad():
    for p in llama.parameters():
        p.copy_(p.to(torch.bfloat16))
llama_x = causal("llama", llama, 300)
copy.deepcopy(llama).to(torch.bfloat16).save_pretrained(folder("llama"), max_shard_size="24KB")  # in several files
os.remove(os.path.join(here, "llama", "generation_config.json"))
tokens("llama", llama3)

causal("llama-linear", randomize(tr.LlamaForCausalLM(tr.LlamaConfig(vocab_size=40, attention_bias=True, mlp_bias=True, rope_scaling={"rope_type": "linear", "factor": 3.0}, **base)), 3), 40)
short = {"rope_type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0], "original_max_position_embeddings": 32}
causal("llama-longrope", randomize(tr.LlamaForCausalLM(tr.LlamaConfig(vocab_size=40, rope_scaling=short, **base)), 16), 40)
causal("llama-yarn", randomize(tr.LlamaForCausalLM(tr.LlamaConfig(vocab_size=40, tie_word_embeddings=True, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}, **base)), 4), 40)
mistral = randomize(tr.MistralForCausalLM(tr.MistralConfig(vocab_size=metaspace.get_vocab_size(), sliding_window=4, **base)), 5)
causal("mistral", mistral, metaspace.get_vocab_size())
tokens("mistral", metaspace)
causal("qwen2", randomize(tr.Qwen2ForCausalLM(tr.Qwen2Config(vocab_size=40, tie_word_embeddings=True, use_sliding_window=True, sliding_window=3, max_window_layers=1, **base)), 6), 40)
causal("qwen3", randomize(tr.Qwen3ForCausalLM(tr.Qwen3Config(vocab_size=40, head_dim=6, **base)), 7), 40)
causal("gemma", randomize(tr.GemmaForCausalLM(tr.GemmaConfig(vocab_size=40, head_dim=6, **base)), 8), 40)
causal("gemma2", randomize(tr.Gemma2ForCausalLM(tr.Gemma2Config(vocab_size=40, head_dim=6, query_pre_attn_scalar=10, sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, attn_implementation="eager", **base)), 9), 40)
causal("gemma3", randomize(tr.Gemma3ForCausalLM(tr.Gemma3TextConfig(vocab_size=40, head_dim=6, query_pre_attn_scalar=6, sliding_window=4, layer_types=["sliding_attention", "full_attention"], rope_theta=1000.0, rope_local_base_freq=100.0, rope_scaling={"rope_type": "linear", "factor": 8.0}, attn_implementation="eager", **base)), 10), 40)
causal("phi3", randomize(tr.Phi3ForCausalLM(tr.Phi3Config(vocab_size=40, **base)), 11), 40)

# BERT, with padding and token types
bert_config = dict(vocab_size=word_piece.get_vocab_size(), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=32, pad_token_id=0)
x = ids(word_piece.get_vocab_size())
mask = torch.ones_like(x)
mask[1, 6:] = 0
types = torch.zeros_like(x)
types[:, 4:] = 1
for name, kind in {"bert": tr.BertForSequenceClassification, "bert-masked": tr.BertForMaskedLM, "bert-base": tr.BertModel, "bert-tokens": tr.BertForTokenClassification}.items():
    m = randomize(kind(tr.BertConfig(num_labels=3, **bert_config)), 12)
    save(name, m)
    out = m(x, attention_mask=mask, token_type_ids=types)
    values[name] = {"ids": x.tolist(), "mask": mask.tolist(), "types": types.tolist(), "logits": flat(out.logits if hasattr(out, "logits") else out.last_hidden_state)}
tokens("bert", word_piece)

# Roberta and DistilBERT, with padding
for name, m in {"roberta": tr.RobertaForSequenceClassification(tr.RobertaConfig(**(bert_config | {"vocab_size": 40, "pad_token_id": 1, "type_vocab_size": 1}), num_labels=3)),
                "distilbert": tr.DistilBertForSequenceClassification(tr.DistilBertConfig(vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=32, num_labels=3))}.items():
    m = randomize(m, 13)
    save(name, m)
    y = ids(38) + 2
    y[1, 6:] = m.config.pad_token_id
    values[name] = {"ids": y.tolist(), "mask": mask.tolist(), "logits": flat(m(y, attention_mask=mask).logits)}

# ViT
vit = randomize(tr.ViTForImageClassification(tr.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4, num_channels=3, num_labels=5)), 14)
save("vit", vit)
images = torch.sin(torch.arange(2 * 8 * 8 * 3) * 0.7).reshape(2, 8, 8, 3) / 2
values["vit"] = {"images": flat(images), "logits": flat(vit(images.permute(0, 3, 1, 2)).logits)}

# LoRA, as peft has it
adapted = get_peft_model(llama, LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"))
g = torch.Generator().manual_seed(15)
for n, p in sorted(adapted.named_parameters()):
    if "lora" in n:
        with torch.no_grad():
            p.copy_(torch.randn(p.shape, generator=g) * 0.3)
adapted.eval()
adapted.save_pretrained(folder("lora"))
os.remove(os.path.join(here, "lora", "README.md"))
logits = adapted(llama_x).logits
values["lora"] = {"ids": llama_x.tolist(), "logits": flat(logits)}
labels = (llama_x + 1) % 300
torch.nn.functional.cross_entropy(logits.reshape(-1, 300), labels.reshape(-1)).backward()
values["lora"] |= {"labels": labels.tolist(), "after": {n.replace(".default", ""): flat(p - 0.1 * p.grad) for n, p in adapted.named_parameters() if "lora" in n and "layers.0" in n}}

with open(os.path.join(here, "values.json"), "w") as f:
    json.dump(values, f, separators=(",", ":"), ensure_ascii=False)
