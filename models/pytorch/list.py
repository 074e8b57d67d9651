"""The PyTorch architectures that Tenon is held to, as data: a line a model, its constructor, its inputs and their dims.

Relies on nothing, so that names can be listed without torch; build.py makes the models. torchvision's are at their real
size. Those of transformers are configurations of two narrow layers: what they test is operators and shapes, not speed.
"""

from dataclasses import dataclass, field

# The sizes of the example, the least and the largest that an export declares, and others that an engine must take too:
# with dims of its own name for each, torch does not export what also holds for a batch of one.
EXAMPLE = {"batch": 2, "sequence": 12, "target": 7}
RANGES = {"batch": (1, 16), "sequence": (2, 60), "target": (2, 60)}
OTHER = {"named": {"batch": 1, "sequence": 9, "target": 5}, "dynamic": {"batch": 3, "sequence": 9, "target": 5}}


@dataclass(frozen=True)
class Input:
    """One input: what fills it (picture, noise, unit, ids below `limit`, mask, zeros), its dims, symbols by their name."""

    fill: str
    dims: tuple
    limit: int = 0


@dataclass(frozen=True)
class Model:
    """`make` is a dotted name below torchvision.models, or an automatic class and a model type of transformers, whose
    configuration `config` changes. `wrap` names the module of build.py around it, whose inputs and outputs are tensors."""

    name: str
    family: str
    make: str
    inputs: dict
    config: dict = field(default_factory=dict)
    wrap: str = ""


MODELS = []


def add(name, family, make, inputs, config=None, wrap=""):
    MODELS.append(Model(name, family, make, inputs, config or {}, wrap))


def picture(size=224, batch="batch", channels=3):
    return Input("picture", (batch, channels, size, size))


IMAGE = {"image": picture()}


def classifiers(names, inputs=IMAGE, **config):
    for name in names.split():
        add(name, "torchvision classification", name, inputs, config)


classifiers("alexnet vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn")
classifiers("squeezenet1_0 squeezenet1_1 shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0")
classifiers("resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d resnext101_64x4d")
classifiers("wide_resnet50_2 wide_resnet101_2 densenet121 densenet161 densenet169 densenet201")
classifiers("googlenet", init_weights=False)
classifiers("inception_v3", {"image": picture(299)}, init_weights=False)
classifiers("mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large")
classifiers("efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_b5")
classifiers("efficientnet_b6 efficientnet_b7 efficientnet_v2_s efficientnet_v2_m efficientnet_v2_l")
classifiers("regnet_x_400mf regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf regnet_x_16gf regnet_x_32gf")
classifiers("regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf regnet_y_16gf regnet_y_32gf")
classifiers("regnet_y_128gf convnext_tiny convnext_small convnext_base convnext_large")
classifiers("vit_b_16 vit_b_32 vit_l_16 vit_l_32 vit_h_14 swin_t swin_s swin_b swin_v2_t swin_v2_s swin_v2_b maxvit_t")

# A detector asks for a list of pictures: here one, of a size that it does not change. Few candidates are kept, so that the
# choice among thousands of near equals, which rounding would make, does not decide what is compared.
def detectors(names, size, **config):
    for name in names.split():
        add(name, "torchvision detection", f"detection.{name}", {"image": picture(size, 1)},
            {"weights_backbone": None, "num_classes": 8, **config}, "detections")


detectors("fasterrcnn_mobilenet_v3_large_320_fpn fasterrcnn_mobilenet_v3_large_fpn fasterrcnn_resnet50_fpn "
          "fasterrcnn_resnet50_fpn_v2 maskrcnn_resnet50_fpn maskrcnn_resnet50_fpn_v2 keypointrcnn_resnet50_fpn", 224,
          min_size=224, max_size=224, rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=20, box_detections_per_img=20)
detectors("retinanet_resnet50_fpn retinanet_resnet50_fpn_v2 fcos_resnet50_fpn", 224, min_size=224, max_size=224,
          topk_candidates=40, detections_per_img=20)
