"""The metric learning losses of TensorFlow Addons 0.23, for Keras 3: its names, arguments and values.

`import tfdml.losses.addons as losses` stands for `import tensorflow_addons.losses as losses`. What differs is in
docs/from_tensorflow_addons.md. They are for `compile(loss=...)`; the training command knows their papers' own forms.
"""

from tfdml.losses.addons.contrastive import ContrastiveLoss
from tfdml.losses.addons.lifted_struct import LiftedStructLoss
from tfdml.losses.addons.npairs import NpairsLoss
from tfdml.losses.addons.triplet_hard import TripletHardLoss
from tfdml.losses.addons.triplet_semihard import TripletSemiHardLoss

__all__ = [
    "ContrastiveLoss",
    "LiftedStructLoss",
    "NpairsLoss",
    "TripletHardLoss",
    "TripletSemiHardLoss",
]
