"""Methods, backbones, heads, layers and memories as users make them."""

import keras

import tfdml
from tfdml.backbones.keras_applications import keras_applications
from tfdml.backbones.resnet import resnet18, resnet50

inception = tfdml.backbones.BNInception()
googlenet = tfdml.backbones.GoogLeNet(batch_norm=True, name="mine")
network = tfdml.backbones.KerasApplication("MobileNetV2", endpoints=("block_13_expand",), alpha=0.35)
same = keras_applications("ResNet50", endpoints=["conv3_block4_out"])
hub = tfdml.backbones.keras_hub("resnet_18_imagenet", image_size=96)
tall = tfdml.backbones.keras_hub("resnet_18_imagenet", image_size=(96, 48))
tower = tfdml.backbones.keras_hub("clip_vit_base_patch16", features="both")
cv = tfdml.backbones.keras_cv(preset="efficientnetv2_b0")
residual = tfdml.backbones.ResNet(18, dtype="mixed_bfloat16")
small_residual, residual50 = resnet18(), resnet50()
small = tfdml.backbones.Small(width=16, stages=4)
identity, adapted = tfdml.backbones.Identity(768), tfdml.backbones.enable_lora(small, 8)
trunk, tail = googlenet.split_at("inception_4a")
features: keras.Model = googlenet.taps(["pool1", "pool2"])
branch = googlenet.method_default("branch")
stages = list(googlenet.stage_endpoints)

head = tfdml.heads.Linear(pooling="avg+max", norm="batch", dropout=0.1)
single = tfdml.Single(small, embedding_size=64, head=head, freeze_batch_norm="statistics", normalize=False)
of_keras = tfdml.Single(
    keras.Sequential(), name="embedder", preprocessing=tfdml.Preprocessing.of(small, transform="warp")
)
features_alone = tfdml.Features(small, head=head, freeze_batch_norm="all", preprocessing=single.preprocessing)
joined = tfdml.Joined(features_alone, tfdml.Single(identity))
divided = tfdml.DivideAndConquer(small, learners=4, data_split="kmeans", merge_at=10, finetune="embedding")
masked = tfdml.AttentionEnsemble(googlenet, learners=8, branch="pool3", attention_depth=5)
heads = tfdml.MultiHead(googlenet, 256, learners=4, attention=True)
divided_at_a_stage = tfdml.MultiHead(keras.Sequential(), branch="stage3")
tails = tfdml.MultiTail(googlenet, embedding_size=256, divergence_weight=0.0)
levels = tfdml.Multilevel(inception, endpoints=("inception_3c", "inception_5b"), auxiliary=["inception_3c"])
members = tfdml.methods.MemberEnsemble([single, divided], member_weights=[1.0, 2.0])
memory = tfdml.memories.XBM(size=8192, start=100)
slow = tfdml.memories.Momentum(size=65536, decay=0.999)

single.compile(keras.optimizers.Adam(1e-4), loss="triplet(margin=0.1)", pieces=2, memory=memory, jit_compile=False)
single.fit([], epochs=10, shuffle=False, verbose=0, steps_per_epoch=5)
shape = single.predict([], batch_size=8, verbose=0).shape
found = single.evaluate([], [], 8, verbose=0, steps=2, return_dict=True)["loss"]
divided.compile(keras.optimizers.Adam(1e-4), loss="triplet", pieces=2, memory="xbm(size=8192)", run_eagerly=True)
divided.compile("adam", "triplet", jit_compile=False)
divided.evaluate(x=[], sample_weight=None, callbacks=[])
members.evaluate([], verbose="auto")
names = single.loss_statistics().keys()

masks = tfdml.layers.AttentionMasks(learners=4, channels=32, initial=0.5)
average = tfdml.layers.CeilAveragePooling(3, strides=2)
largest = tfdml.layers.CeilMaxPooling(pool_size=3, strides=2, name="pool")
merging = tfdml.layers.CenterMerging(per_class=5, weight=0.1)
margins = tfdml.layers.ClassMargins(classes=100, beta=1.0)
embedding = tfdml.layers.EmbeddingHead(128, features=tfdml.layers.PooledFeatures(pooling="gem"))
norm = tfdml.layers.LocalResponseNorm(size=5, alpha=1e-4)
manifold = tfdml.layers.ManifoldProxies(classes=50, view="contextual", affinity="shifted", neighbors=10)
depths = tfdml.layers.MultilevelEmbedding(384, reduced=64, auxiliary=(True, False))
tokens = tfdml.layers.TokenFeatures("both", prefix=5)
pooled = tfdml.layers.PooledFeatures(pooling="max", norm="layer", dropout=0.5)
pooling = tfdml.layers.Pooling("gem", power=3.0)
predictor = tfdml.layers.Predictor(hidden=32)
projector = tfdml.layers.Projector((1024, 1024), name="projector")
proxies = tfdml.layers.Proxies(classes=100, per_class=2, initializer="he_normal", regularizer=merging)
sampled = tfdml.layers.SampledProxies(classes=1_000_000, sampled=10_000, seed=1, per_class=1)
sharded = tfdml.layers.ShardedProxies(classes=1_000_000, scale=64.0)
split = tfdml.layers.SplitEmbedding(128, learners=4)
loss_layer = tfdml.layers.LossLayer(name="proxies")
tfdml.layers.freeze_batch_norm(small, "all")