detectors("ssd300_vgg16", 300, topk_candidates=40, detections_per_img=20)
detectors("ssdlite320_mobilenet_v3_large", 320, topk_candidates=40, detections_per_img=20)

for name in ("fcn_resnet50 fcn_resnet101 deeplabv3_resnet50 deeplabv3_resnet101 deeplabv3_mobilenet_v3_large "
             "lraspp_mobilenet_v3_large").split():
    add(name, "torchvision segmentation", f"segmentation.{name}", IMAGE, {"weights_backbone": None})

for name, frames, size in [("r3d_18", 16, 112), ("mc3_18", 16, 112), ("r2plus1d_18", 16, 112), ("s3d", 16, 224),
                           ("mvit_v1_b", 16, 224), ("mvit_v2_s", 16, 224), ("swin3d_t", 8, 224), ("swin3d_s", 8, 224),
                           ("swin3d_b", 8, 224)]:
    add(name, "torchvision video", f"video.{name}", {"video": Input("picture", ("batch", 3, frames, size, size))})

for name in ("raft_small", "raft_large"):
    add(name, "torchvision optical flow", f"optical_flow.{name}",
        {"first": picture(128), "second": picture(128)}, {}, "last")

WORDS = 200
TOKENS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NARROW = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
TEXT = {**TOKENS, **NARROW, "max_position_embeddings": 64, "use_cache": False}
DECODER = {**TEXT, "num_key_value_heads": 2, "head_dim": 16, "experts_implementation": "batched_mm"}
WIDE_MODEL = {**TOKENS, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
              "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "max_position_embeddings": 64,
              "use_cache": False, "decoder_start_token_id": 1}
