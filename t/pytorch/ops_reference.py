#!/usr/bin/env python3
"""Values and gradients of single operations from PyTorch, computed in float64 from float32 inputs:
writes t/data/ops/*.npy. Inputs are float32, results float64, labels int32.

linear_MxKxN_{x,w,b,dy}        Y = act(X W^T + b), X [M,K], W [N,K]
linear_MxKxN_z                 X W^T + b
linear_MxKxN_ACT_{y,dz,dx,dw,db}
activation_{x,dy}, activation_ACT_{y,dx}
softmax_MxN_{x,y,log}
cross_entropy_MxN_{x,labels,loss,dx}            mean; label -100 is ignored
cross_entropy_MxN_{p,p_loss,p_dx}               probabilities; one row does not sum to 1
mse_MxN_{y,target,loss,dy}                      mean
optimizer_{w,g} [5,13] and [3,5,13], optimizer_NAME_w [3,5,13]: after each of three steps
    sgd            lr 0.1
    sgd_momentum   lr 0.1, momentum 0.9, weight decay 0.01
    sgd_nesterov   the same with Nesterov's momentum
    adam           lr 0.01, beta 0.9 and 0.999, epsilon 1e-8
    adam_decay     the same with weight decay 0.1, added to the gradient
    adamw          the same with weight decay 0.1, decoupled"""

import os

import numpy as np
import torch
import torch.nn.functional as F

from philox import uniform

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "ops")
ACTIVATIONS = {
    "none": lambda z: z,
    "relu": F.relu,
    "leaky_relu": lambda z: F.leaky_relu(z, 0.01),
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
tensors = 1000  # of philox.py: no two inputs share numbers, nor any with a network's weights


def save(name, array):
    np.save(os.path.join(OUT, name + ".npy"), np.asarray(array))


def make(name, *shape, bound=1):
    """A float32 input, saved; returned in float64 with a gradient."""
    global tensors
    tensors += 1
    array = uniform(shape, 1, tensors, np.float32(bound))
    save(name, array)
    return torch.from_numpy(array).double().requires_grad_()


def numpy(tensor):
    return tensor.detach().numpy()


def linear(m, k, n):
    name = f"linear_{m}x{k}x{n}"
    x, w = make(name + "_x", m, k, bound=2), make(name + "_w", n, k)
    b, dy = make(name + "_b", n), make(name + "_dy", m, n)
    save(name + "_z", numpy(F.linear(x, w, b)))
    for act, function in ACTIVATIONS.items():
        z = F.linear(x, w, b)
        y = function(z)
        grads = torch.autograd.grad(y, (z, x, w, b), dy.detach())
        save(f"{name}_{act}_y", numpy(y))
        for what, grad in zip(("dz", "dx", "dw", "db"), grads):
            save(f"{name}_{act}_{what}", numpy(grad))


def activations():
    # Both tails; none of the values is 0, where derivatives are a matter of convention.
    small = uniform((60,), 1, 999, np.float32(6))
    x = np.concatenate([small, np.float32([-100, -30, -12.5, -1e-3, -1e-20, 1e-20, 1e-3, 12.5, 30,
                                           100])]).reshape(7, 10)
    save("activation_x", x)
    dy = make("activation_dy", 7, 10)
    for act, function in ACTIVATIONS.items():
        z = torch.from_numpy(x).double().requires_grad_()
        y = function(z)
        save(f"activation_{act}_y", numpy(y))
        save(f"activation_{act}_dx", numpy(torch.autograd.grad(y, z, dy.detach())[0]))


def softmax(m, n):
    name = f"softmax_{m}x{n}"
    x = uniform((m, n), 1, 998 - m, np.float32(8))
    x[0] *= 100  # one row that overflows without the maximum taken off
    save(name + "_x", x)
    x = torch.from_numpy(x).double()
    save(name + "_y", numpy(F.softmax(x, 1)))
    save(name + "_log", numpy(F.log_softmax(x, 1)))


def cross_entropy(m, n):
    name = f"cross_entropy_{m}x{n}"
    x = make(name + "_x", m, n, bound=8)
    labels = np.arange(m, dtype=np.int32) * 7 % n
    labels[1::5] = -100
    save(name + "_labels", labels)
    loss = F.cross_entropy(x, torch.from_numpy(labels).long(), ignore_index=-100)
    save(name + "_loss", numpy(loss).reshape(1))
    save(name + "_dx", numpy(torch.autograd.grad(loss, x)[0]))
    p = (make(name + "_p_raw", m, n).detach().numpy() + 1) ** 2
    os.remove(os.path.join(OUT, name + "_p_raw.npy"))
    p /= p.sum(1, keepdims=True)
    p[0] *= 1.5
    p[m - 1] = np.arange(n) == n - 1
    p = p.astype(np.float32)
    save(name + "_p", p)
    loss = F.cross_entropy(x, torch.from_numpy(p).double())
    save(name + "_p_loss", numpy(loss).reshape(1))
    save(name + "_p_dx", numpy(torch.autograd.grad(loss, x)[0]))


def mse(m, n):
    name = f"mse_{m}x{n}"
    y, target = make(name + "_y", m, n, bound=3), make(name + "_target", m, n, bound=3)
    loss = F.mse_loss(y, target)
    save(name + "_loss", numpy(loss).reshape(1))
    save(name + "_dy", numpy(torch.autograd.grad(loss, y)[0]))


def optimizers():
    first, grads = make("optimizer_w", 5, 13), make("optimizer_g", 3, 5, 13).detach()
    momentum = dict(lr=0.1, momentum=0.9, weight_decay=0.01)
    adam = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8)
    for name, kind, options in (
            ("sgd", torch.optim.SGD, dict(lr=0.1)),
            ("sgd_momentum", torch.optim.SGD, momentum),
            ("sgd_nesterov", torch.optim.SGD, dict(momentum, nesterov=True)),
            ("adam", torch.optim.Adam, adam),
            ("adam_decay", torch.optim.Adam, dict(adam, weight_decay=0.1)),
            ("adamw", torch.optim.AdamW, dict(adam, weight_decay=0.1))):
        w = first.detach().clone().requires_grad_()
        optimizer, steps = kind([w], **options), []
        for g in grads:
            w.grad = g.clone()
            optimizer.step()
            steps.append(numpy(w).copy())
        save(f"optimizer_{name}_w", np.stack(steps))


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    linear(7, 5, 3)
    linear(17, 33, 65)
    linear(1, 1, 1)
    activations()
    softmax(7, 5)
    softmax(17, 65)
    cross_entropy(7, 5)
    cross_entropy(17, 65)
    mse(7, 5)
    mse(17, 33)
    optimizers()
