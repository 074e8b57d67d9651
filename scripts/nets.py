"""Nets that Tenon was not built with, for measure_nets.py: torchvision's, timm's and transformers' architectures with seeded weights.

A net's name says where it is from: `timm_resnetv2_50`, `hf_bert`, and torchvision's without a prefix. `resnet50@16` is one for a batch of 16.
"""

VIDEO, SEGMENTATION = 112, 520  # sizes of torchvision's pictures; 224 elsewhere
SKIPPED = ("raft", "quantized", "rcnn", "ssd", "retinanet", "fcos", "vit_h", "vit_l", "regnet_y_128gf")

TIMM = """beit_base_patch16_224 cait_xxs24_224 coatnet_0_rw_224 convmixer_768_32 convnextv2_atto crossvit_tiny_240 davit_tiny deit_tiny_patch16_224
densenetblur121d dla34 dm_nfnet_f0 dpn68 edgenext_x_small efficientformer_l1 efficientnetv2_rw_t ese_vovnet19b_dw eva02_tiny_patch14_224 fastvit_t8
focalnet_tiny_srf gernet_s ghostnet_100 gmlp_s16_224 hgnetv2_b0 hrnet_w18_small inception_next_tiny lcnet_050 levit_128 mixer_s32_224 mixnet_s
mobilenetv4_conv_small mobileone_s0 mobilevit_s poolformer_s12 pvt_v2_b0 regnetz_b16 repvgg_a0 res2net50_26w_4s resmlp_12_224 resnest26d resnetv2_50
rexnet_100 selecsls42b seresnext26d_32x4d skresnet18 swinv2_tiny_window8_256 tiny_vit_5m_224 tinynet_a twins_svt_small volo_d1_224 xcit_tiny_12_p16_224""".split()

LAYERS, TOKENS = 4, 128  # of transformers' nets, whose widths are those of their base sizes