VISION = {**NARROW, "image_size": 32, "patch_size": 8}
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 32, 48, 64]}
SPEECH = {**NARROW, "vocab_size": 40, "conv_dim": [32, 32, 32], "conv_stride": [5, 2, 2], "conv_kernel": [10, 3, 3],
          "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}

IDS = Input("ids", ("batch", "sequence"), WORDS)
MASK = Input("mask", ("batch", "sequence"))
TARGETS = Input("ids", ("batch", "target"), WORDS)
MASKED = {"input_ids": IDS, "attention_mask": MASK}
BOTH = {**MASKED, "decoder_input_ids": TARGETS}


def hub(kind, names, make, config, inputs, wrap="", suffix=""):
    """Rows of transformers: `names` are its model types."""
    for name in names.split():
        add(f"hf_{name}{suffix}".replace("-", "_"), f"transformers {kind}", f"{make}:{name}", inputs, config, wrap)


def encoder(names, inputs=MASKED, **more):
    hub("text", names, "AutoModel", {**TEXT, **more}, inputs)


def bare(kind, names, make, inputs, **config):
    """Without the usual names of widths and depths, which some configurations refuse or have for something else."""
    hub(kind, names, make, {**TOKENS, "use_cache": False, **config}, inputs)


def decoder(names, inputs=MASKED, **more):
    hub("decoder", names, "AutoModelForCausalLM", {**DECODER, **more}, inputs)


def pair(names, inputs=BOTH, make="AutoModelForSeq2SeqLM", **more):
    hub("seq2seq", names, make, {**WIDE_MODEL, **more}, inputs)


def vision(names, size=32, make="AutoModel", inputs=None, **more):
    hub("vision", names, make, {**VISION, "image_size": size, **more}, inputs or {"pixel_values": picture(size)})


def speech(names, inputs=None, **more):
    hub("audio", names, "AutoModel", {**SPEECH, **more}, inputs or {"input_values": Input("noise", ("batch", 1600))})


encoder("bert roberta xlm-roberta camembert electra ernie megatron-bert rembert data2vec-text roformer layoutlm splinter "
        "bert-generation roberta-prelayernorm ibert mpnet squeezebert esm markuplm eurobert modernbert "
        "nomic_bert jina_embeddings_v3 gte yoso mra luke tapas xlm-roberta-xl", input_embedding_size=64,
        output_embedding_size=64, embedding_size=64, entity_vocab_size=10, cls_token_id=1, sep_token_id=2,
        mask_token_id=3)
encoder("nystromformer", {"input_ids": Input("ids", ("batch", 12), WORDS)}, num_landmarks=12, segment_means_seq_len=12)
encoder("lilt", hidden_size=96)
encoder("bros", {**MASKED, "bbox": Input("unit", ("batch", "sequence", 4))}, dim_bbox=8, dim_bbox_sinusoid_emb_2d=16)
encoder("albert", embedding_size=32)
encoder("distilbert", dim=64, n_layers=2, n_heads=4, hidden_dim=128)
encoder("deberta", pos_att_type=["c2p", "p2c"], relative_attention=True, type_vocab_size=0)
encoder("deberta-v2", pos_att_type=["c2p", "p2c"], relative_attention=True, position_buckets=16, share_att_key=True,
        norm_rel_ebd="layer_norm", type_vocab_size=0)
encoder("mobilebert", embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32, num_feedforward_networks=2)
encoder("convbert", embedding_size=64, head_ratio=2, conv_kernel_size=3)
encoder("fnet", {"input_ids": IDS})
bare("text", "funnel", "AutoModelForMaskedLM", MASKED, d_model=64, n_head=4, d_head=16, d_inner=128,
     block_sizes=[1, 1], num_decoder_layers=1)
bare("text", "xlnet", "AutoModel", MASKED, d_model=64, n_layer=2, n_head=4, d_inner=128)
encoder("xlm flaubert", emb_dim=64, n_layers=2, n_heads=4, n_words=WORDS)
encoder("canine", num_hash_buckets=64, local_transformer_stride=16, downsampling_rate=2)
encoder("big_bird", attention_type="original_full")
encoder("longformer", {"input_ids": Input("ids", ("batch", 16), WORDS), "attention_mask": Input("mask", ("batch", 16))},
        attention_window=[8, 8])
bare("text", "perceiver", "AutoModelForMaskedLM", {"inputs": IDS}, max_position_embeddings=64,
     num_latents=8, d_latents=32, d_model=64, num_blocks=1,
     num_self_attends_per_block=2, num_self_attention_heads=2, num_cross_attention_heads=2)
encoder("reformer", {"input_ids": Input("ids", ("batch", 16), WORDS)}, attn_layers=["local", "local"],
        axial_pos_shape=[4, 4], axial_pos_embds_dim=[32, 32], local_attn_chunk_length=4, feed_forward_size=128,
        attention_head_size=16, is_decoder=False)

decoder("llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 stablelm starcoder2 olmo olmo2 olmo3 cohere cohere2 "
        "granite persimmon glm glm4 helium nemotron smollm3 exaone4 ernie4_5 arcee seed_oss apertus gpt_neox "
        "gpt_neox_japanese hunyuan_v1_dense diffllama bitnet ministral internlm3 vaultgemma biogpt",
        sliding_window=8, query_pre_attn_scalar=16)
decoder("mixtral phimoe", num_local_experts=4, num_experts_per_tok=2)
decoder("olmoe qwen2_moe qwen3_moe granitemoe ernie4_5_moe gpt_oss flex_olmo", num_experts=4, num_local_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64, decoder_sparse_step=1,
        moe_num_experts=4, moe_k=2, sliding_window=8, embedding_multiplier=1.0)
decoder("deepseek_v2 deepseek_v3", q_lora_rank=32, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16,
        v_head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32,
        first_k_dense_replace=1, num_key_value_heads=4, head_dim=8, n_shared_experts=1, topk_method="greedy")
decoder("gpt2 openai-gpt gptj codegen", n_embd=64, n_layer=2, n_head=4, n_positions=64, n_ctx=64, rotary_dim=8)
decoder("gpt_bigcode", n_embd=64, n_layer=2, n_head=4, n_positions=64)
decoder("gpt_neo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]], window_size=8)
decoder("opt", ffn_dim=128, word_embed_proj_dim=64)
decoder("bloom", n_layer=2, n_head=4)
bare("decoder", "falcon", "AutoModelForCausalLM", MASKED, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
     num_kv_heads=2, new_decoder_architecture=True)
decoder("mpt", d_model=64, n_heads=4, n_layers=2, max_seq_len=64)
decoder("xglm", d_model=64, ffn_dim=128, num_layers=2, attention_heads=4)
decoder("ctrl", n_embd=64, n_layer=2, n_head=4, dff=128, n_positions=64)
decoder("mamba falcon_mamba", {"input_ids": IDS}, state_size=8, time_step_rank=8, expand=2)
decoder("mamba2", {"input_ids": IDS}, state_size=8, num_heads=8, head_dim=16, expand=2, n_groups=2, chunk_size=8)
decoder("rwkv", {"input_ids": IDS}, attention_hidden_size=64, context_length=64)
decoder("recurrent_gemma", lru_width=64, attention_window_size=8, block_types=["recurrent", "attention"])
decoder("lfm2", layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)
decoder("jamba", num_experts=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        use_mamba_kernels=False, mamba_d_state=8, mamba_dt_rank=8)
decoder("xlstm", {"input_ids": IDS}, num_heads=4, num_blocks=2, chunkwise_kernel="chunkwise--native_autograd",
        sequence_kernel="native_sequence__native", step_kernel="native", mode="inference")

# One token of one sequence, keys and values in a cache of 16.
STEP = {"input_ids": Input("ids", (1, 1), WORDS), "position": Input("zeros", (1, 1))}
hub("decoding step", "llama mistral qwen2 qwen3 gemma phi3 olmo2 granite smollm3 mixtral", "AutoModelForCausalLM",
    {**DECODER, "use_cache": True, "sliding_window": None, "num_local_experts": 4, "num_experts_per_tok": 2}, STEP, "step",
    "_step")
hub("decoding step", "gpt2", "AutoModelForCausalLM",
    {**TOKENS, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}, STEP, "step", "_step")

pair("bart mbart pegasus blenderbot blenderbot-small m2m_100 marian plbart")
pair("t5 mt5 umt5 switch_transformers", d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, num_experts=4,
     num_sparse_encoder_layers=1, num_sparse_decoder_layers=1)
# Whether a sequence is padded to blocks of six is decided by Python while it exports.
pair("longt5", {**BOTH, "input_ids": Input("ids", ("batch", 12), WORDS), "attention_mask": Input("mask", ("batch", 12))},
     d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, local_radius=5)
bare("seq2seq", "prophetnet", "AutoModelForSeq2SeqLM", BOTH, hidden_size=64, max_position_embeddings=64,
     decoder_start_token_id=1, encoder_ffn_dim=128, decoder_ffn_dim=128, num_encoder_layers=2, num_decoder_layers=2,
     num_encoder_attention_heads=4, num_decoder_attention_heads=4)
pair("fsmt", src_vocab_size=WORDS, tgt_vocab_size=WORDS, langs=["en", "de"])
pair("led", {**BOTH, "input_ids": Input("ids", ("batch", 16), WORDS), "attention_mask": Input("mask", ("batch", 16))},
     attention_window=[8, 8], max_encoder_position_embeddings=64, max_decoder_position_embeddings=64)
pair("nllb-moe", num_experts=4, encoder_sparse_step=2, decoder_sparse_step=2)
pair("bigbird_pegasus", attention_type="original_full")
pair("whisper", {"input_features": Input("noise", ("batch", 16, 64)), "decoder_input_ids": TARGETS},
     "AutoModelForSpeechSeq2Seq", num_mel_bins=16, max_source_positions=32, max_target_positions=64)
pair("speech_to_text", {"input_features": Input("noise", ("batch", 64, 16)), "decoder_input_ids": TARGETS},
     "AutoModelForSpeechSeq2Seq", input_feat_per_channel=16, conv_channels=32, max_source_positions=64,
     max_target_positions=64)
pair("moonshine", {"input_values": Input("noise", ("batch", 4800)), "decoder_input_ids": TARGETS},
     "AutoModelForSpeechSeq2Seq", **{**NARROW, "encoder_num_hidden_layers": 2, "decoder_num_hidden_layers": 2,
                                     "encoder_num_attention_heads": 4, "decoder_num_attention_heads": 4})

vision("vit deit vit_msn dinov2 dinov2_with_registers dinov3_vit ijepa siglip_vision_model clip_vision_model "
       "aimv2_vision_model mlcd_vision_model")
vision("yolos", num_detection_tokens=4, image_size=[32, 32])
vision("beit data2vec-vision", use_relative_position_bias=True, use_mask_token=False)
vision("vit_mae", inputs={"pixel_values": picture(32), "noise": Input("unit", ("batch", 16))}, mask_ratio=0.5)
vision("vitdet", num_channels=3, window_block_indices=[0], window_size=2)
bare("vision", "swin swinv2 donut-swin", "AutoModel", {"pixel_values": picture(32)}, image_size=32, patch_size=2,
     embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
bare("vision", "swin2sr", "AutoModelForImageToImage", {"pixel_values": picture(32)}, image_size=32, patch_size=1,
     embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
bare("vision", "convnext convnextv2 dinov3_convnext poolformer", "AutoModel", {"pixel_values": picture(64)}, **STAGES)
bare("vision", "resnet regnet bit", "AutoModel", {"pixel_values": picture(64)}, embedding_size=16, groups_width=8,
     num_groups=4, **STAGES)
vision("mobilenet_v1 mobilenet_v2", 128)
bare("vision", "efficientnet", "AutoModel", {"pixel_values": picture(64)}, width_coefficient=1.0, depth_coefficient=1.0,
     hidden_dim=1280)
vision("mobilevit", 64, patch_size=2, hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 16, 24, 32, 48, 64, 96])
vision("mobilevitv2", 64, patch_size=2)
vision("segformer", 64, patch_size=[7, 3, 3, 3], hidden_sizes=[16, 32, 48, 64], num_encoder_blocks=4,
       depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4], sr_ratios=[8, 4, 2, 1], patch_sizes=[7, 3, 3, 3])
vision("pvt", 64, patch_sizes=[4, 2, 2, 2], hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
       num_attention_heads=[1, 2, 3, 4], num_encoder_blocks=4, sequence_reduction_ratios=[8, 4, 2, 1])
vision("pvt_v2", 64, patch_sizes=[7, 3, 3, 3], hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
       num_attention_heads=[1, 2, 3, 4], num_encoder_blocks=4, sr_ratios=[8, 4, 2, 1])
vision("levit", 224, hidden_sizes=[32, 48, 64], num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8],
       patch_size=16)
bare("vision", "cvt", "AutoModel", {"pixel_values": picture(64)}, patch_sizes=[7, 3, 3], embed_dim=[16, 32, 48],
     num_heads=[1, 2, 3], depth=[1, 2, 3])
vision("focalnet", 64, patch_size=4, embed_dim=16, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3],
       hidden_sizes=[16, 32])
