"""Makes torchvision importable beside a CPU build of torch."""

import pytest
import torch

# torchvision from PyPI is compiled against the CUDA build: beside another its operators are missing, and it fails on
# import where it describes two of them. Declared, but without code, they are enough for the networks.
DECLARED = torch.library.Library("torchvision", "DEF")
try:
    DECLARED.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    DECLARED.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
except RuntimeError:
    pass  # A build that fits brings them itself.


@pytest.fixture
def random_network():
    """Function that gives every parameter and every statistic of a torch network a random value, and freezes it."""

    def randomise(network, seed=0):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for module in network.modules():
                if isinstance(module, torch.nn.Conv2d):
                    # Features neither grow nor vanish with depth.
                    fan_in = module.weight[0].numel()
                    module.weight.normal_(0, (2 / fan_in) ** 0.5, generator=generator)
                    if module.bias is not None:
                        module.bias.normal_(0, 0.1, generator=generator)
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.weight.uniform_(0.5, 1.0, generator=generator)
                    module.bias.normal_(0.1, 0.2, generator=generator)
                    module.running_mean.normal_(0, 0.3, generator=generator)
                    module.running_var.uniform_(0.5, 2.0, generator=generator)
        return network.eval()

    return randomise
