"""Steps of `losses`: a loss with its gradients on a batch, for a framework and a device.

A step computes and returns the loss. Its `wait` returns when the device has finished. `reset_peak` resets the peak of
the memory and returns the current memory, and `peak` returns the peak, both in bytes of device memory.
"""

from benchmarks.speed import peak_memory


class OnTensorFlow:
    """A step of tfdml's with the TensorFlow backend.

    Args:
        loss: the loss.
        layer: its built layer, or None.
        labels: `[B]` array.
        embeddings: `[B, d]` array.
        device: `cpu` or `gpu`.
        jit_compile: whether XLA compiles the step.
    """

    def __init__(self, loss, layer, labels, embeddings, device, jit_compile):
        import tensorflow as tf

        self._on_gpu = device == "gpu"
        if self._on_gpu and not tf.config.list_physical_devices("GPU"):
            raise RuntimeError("TensorFlow cannot find a GPU.")
        tf.config.experimental.enable_tensor_float_32_execution(False)
        weights = [weight.value for weight in layer.trainable_weights] if layer else []

        @tf.function(jit_compile=jit_compile)
        def step(labels, embeddings):
            with tf.GradientTape() as tape:
                tape.watch(embeddings)
                taken = layer(embeddings, labels) if layer else embeddings
                value = tf.reduce_mean(loss.call(labels, taken))
            return value, tape.gradient(value, [embeddings, *weights])

        self._step, self._batch = step, (tf.constant(labels), tf.constant(embeddings))

    def __call__(self):
        return float(self._step(*self._batch)[0])

    def wait(self):
        import tensorflow as tf

        tf.test.experimental.sync_devices()

    def reset_peak(self):
        import tensorflow as tf

        if not self._on_gpu:
            return peak_memory.reset_peak()
        tf.config.experimental.reset_memory_stats("GPU:0")
        return tf.config.experimental.get_memory_info("GPU:0")["current"]

    def peak(self):
        import tensorflow as tf

        return tf.config.experimental.get_memory_info("GPU:0")["peak"] if self._on_gpu else peak_memory.peak()


class OnTorch:
    """A step of either library with PyTorch.

    Args:
        value: function that computes the mean loss.
        tensors: what the gradients are for.
        device: `cpu` or `gpu`.
    """

    def __init__(self, value, tensors, device):
        self._value, self._tensors, self._on_gpu = value, tensors, device == "gpu"

    def __call__(self):
        import torch

        value = self._value()
        torch.autograd.grad(value, self._tensors, allow_unused=True)
        return value.item()

    def wait(self):
        import torch

        if self._on_gpu:
            torch.cuda.synchronize()

    def reset_peak(self):
        import torch

        if not self._on_gpu:
            return peak_memory.reset_peak()
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()

    def peak(self):
        import torch

        return torch.cuda.max_memory_allocated() if self._on_gpu else peak_memory.peak()


class OnJax:
    """A step of tfdml's with the JAX backend, compiled. The peak of its memory is XLA's plan, which is followed.

    Args:
        loss: the loss.
        layer: its built layer, or None.
        labels: `[B]` array.
        embeddings: `[B, d]` array.
    """

    def __init__(self, loss, layer, labels, embeddings):
        import jax

        def mean(embeddings, weights, labels):
            taken = layer.stateless_call(weights, [], embeddings, labels)[0] if layer else embeddings
            return loss.call(labels, taken).mean()

        weights = [weight.value for weight in layer.trainable_weights] if layer else []
        self._batch = jax.numpy.array(embeddings), weights, jax.numpy.array(labels)
        self._step = jax.jit(jax.value_and_grad(mean, argnums=(0, 1))).lower(*self._batch).compile()

    def __call__(self):
        import jax

        return float(jax.block_until_ready(self._step(*self._batch))[0])

    def wait(self):
        pass

    def reset_peak(self):
        return 0

    def peak(self):
        plan = self._step.memory_analysis()
        return plan.temp_size_in_bytes + plan.output_size_in_bytes


def step_of_ours(spec, labels, embeddings, backend, device, jit_compile):
    """A step of tfdml's; the process has `backend` as its KERAS_BACKEND.

    Args:
        spec: of the loss.
        labels: `[B]` array.
        embeddings: `[B, d]` array.
        backend: `tensorflow`, `torch` or `jax`.
        device: `cpu` or `gpu`.
        jit_compile: whether XLA compiles the step of TensorFlow.
    """
    from tfdml import registry

    loss = registry.create("loss", spec)
    layer = loss.make_layer()
    if layer is not None:
        layer.build((None, embeddings.shape[1]))
        layer.built = True
    if backend == "tensorflow":
        return OnTensorFlow(loss, layer, labels, embeddings, device, jit_compile)
    if backend == "jax":
        return OnJax(loss, layer, labels, embeddings)
    labels, embeddings = on_torch_device(labels, embeddings, device)
    weights = [weight.value for weight in layer.trainable_weights] if layer else []

    def value():
        return loss.call(labels, layer(embeddings, labels) if layer else embeddings).mean()

    return OnTorch(value, [embeddings, *weights], device)


def on_torch_device(labels, embeddings, device):
    """Returns the tensors of a batch. The embeddings require a gradient."""
    import torch

    place = "cuda" if device == "gpu" else "cpu"
    return torch.tensor(labels, device=place), torch.tensor(embeddings, device=place, requires_grad=True)