vision("swiftformer", 64, depths=[1, 1, 1, 1], embed_dims=[16, 32, 48, 64])
vision("hiera", 224, image_size=[224, 224], embed_dim=16, num_heads=[1, 2, 4, 8], depths=[1, 1, 2, 1], patch_size=[7, 7])
vision("textnet", 64)
vision("hgnet_v2", 224)
vision("mgp-str", 32, inputs={"pixel_values": Input("picture", ("batch", 3, 32, 64))}, image_size=[32, 64], patch_size=4,
       max_token_length=5)
vision("dpt", 32, make="AutoModelForDepthEstimation", is_hybrid=False, num_hidden_layers=4,
       backbone_out_indices=[0, 1, 2, 3],
       neck_hidden_sizes=[8, 16, 24, 32], fusion_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5])
vision("glpn", 64, make="AutoModelForDepthEstimation", hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1],
       num_attention_heads=[1, 2, 3, 4], sr_ratios=[8, 4, 2, 1], patch_sizes=[7, 3, 3, 3], decoder_hidden_size=16)
vision("detr conditional_detr", 64, **{**WIDE_MODEL, "num_queries": 6, "use_timm_backbone": False, "backbone": None,
                                       "use_pretrained_backbone": False})
vision("sam_vision_model", 64, output_channels=32, window_size=2, global_attn_indexes=[1], num_pos_feats=16, mlp_dim=128)
vision("timesformer", inputs={"pixel_values": Input("picture", ("batch", 4, 3, 32, 32))}, num_frames=4)
vision("videomae", inputs={"pixel_values": Input("picture", ("batch", 4, 3, 32, 32))}, num_frames=4, tubelet_size=2)
vision("vivit", inputs={"pixel_values": Input("picture", ("batch", 4, 3, 32, 32))}, num_frames=4,
       tubelet_size=[2, 8, 8])

