"""Published models at small sizes, as the package `transformers` has them."""

import transformers as of

SMALL = dict(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4
)
SERVED = dict(SMALL, num_key_value_heads=2, use_cache=False)
HEADS = dict(SERVED, head_dim=8)


def llama():
    return of.LlamaForCausalLM(of.LlamaConfig(**SERVED))


def gpt2():
    sizes = dict(vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=32, use_cache=False)
    return of.GPT2LMHeadModel(of.GPT2Config(**sizes))


def mistral():
    return of.MistralForCausalLM(of.MistralConfig(**HEADS, sliding_window=8))


def gemma2():
    layers = dict(HEADS, num_hidden_layers=4, sliding_window=8)
    return of.Gemma2ForCausalLM(of.Gemma2Config(**layers))


def gemma3():
    layers = dict(HEADS, num_hidden_layers=6, sliding_window=8)
    return of.Gemma3ForCausalLM(of.Gemma3TextConfig(**layers))


def qwen2():
    return of.Qwen2ForCausalLM(of.Qwen2Config(**SERVED))


def qwen3():
    return of.Qwen3ForCausalLM(of.Qwen3Config(**HEADS))


def olmo2():
    return of.Olmo2ForCausalLM(of.Olmo2Config(**dict(SERVED, num_key_value_heads=4)))


def phi():
    return of.PhiForCausalLM(of.PhiConfig(**SMALL, use_cache=False))


def neox():
    return of.GPTNeoXForCausalLM(of.GPTNeoXConfig(**SMALL, use_cache=False))


def starcoder2():
    return of.Starcoder2ForCausalLM(of.Starcoder2Config(**SERVED))


def opt():
    sizes = dict(vocab_size=64, hidden_size=32, ffn_dim=64, num_hidden_layers=3)
    more = dict(num_attention_heads=4, word_embed_proj_dim=32, max_position_embeddings=32)
    return of.OPTForCausalLM(of.OPTConfig(**sizes, **more, use_cache=False))


def bert():
    return of.BertForMaskedLM(of.BertConfig(**SMALL, max_position_embeddings=32))


def roberta():
    return of.RobertaForMaskedLM(of.RobertaConfig(**SMALL, max_position_embeddings=34))


def clip_text():
    return of.CLIPTextModel(of.CLIPTextConfig(**SMALL, max_position_embeddings=32))


def t5():
    sizes = dict(vocab_size=64, d_model=32, d_ff=64, num_layers=3, num_heads=4, d_kv=8)
    return of.T5ForConditionalGeneration(of.T5Config(**sizes, use_cache=False))


def vit():
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=3)
    more = dict(num_attention_heads=4, image_size=16, patch_size=4)
    return of.ViTForImageClassification(of.ViTConfig(**sizes, **more))


TOKENS = "input_ids=int64[B:2, T:16]"
CASES = {
    **dict.fromkeys(
        "gpt2 mistral gemma2 gemma3 qwen2 qwen3 olmo2 phi neox starcoder2 opt bert roberta "
        "clip_text".split(),
        TOKENS,
    ),
    "llama": TOKENS + ", labels=int64[B:2, T:16]",
    "t5": TOKENS + ", decoder_input_ids=int64[B:2, U:8]",
    "vit": "pixel_values=f32[B:2, 3, 16, 16]",
}
