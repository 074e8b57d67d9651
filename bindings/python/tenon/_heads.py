"""Attention whose heads are fewer than its width has room for, which torch.nn.MultiheadAttention cannot be."""

import torch
from torch.nn import functional

from ._errors import usage


class HeadAttention(torch.nn.Module):
    """What a torch.nn.MultiheadAttention that lost heads becomes: called as that, with None for the weights."""

    @staticmethod
    def check(module: torch.nn.MultiheadAttention, path: str) -> None:
        """An error for one that `take` cannot change."""
        for name, is_there in (("bias_k", module.bias_k is not None), ("add_zero_attn", module.add_zero_attn)):
            if is_there:
                raise usage("TN0105", f"the attention '{path}' has {name}, which an attention that lost heads cannot have",
                            "prune without its heads: --keep the nodes that the report lists with them")  # fmt: skip

    @classmethod
    def take(cls, module: torch.nn.MultiheadAttention) -> None:
        """Changes it in place, after its parameters were cut to whole heads."""
        fused = module.in_proj_weight
        module.num_heads = (module.q_proj_weight.shape[0] if fused is None else fused.shape[0] // 3) // module.head_dim
        # torch's encoder layers ask for it before they take their fused path, which has heads of its own.
        module._qkv_same_embed_dim = False
        module.__class__ = cls

    def forward(self, query, key, value, key_padding_mask=None, need_weights=False, attn_mask=None,
                average_attn_weights=True, is_causal=False):  # fmt: skip
        if is_causal and attn_mask is None:
            raise usage("TN0105", "is_causal is a hint about attn_mask, which is not given", "give attn_mask too")
        is_batched = query.dim() == 3
        if not is_batched:
            query, key, value = (part.unsqueeze(0) for part in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        own = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = own if self.in_proj_weight is None else self.in_proj_weight.chunk(3)
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None, None, None)
        heads = [functional.linear(x, weight, bias).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
                 for x, weight, bias in zip((query, key, value), weights, biases)]  # fmt: skip
        p = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(*heads, attn_mask=self._addend(query, attn_mask, key_padding_mask), dropout_p=p)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        if not is_batched:
            return y.squeeze(0), None
        return (y if self.batch_first else y.transpose(0, 1)), None

    def _addend(self, query, attn_mask, key_padding_mask):
        """Both masks as one that is added to the scores. Of bool ones True hides, as in torch.nn.MultiheadAttention, and other than
        in scaled_dot_product_attention."""
        masks = []
        for mask in (attn_mask, key_padding_mask):
            is_bool = mask is not None and mask.dtype == torch.bool
            masks.append(torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, float("-inf")) if is_bool else mask)
        attn_mask, key_padding_mask = masks
        if attn_mask is not None and attn_mask.dim() == 3:
            if attn_mask.shape[0] != query.shape[0] * self.num_heads:
                raise usage("TN0105", f"attn_mask has {attn_mask.shape[0]} masks, needed are {query.shape[0]} * {self.num_heads}: heads were removed",
                            "give the masks of the heads that are left")  # fmt: skip
            attn_mask = attn_mask.unflatten(0, (query.shape[0], self.num_heads))
        if key_padding_mask is None:
            return attn_mask
        key_padding_mask = key_padding_mask[:, None, None, :]
        return key_padding_mask if attn_mask is None else attn_mask + key_padding_mask
