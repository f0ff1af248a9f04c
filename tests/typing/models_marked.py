"""Methods, backbones, heads, layers and memories with a mistake in each marked line."""

import keras

import tfdml
from tfdml.backbones.keras_applications import keras_applications
from tfdml.backbones.resnet import resnet18, resnet50

tfdml.backbones.BNInception(batch_norm=True)  # marked
tfdml.backbones.GoogLeNet(batchnorm=True)  # marked
tfdml.backbones.KerasApplication(50)  # marked
tfdml.backbones.KerasApplication("MobileNetV2", endpoint=("block_13_expand",))  # marked
keras_applications(application="ResNet50")  # marked
tfdml.backbones.keras_hub("resnet_18_imagenet", image_size="96")  # marked
tfdml.backbones.keras_cv(name="efficientnetv2_b0")  # marked
tfdml.backbones.keras_hub("clip_vit_base_patch16", features="cls")  # marked
tfdml.backbones.Identity("768")  # marked
tfdml.backbones.enable_lora(8)  # marked
tfdml.backbones.recompute_blocks("small")  # marked
tfdml.backbones.save_adapter("adapter.weights.h5")  # marked
tfdml.backbones.load_adapter("adapter.weights.h5", 4)  # marked
tfdml.backbones.ResNet(34)  # marked
resnet18(18)  # marked
resnet50(depth=50)  # marked
small = tfdml.backbones.Small(widht=16)  # marked
tfdml.backbones.Smal(width=16)  # marked
googlenet = tfdml.backbones.GoogLeNet()
googlenet.split_at(4)  # marked
googlenet.method_default("branches")  # marked
googlenet.stage_endpoints()  # marked

small = tfdml.backbones.Small()
tfdml.heads.Linear(pooling="average")  # marked
tfdml.heads.Linear(dropout="0.1")  # marked
tfdml.Single(small, embedding_sise=64)  # marked
tfdml.Single(small, freeze_batch_norm="statistic")  # marked
tfdml.Single("small")  # marked
tfdml.Single(small, head="linear")  # marked
tfdml.Features(small, embedding_size=64)  # marked
tfdml.Joined(small, head=tfdml.Single(small))  # marked
tfdml.DivideAndConquer(small, cluster_order="round robin")  # marked
tfdml.DivideAndConquer(small, merge_at="10")  # marked
tfdml.AttentionEnsemble(small, attention_depths=5)  # marked
tfdml.MultiHead(small, attention="yes")  # marked
tfdml.MultiTail(small, attention=True)  # marked
tfdml.Multilevel(small, endpoints=3)  # marked
tfdml.methods.MemberEnsemble(["runs/a", "runs/b"])  # marked
tfdml.memories.XBM(size="8192")  # marked
tfdml.memories.Momentum(momentum=0.999)  # marked
tfdml.memories.Agreement(part=0.2)  # marked
tfdml.Preprocessing(image_size=224, channels="rbg")  # marked
tfdml.Preprocessing(image_size="256x128")  # marked
tfdml.Preprocessing.of(small, transforms="warp")  # marked

single = tfdml.Single(small)
single.compile("adam", "triplet", piece=2)  # marked
single.compile("adam", keras.metrics.Mean())  # marked
single.fit([], epoch=10)  # marked
single.predict([], verbose="no")  # marked
single.evaluate([], verbos=0)  # marked
single.evaluate([], batch_size="8")  # marked
single.evaluate([], return_dict="yes")  # marked
divided = tfdml.DivideAndConquer(small)
divided.compile("adam", "triplet", piece=2)  # marked
divided.compile(optimiser="adam")  # marked
divided.compile("adam", keras.metrics.Mean())  # marked
divided.evaluate([], step=5)  # marked
members = tfdml.methods.MemberEnsemble([single, divided])
members.compile(los="triplet")  # marked
members.evaluate([], callback=[])  # marked

tfdml.layers.AttentionMasks(learners=4)  # marked
tfdml.layers.CeilAveragePooling(3, stride=2)  # marked
tfdml.layers.CeilMaxPooling(pool_size="3", strides=2)  # marked
tfdml.layers.CenterMerging(per_class=5, weights=0.1)  # marked
tfdml.layers.DropPath(drop=0.1)  # marked
tfdml.layers.ClassMargins(beta=1.0)  # marked
tfdml.layers.EmbeddingHead(128, features="avg")  # marked
tfdml.layers.LocalResponseNorm(sizes=5)  # marked
tfdml.layers.ManifoldProxies(classes=50, view="contextal")  # marked
tfdml.layers.ManifoldProxies(classes=50, affinity="shift")  # marked
tfdml.layers.MultilevelEmbedding(384, auxiliary=True)  # marked
tfdml.layers.PooledFeatures(norm="group")  # marked
tfdml.layers.Pooling("mean")  # marked
tfdml.layers.Predictor(hidden="32")  # marked
tfdml.layers.Projector(1024)  # marked
tfdml.layers.Proxies(class_count=100)  # marked
tfdml.layers.SampledProxies(classes=1_000_000)  # marked
tfdml.layers.ShardedProxies(classes=1_000_000, scale="64")  # marked
tfdml.layers.TokenFeatures("first")  # marked
tfdml.layers.SplitEmbedding(128, learner=4)  # marked
tfdml.layers.LossLayer(nam="proxies")  # marked
tfdml.layers.freeze_batch_norm(small, which="everything")  # marked
