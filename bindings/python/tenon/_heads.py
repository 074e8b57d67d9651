"""Attention whose heads are fewer than its width has room for, which torch.nn.MultiheadAttention cannot be."""

import torch
from torch.nn import functional


class HeadAttention(torch.nn.Module):
    """What a torch.nn.MultiheadAttention that lost heads becomes: called as that, with None for the weights."""

    @classmethod
    def take(cls, module: torch.nn.MultiheadAttention) -> None:
        """Changes it in place, after its parameters were cut to whole heads."""
        module.num_heads = module.in_proj_weight.shape[0] // 3 // module.head_dim
        # torch's encoder layers ask for it before they take their fused path, which has heads of its own.
        module._qkv_same_embed_dim = False
        module.__class__ = cls

    def forward(self, query, key, value, key_padding_mask=None, need_weights=False, attn_mask=None,
                average_attn_weights=True, is_causal=False):  # fmt: skip
        if not self.batch_first:
            query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        weights = self.in_proj_weight.chunk(3)
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None, None, None)
        heads = [functional.linear(x, weight, bias).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
                 for x, weight, bias in zip((query, key, value), weights, biases)]  # fmt: skip
        if key_padding_mask is not None:
            hidden = torch.zeros_like(key_padding_mask, dtype=query.dtype).masked_fill(key_padding_mask, float("-inf"))
            hidden = hidden[:, None, None, :]
            attn_mask = hidden if attn_mask is None else attn_mask + hidden
        y = functional.scaled_dot_product_attention(*heads, attn_mask=attn_mask, is_causal=is_causal and attn_mask is None)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        return (y if self.batch_first else y.transpose(0, 1)), None
