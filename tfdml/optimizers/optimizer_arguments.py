"""Types and ranges of optimizers' arguments, which Keras' optimizers take."""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from keras.optimizers.schedules import LearningRateSchedule

from tfdml.registry.arguments import either, instance, number, optional
from tfdml.registry.fields import OF_KERAS

# A number, a schedule, or a function that Keras calls in each step.
LearningRate: TypeAlias = float | LearningRateSchedule | Callable[[], Any]


def _learning_rate(at_most):
    return either(number(above=0, at_most=at_most), instance(Callable, "a Keras schedule or a function of the step"))


# Adam changes each weight by about the learning rate, whatever the gradient is.
AdamRate = Annotated[LearningRate, _learning_rate(at_most=10), OF_KERAS]
SGDRate = Annotated[LearningRate, _learning_rate(at_most=100), OF_KERAS]
Average = Annotated[float, number(at_least=0, below=1), OF_KERAS]
WeightDecay = Annotated[float | None, optional(number(at_least=0, at_most=10)), OF_KERAS]
