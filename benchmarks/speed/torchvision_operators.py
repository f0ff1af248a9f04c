"""Declares operators that torchvision needs before it can be imported."""


def declare():
    """Beside a CPU build of torch, torchvision's operators are missing and it fails to describe them.

    Returns:
        What to hold as long as torchvision is used: the declarations go when it does.
    """
    import torch

    declared = torch.library.Library("torchvision", "DEF")
    try:
        declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass
    return declared