# Architecture -> (configuration, model, what its configuration says beside the number of layers; "tokens", where they are others, is no part of it).
TRANSFORMERS = {
    "albert": ("AlbertConfig", "AlbertModel", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}),
    "bart": ("BartConfig", "BartModel", {"d_model": 768, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": 12, "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}),
    "bert": ("BertConfig", "BertModel", {}),
    "bert_80": ("BertConfig", "BertModel", {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 16, "tokens": 512}),
    "bloom": ("BloomConfig", "BloomModel", {"hidden_size": 768, "n_layer": LAYERS, "n_head": 12, "vocab_size": 32000}),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", {}),
    "convbert": ("ConvBertConfig", "ConvBertModel", {}),
    "deberta_v2": ("DebertaV2Config", "DebertaV2Model", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "vocab_size": 32000, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "dinov2": ("Dinov2Config", "Dinov2Model", {"image_size": 224}),
    "distilbert": ("DistilBertConfig", "DistilBertModel", {"n_layers": LAYERS}),
    "electra": ("ElectraConfig", "ElectraModel", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}),
    "falcon": ("FalconConfig", "FalconModel", {"hidden_size": 768, "num_attention_heads": 12, "vocab_size": 32000}),
    "gemma2": ("Gemma2Config", "Gemma2Model", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 32000, "sliding_window": 64}),
    "gpt2": ("GPT2Config", "GPT2Model", {"n_layer": LAYERS}),
    "gpt2_512": ("GPT2Config", "GPT2Model", {"n_layer": LAYERS, "tokens": 512}),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXModel", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "vocab_size": 32000}),
    "llama": ("LlamaConfig", "LlamaModel", {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4}),
    "mistral": ("MistralConfig", "MistralModel", {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4, "sliding_window": 64}),
    "mpnet": ("MPNetConfig", "MPNetModel", {}),
    "opt": ("OPTConfig", "OPTModel", {"vocab_size": 32000}),
    "phi": ("PhiConfig", "PhiModel", {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "vocab_size": 32000}),
    "qwen2": ("Qwen2Config", "Qwen2Model", {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000}),
    "qwen3": ("Qwen3Config", "Qwen3Model", {"hidden_size": 768, "intermediate_size": 2048, "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000}),
    "roberta": ("RobertaConfig", "RobertaModel", {}),
    "segformer": ("SegformerConfig", "SegformerModel", {}),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertModel", {}),
    "t5_encoder": ("T5Config", "T5EncoderModel", {"num_layers": LAYERS}),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2Model", {}),
    "whisper_encoder": ("WhisperConfig", "WhisperEncoder", {"d_model": 512, "encoder_layers": LAYERS, "encoder_attention_heads": 8, "encoder_ffn_dim": 2048}),
}
PICTURES = ("clip_vision", "dinov2", "segformer")


def names():
    """All nets of the three libraries."""
    from torchvision import models

    ours = [name for name in models.list_models() if not any(part in name for part in SKIPPED)]
    return ours + [f"timm_{name}" for name in TIMM] + [f"hf_{name}" for name in TRANSFORMERS]


def torchvision_net(name):
    import torch
    from torchvision import models

    options = {}
    size = 299 if name == "inception_v3" else 224
    dims = (1, 3, size, size)
    if name in models.list_models(models.segmentation):
        options, dims = {"weights_backbone": None}, (1, 3, SEGMENTATION, SEGMENTATION)
    elif name in models.list_models(models.video):
        size = 224 if name.startswith(("mvit", "swin", "s3d")) else VIDEO
        dims = (1, 3, 16, size, size)
    elif name in ("inception_v3", "googlenet"):
        options = {"init_weights": True}
    return models.get_model(name, weights=None, **options), torch.randn(dims)


def timm_net(name):
    import timm
    import torch

    net = timm.create_model(name, pretrained=False, exportable=True)
    for parameter in net.parameters():  # scales of branches that start at nothing would hide all of a branch
        if parameter.detach().abs().max() < 1e-3:
            torch.nn.init.normal_(parameter, 0.1, 0.1)
    return net, torch.randn((1,) + net.default_cfg["input_size"])


def transformers_net(name):
    import torch
    import transformers

    config, model, said = TRANSFORMERS[name]
    said = dict(said)
    tokens = said.pop("tokens", TOKENS)
    if not any(key in said for key in ("n_layer", "n_layers", "encoder_layers", "num_layers")) and name != "segformer":
        said["num_hidden_layers"] = LAYERS
    if model == "WhisperEncoder":
        from transformers.models.whisper.modeling_whisper import WhisperEncoder as kind
    else:
        kind = getattr(transformers, model)
    configuration = getattr(transformers, config)(**said)
    configuration.use_cache = False
    net = kind(configuration)
    if name in PICTURES:
        return net, torch.randn(1, 3, 224, 224)
    if name == "wav2vec2":
        return net, torch.randn(1, 16000)
    if name == "whisper_encoder":
        return net, torch.randn(1, 80, 3000)
    return net, torch.randint(3, 30000, (1, tokens))


def made(name):
    """A net in evaluation mode that gives one tensor, and its one input.

    Weights are seeded, and statistics of batch normalizations such that outputs neither vanish nor explode.
    """
    import torch

    torch.manual_seed(0)
    name, _, batch = name.partition("@")
    library, _, short = name.partition("_")
    net, x = timm_net(short) if library == "timm" else transformers_net(short) if library == "hf" else torchvision_net(name)
    for module in net.modules():
        if isinstance(module, torch.nn.Linear) and not module.weight.any():  # a head that starts at nothing would hide all of the net
            torch.nn.init.normal_(module.weight, 0, 0.02)
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)

    class Output(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            y = self.net(x)
            return y if isinstance(y, torch.Tensor) else y["out"] if "out" in y else y[0]

    return Output().eval(), torch.cat([x] * int(batch or 1))
