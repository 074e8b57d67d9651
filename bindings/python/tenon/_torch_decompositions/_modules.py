"""Whole modules that PyTorch computes by one operator, where that is its fast path."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from ._table import along, is_fixed, own


@own("_native_multi_head_attention.default")
def multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True,
                         average_attn_weights=True, mask_type=None):  # fmt: skip
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    batch, size = query.shape[0], embed_dim // num_head

    def heads(x, part):
        return F.linear(x, weights[part], biases[part]).reshape(batch, x.shape[1], num_head, size).transpose(1, 2)

    q, k, v = heads(query, 0), heads(key, 1), heads(value, 2)
    scores = q @ k.transpose(-1, -2) / math.sqrt(size)
    if mask is not None:
        hidden = mask.to(torch.bool)
        scores = scores.masked_fill(hidden.reshape(batch, 1, 1, -1) if mask_type == 1 else hidden, -math.inf)
    probabilities = scores.softmax(-1)
    result = F.linear((probabilities @ v).transpose(1, 2).reshape(query.shape), proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, probabilities.mean(1) if average_attn_weights else probabilities


@own("_transformer_encoder_layer_fwd.default")
def encoder_layer(x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1,
                  norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):  # fmt: skip
    def first(y):
        return F.layer_norm(y, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(y):
        return F.layer_norm(y, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attention(y):
        return multi_head_attention(
            y, y, y, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )[0]  # fmt: skip

    def feed_forward(y):
        y = F.linear(y, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(y) if use_gelu else F.relu(y), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = x + attention(first(x))
        return x + feed_forward(second(x))
    x = first(x + attention(x))
    return second(x + feed_forward(x))


@own("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False,
                  padding_idx=-1):  # fmt: skip
    """Sums (mode 0), means (1) or maxima (2) of the rows of each bag."""
    bags = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    starts = offsets[:bags]
    place = torch.arange(indices.shape[0], device=indices.device)
    bag = (place.unsqueeze(-1) >= starts).sum(-1) - 1
    counts = indices != padding_idx
    rows = weight[indices]
    sizes = torch.zeros(bags, dtype=torch.int64, device=indices.device).index_add(0, bag, counts.to(torch.int64))
    empty = weight.new_empty(0), indices.new_empty(0)
    if mode == 2:
        rows = torch.where(counts.unsqueeze(-1), rows, -math.inf)
        least = weight.new_full((bags, weight.shape[1]), -math.inf)
        result = least.scatter_reduce(0, bag.unsqueeze(-1).expand(rows.shape), rows, "amax")
        return torch.where((sizes == 0).unsqueeze(-1), 0, result), bag, sizes, empty[1]
    rows = rows * (counts if per_sample_weights is None else counts * per_sample_weights).unsqueeze(-1).to(rows.dtype)
    result = weight.new_zeros(bags, weight.shape[1]).index_add(0, bag, rows)
    if mode == 1:
        result = result / sizes.clamp(min=1).unsqueeze(-1).to(result.dtype)
    return result, bag, sizes, empty[1]


@own("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(x, output_size):
    """Windows as long as the longest, from a gather; what is beyond the own end counts as nothing."""
    output_size = [output_size] if isinstance(output_size, int) else list(output_size)
    count = len(output_size)
    sizes = x.shape[-count:]
    if not is_fixed(*sizes, *output_size):
        return NotImplemented
    lead = x.dim() - count
    flat, hidden = torch.zeros((), dtype=torch.int64, device=x.device), None
    windows = x
    for index, (size, out) in enumerate(zip(sizes, output_size)):
        longest = max((i * size + size + out - 1) // out - i * size // out for i in range(out))
        start = torch.arange(out, device=x.device) * size // out
        end = (torch.arange(1, out + 1, device=x.device) * size + out - 1) // out
        place = start.unsqueeze(-1) + torch.arange(longest, device=x.device)
        beyond, place = place >= end.unsqueeze(-1), place.clamp(max=size - 1)
        dim = lead + 2 * index
        windows = windows.index_select(dim, place.reshape(-1)).unflatten(dim, (out, longest))
        shape = [1] * (2 * count)
        shape[2 * index : 2 * index + 2] = out, longest
        beyond, place = beyond.reshape(shape), place.reshape(shape)
        hidden = beyond if hidden is None else hidden | beyond
        flat = flat * size + place
    windows = torch.where(hidden, -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min, windows)
    order = list(range(lead)) + [lead + 2 * i for i in range(count)] + [lead + 2 * i + 1 for i in range(count)]
    windows = windows.permute(order).flatten(lead + count)
    flat = flat.expand(hidden.shape).permute([axis - lead for axis in order[lead:]]).flatten(count)
    at = windows.argmax(-1, keepdim=True)
    return windows.gather(-1, at).squeeze(-1), flat.expand(windows.shape).gather(-1, at).squeeze(-1)


def _quantized(x, scale, zero, low, high):
    q = ((x.float() * (1 / scale)).round() + zero).clamp(low, high)
    is_inside = ((x.float() * (1 / scale)).round() + zero == q) & ~x.isnan()
    return ((q - zero) * scale).to(x.dtype), is_inside


@own("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "fake_quantize_per_tensor_affine_cachemask")
def fake_quantize(x, scale, zero_point, *rest):
    *enabled, low, high = rest
    both = _quantized(x, scale, zero_point, low, high)
    if enabled:
        on = (enabled[0] == 1).reshape(())
        both = torch.where(on, both[0], x), both[1] | ~on
    return both


@own("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels(x, scale, zero_point, axis, low, high):
    return _quantized(x, along(scale, axis, x.dim()), along(zero_point, axis, x.dim()).float(), low, high)


for _name in ("fake_quantize_per_tensor_affine.default", "fake_quantize_per_tensor_affine.tensor_qparams", "fake_quantize_per_channel_affine.default"):
    own(_name)(lambda *args, _both=fake_quantize if "tensor" in _name else fake_quantize_channels: _both(*args)[0])


@own("rrelu")
def rrelu(x, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    """Of inference: the mean of the slopes."""
    return NotImplemented if training else F.leaky_relu(x, (lower + upper) / 2)


@own("rrelu_with_noise.default")
def rrelu_with_noise(x, noise, *rest):
    return rrelu(x, *rest)


@own("rrelu_with_noise_functional")
def rrelu_with_noise_functional(x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    return NotImplemented if training else (rrelu(x, lower, upper), noise)
