"""Builds and installs tfdml. TensorFlow and faiss come with exactly one of the extras `cpu` and `gpu`."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
README = HERE / "README.md"

# Read as text: importing the package would need what this file is about to install.
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "tfdml/__init__.py").read_text(encoding="utf-8"), re.MULTILINE)

REQUIRES = [
    # Models, layers, losses and the training loop. 3.15 has Keras' own security fixes for model files; 4 is unknown.
    "keras>=3.15,<4",
    # Weights files by the names of layers. Unbounded: Keras brings it, for the same files.
    "h5py",
    # Rows, labels and scores on the host. Unbounded: TensorFlow bounds it, for its binaries' sake.
    "numpy",
    # Draws toycars, checks image files, makes sprites. 9.1 brought Image.Transform and Image.Resampling.
    "pillow>=9.1",
    # Charts of `python -m tfdml.report`. 3.9 was made for numpy 2; what is used is old and stable.
    "matplotlib>=3.9",
    # Matches new clusters to learners (linear_sum_assignment), reads the MATLAB files of Cars196. Unbounded: both are
    # there, unchanged, in every release for the Pythons below.
    "scipy",
    # Flags, flagfiles and logging of the command lines. Unbounded: the interface is old and stable.
    "absl-py",
    # Curves and the projector. TensorFlow 2.21 does not bring it along; numbered as the TensorFlow it is made for.
    "tensorboard~=2.21",
    # Reads CUB, Cars196 and SOP where they are prepared. 4.9.10 is known to import beside protobuf 7.
    "tensorflow-datasets>=4.9.10",
    # TensorFlow 2.21's own bounds: tensorflow-metadata asks for less than it needs and would let an older one stay.
    "protobuf>=6.31.1,<8",
]

# One of these two, never both. faiss-cpu and faiss-gpu own the same module `faiss`, and tensorflow-cpu and tensorflow
# the same module `tensorflow`. pip accepts both: the later writes over the files of the earlier, and removing either
# breaks the other. So neither is in REQUIRES.
CPU = [
    # 2.21 is the one TensorFlow tested here; tensorflow-cpu leaves CUDA out, and is made for x86 Linux and Windows.
    "tensorflow-cpu~=2.21.0; sys_platform != 'darwin' and platform_machine in 'x86_64 AMD64'",
    # The same TensorFlow where tensorflow-cpu does not exist (macOS, ARM); it needs no GPU.
    "tensorflow~=2.21.0; sys_platform == 'darwin' or platform_machine not in 'x86_64 AMD64'",
    # K-means and nearest neighbours. The defaults and the repeatable K-means relied upon are those of 1.15.
    "faiss-cpu>=1.15.1,<2",
]
GPU = [
    # With the CUDA 12 libraries that this TensorFlow was built for.
    "tensorflow[and-cuda]~=2.21.0",
    # As faiss-cpu above. 1.15.1 takes the CUDA 12 packages that TensorFlow takes.
    "faiss-gpu>=1.15.1,<2",
]

HUB = [
    # Pretrained backbones. Releases keep pace with Keras: 0.32 asks for Keras 3.15. It brings tensorflow-text, and with
    # that the whole `tensorflow`: take it with `gpu`. Beside `cpu` install it with --no-deps, then its other packages;
    # it works without tensorflow-text.
    "keras-hub~=0.32.0",
]

KERAS_CV = [
    # Augmentation layers, backbones by name. 0.9 is the last release; the layers were tried on Keras 3.15.
    "keras-cv~=0.9.0",
]

CONVERT = [
    # Reads the weights that PyTorch's users publish; a CPU build is enough. Files are read without running what is in
    # them, which has been right since 2.6. For `python -m tfdml.convert_weights` alone.
    "torch>=2.6,<3",
]

TEST = [
    # Runs the tests. The next major release may drop what the settings use.
    "pytest~=9.2",
    # Runs them in two processes, which the tests' own waiting and single threads leave room for.
    "pytest-xdist~=3.8",
    # Lint and format. Held to a minor release, because the next one formats differently.
    "ruff~=0.17.5",
    # Searches for the input that breaks a property. Its interface stands within a major release.
    "hypothesis~=6.170",
    # The second Keras backend for what is written in keras.ops alone. Before 1.0 a minor release may break Keras.
    "jax~=0.10.2",
    # The other half of jax, compiled; jax asks for the same number.
    "jaxlib~=0.10.2",
    # Builds the wheel that a test looks into. 77 is the first that knows licence expressions.
    "setuptools>=77",
]

# Golden values come from these. Pinned, because another release may give other numbers. A CPU build of torch is enough.
ORACLES = [
    # What the others stand on.
    "torch==2.13.0",
    # GoogLeNet and ResNet-50. Compiled against the CUDA build of torch; beside a CPU build it takes --no-deps where pip
    # refuses, and imports only after its operators nms and qnms are declared by torch.library.
    "torchvision==0.28.0",
    # The BN-Inception that the papers' weights belong to; the last release, of 2018.
    "pretrainedmodels==0.7.4",
    # Imported by pretrainedmodels, which does not declare it.
    "six",
    # Needed by pretrainedmodels; listed, because it too takes --no-deps where torchvision does.
    "munch",
    # As munch.
    "tqdm",
    # Losses, miners and scores of the most used library in the field.
    "pytorch-metric-learning~=2.9.0",
    # What keras-hub imports; it and keras-cv are installed with --no-deps.
    "regex",
    "tokenizers",
]

BENCH = [
    # Its K-means stands beside faiss' in `benchmarks.reclustering`. The interface is old and stable.
    "scikit-learn",
    # What the benchmarks compare with. Held to a minor release, so that numbers taken apart are comparable.
    "pytorch-metric-learning~=2.9.0",
    # The same as among the oracles, so that both fit into one environment.
    "torch==2.13.0",
    # GoogLeNet and residual networks; see there.
    "torchvision==0.28.0",
    # Decodes JPEGs by libjpeg-turbo and does nothing else: the floor of an input pipeline.
    "simplejpeg~=1.9.0",
    # BN-Inception, and what it needs; see there.
    "pretrainedmodels==0.7.4",
    "six",
    "munch",
    "tqdm",
]

setup(
    name="tfdml",
    version=VERSION.group(1),
    description="Deep metric learning for TensorFlow and Keras 3: train an embedding, measure it, serve it.",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    keywords=[
        "deep metric learning",
        "embedding",
        "image retrieval",
        "keras",
        "re-identification",
        "similarity learning",
        "tensorflow",
        "triplet loss",
    ],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Image Recognition",
    ],
    # Keras 3.15 starts at 3.11; TensorFlow 2.21 has wheels up to 3.13.
    python_requires=">=3.11,<3.14",
    # Tests, benchmarks, documentation and configurations stay in the repository.
    packages=find_packages(include=["tfdml", "tfdml.*", "pipelines", "pipelines.*"]),
    package_data={"tfdml.backbones": ["weights/*"]},
    install_requires=REQUIRES,
    extras_require={
        "cpu": CPU,
        "gpu": GPU,
        "hub": HUB,
        "keras-cv": KERAS_CV,
        "convert": CONVERT,
        "test": TEST,
        "oracles": ORACLES,
        "bench": BENCH,
    },
)
