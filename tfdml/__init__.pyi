"""The public names, for editors and type checkers: `__init__.py` imports some of them on first access only."""

from pipelines.preprocessing import Preprocessing as Preprocessing
from tfdml import backbones as backbones
from tfdml import callbacks as callbacks
from tfdml import data as data
from tfdml import evaluation as evaluation
from tfdml import functional as functional
from tfdml import heads as heads
from tfdml import layers as layers
from tfdml import losses as losses
from tfdml import methods as methods
from tfdml import optimizers as optimizers
from tfdml import registry as registry
from tfdml import reporting as reporting
from tfdml import serving as serving
from tfdml.console.version import __version__ as __version__
from tfdml.methods import AttentionEnsemble as AttentionEnsemble
from tfdml.methods import DivideAndConquer as DivideAndConquer
from tfdml.methods import EmbeddingModel as EmbeddingModel
from tfdml.methods import Features as Features
from tfdml.methods import MultiHead as MultiHead
from tfdml.methods import Multilevel as Multilevel
from tfdml.methods import MultiTail as MultiTail
from tfdml.methods import Single as Single
from tfdml.methods import memories as memories
from tfdml.run.image_embedder import ImageEmbedder as ImageEmbedder
from tfdml.run.model_loading import load as load
