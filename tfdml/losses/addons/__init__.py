"""The metric learning losses of TensorFlow Addons 0.23, for Keras 3: its names, arguments and values.

`import tfdml.losses.addons as losses` stands for `import tensorflow_addons.losses as losses`. What differs is in
docs/from_tensorflow_addons.md. They are for `compile(loss=...)`; the training command knows their papers' own forms.
"""

from tfdml.losses.addons.contrastive import ContrastiveLoss, contrastive_loss
from tfdml.losses.addons.lifted_struct import LiftedStructLoss, lifted_struct_loss
from tfdml.losses.addons.npairs import NpairsLoss, npairs_loss
from tfdml.losses.addons.triplet_hard import TripletHardLoss, triplet_hard_loss
from tfdml.losses.addons.triplet_semihard import TripletSemiHardLoss, triplet_semihard_loss

__all__ = [
    "ContrastiveLoss",
    "LiftedStructLoss",
    "NpairsLoss",
    "TripletHardLoss",
    "TripletSemiHardLoss",
    "contrastive_loss",
    "lifted_struct_loss",
    "npairs_loss",
    "triplet_hard_loss",
    "triplet_semihard_loss",
]