speech("wav2vec2 hubert wavlm data2vec-audio unispeech unispeech-sat")
speech("sew", squeeze_factor=2)
speech("sew-d", squeeze_factor=2, position_buckets=16, share_att_key=True, relative_attention=True,
       pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm")
speech("wav2vec2-conformer", conv_depthwise_kernel_size=7)
speech("wav2vec2-bert", {"input_features": Input("noise", ("batch", 24, 16))}, feature_projection_input_dim=16,
       conv_depthwise_kernel_size=7)
speech("audio-spectrogram-transformer", {"input_values": Input("noise", ("batch", 64, 32))}, max_length=64,
       num_mel_bins=32, patch_size=8, frequency_stride=8, time_stride=8)
speech("encodec", {"input_values": Input("noise", ("batch", 1, 1280))}, num_filters=8, codebook_size=32,
       hidden_size=16, codebook_dim=16)
speech("univnet", {"input_features": Input("noise", ("batch", 12, 100)), "noise_sequence": Input("noise", ("batch", 12, 64))},
       model_hidden_channels=8)

hub("multimodal", "clip", "AutoModel", {"text_config": {**TEXT}, "vision_config": {**VISION}, "projection_dim": 32},
    {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "siglip", "AutoModel", {"text_config": {**TEXT, "projection_size": 64}, "vision_config": {**VISION}},
    {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "chinese_clip", "AutoModel", {"text_config": {**TEXT}, "vision_config": {**VISION}, "projection_dim": 32},
    {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "blip", "AutoModel", {"text_config": {**TEXT}, "vision_config": {**VISION}, "projection_dim": 32},
    {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "owlvit", "AutoModel", {"text_config": {**TEXT}, "vision_config": {**VISION}, "projection_dim": 32},
    {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "vilt", "AutoModel", {**TEXT, **VISION}, {**MASKED, "pixel_values": picture(32)})
hub("multimodal", "visual_bert", "AutoModel", {**TEXT, "visual_embedding_dim": 32}, MASKED)
hub("multimodal", "lxmert", "AutoModel", {**TEXT, "l_layers": 1, "r_layers": 1, "x_layers": 1, "visual_feat_dim": 32},
    {**MASKED, "visual_feats": Input("noise", ("batch", 5, 32)), "visual_pos": Input("unit", ("batch", 5, 4))})
hub("multimodal", "git", "AutoModel", {**TEXT, "vision_config": {**VISION}}, {**MASKED, "pixel_values": picture(32)})

hub("time series", "patchtst", "AutoModel", {"num_input_channels": 3, "context_length": 32, "patch_length": 8,
    "patch_stride": 8, "d_model": 64, "num_attention_heads": 4, "ffn_dim": 128, "num_hidden_layers": 2},
    {"past_values": Input("noise", ("batch", 32, 3))})
hub("time series", "patchtsmixer", "AutoModel", {"num_input_channels": 3, "context_length": 32, "patch_length": 8,
    "patch_stride": 8, "d_model": 64, "num_layers": 2}, {"past_values": Input("noise", ("batch", 32, 3))})
