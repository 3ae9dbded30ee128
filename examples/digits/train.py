# SPDX-License-Identifier: Apache-2.0
"""Trains the model of `make demo` and writes it: digits.onnx, test images and labels as .npy.

A convolutional network for 8x8 grey images of handwritten digits, 1,797 of them from the UCI Machine Learning Repository
(Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998, CC BY 4.0), as scikit-learn ships them.
Plain NumPy, a few minutes on one core; the weights depend on the seed alone.

    pip install numpy scikit-learn onnx
    python train.py
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SEED, EPOCHS, BATCH, RATE, DECAY, N_TEST = 7, 60, 32, 2e-3, 1e-4, 360
rng = np.random.default_rng(SEED)


def windows(x):
    """[n, c, h, w] -> [n, h, w, c*9]: 3x3 neighbourhoods with zero padding."""
    n, c, h, w = x.shape
    p = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [p[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, axis=2).reshape(n, c * 9, h, w).transpose(0, 2, 3, 1)


class Conv:
    """3x3, stride 1, padding 1, relu, then 2x2 max pooling where asked."""

    def __init__(self, c_in, c_out, pool):
        self.w = rng.normal(0, np.sqrt(2 / (9 * c_in)), (c_out, c_in, 3, 3))
        self.b = np.zeros(c_out)
        self.pool = pool

    def forward(self, x):
        self.shape, self.cols = x.shape, windows(x)
        y = self.cols @ self.w.reshape(len(self.b), -1).T + self.b
        self.mask = y > 0
        y = (y * self.mask).transpose(0, 3, 1, 2)
        if self.pool:
            n, c, h, w = y.shape
            blocks = y.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
            self.winner = blocks.argmax(-1)
            y = blocks.max(-1)
        return y

    def backward(self, g):
        if self.pool:
            n, c, h, w = g.shape
            blocks = np.zeros((n, c, h, w, 4))
            np.put_along_axis(blocks, self.winner[..., None], g[..., None], -1)
            g = blocks.reshape(n, c, h, w, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, 2 * h, 2 * w)
        g = g.transpose(0, 2, 3, 1) * self.mask
        flat = g.reshape(-1, g.shape[-1])
        self.dw = (flat.T @ self.cols.reshape(len(flat), -1)).reshape(self.w.shape)
        self.db = flat.sum(0)
        n, c, h, w = self.shape
        cols = (g @ self.w.reshape(len(self.b), -1)).transpose(0, 3, 1, 2).reshape(n, c, 9, h, w)
        p = np.zeros((n, c, h + 2, w + 2))
        for t in range(9):
            p[:, :, t // 3:t // 3 + h, t % 3:t % 3 + w] += cols[:, :, t]
        return p[:, :, 1:-1, 1:-1]


class Dense:
    def __init__(self, n_in, n_out):
        self.w = rng.normal(0, np.sqrt(2 / n_in), (n_out, n_in))
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.w.T + self.b

    def backward(self, g):
        self.dw, self.db = g.T @ self.x, g.sum(0)
        return (g @ self.w).reshape(self.shape)


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def train(layers, x, t):
    moments = {}
    step = 0
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for k in range(0, len(x), BATCH):
            pick = order[k:k + BATCH]
            shift = rng.integers(-1, 2, 2)
            y = np.roll(x[pick], shift, (2, 3))
            for layer in layers:
                y = layer.forward(y)
            g = (softmax(y) - np.eye(10)[t[pick]]) / len(pick)
            for layer in reversed(layers):
                g = layer.backward(g)
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
            for i, layer in enumerate(layers):  # AdamW, Loshchilov and Hutter 2019
                for name in "wb":
                    grad, value = getattr(layer, "d" + name), getattr(layer, name)
                    m, v = moments.setdefault((i, name), [np.zeros_like(value), np.zeros_like(value)])
                    m += 0.1 * (grad - m)
                    v += 0.001 * (grad * grad - v)
                    value -= rate * ((m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8) + DECAY * value)


def predict(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x.argmax(1)


def export(layers, path):
    const = {}
    for i, layer in enumerate(layers, 1):
        const["w%d" % i], const["b%d" % i] = layer.w.astype(np.float32), layer.b.astype(np.float32)
    conv = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    node = helper.make_node
    nodes = [
        node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", **conv), node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", **conv), node("Relu", ["c2"], ["r2"], "relu2"),
        node("MaxPool", ["r2"], ["p2"], "pool2", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p2", "w3", "b3"], ["c3"], "conv3", **conv), node("Relu", ["c3"], ["r3"], "relu3"),
        node("MaxPool", ["r3"], ["p3"], "pool3", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p3"], ["f"], "flatten"), node("Gemm", ["f", "w4", "b4"], ["logits"], "fc", transB=1),
        node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(v, k) for k, v in const.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="examples/digits/train.py")
    model.ir_version = 9
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main():
    data = load_digits()
    x = (data.images / 16 - 0.3).reshape(-1, 1, 8, 8)
    order = np.random.default_rng(0).permutation(len(x))
    x, t = x[order], data.target[order]
    layers = [Conv(1, 16, False), Conv(16, 32, True), Conv(32, 64, True), Dense(256, 10)]
    train(layers, x[N_TEST:], t[N_TEST:])
    right = (predict(layers, x[:N_TEST]) == t[:N_TEST]).mean()
    print("test accuracy %.4f on %d images that training did not see" % (right, N_TEST))
    export(layers, "digits.onnx")
    np.save("images.npy", x[:N_TEST].astype(np.float32))
    np.save("labels.npy", t[:N_TEST].astype(np.int64))


main()
