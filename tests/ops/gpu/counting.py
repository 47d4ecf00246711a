"""What a GPU would have to do, counted on the CPU."""

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# The host waits for the device, in methods of Python or inside of PyTorch.
_METHODS = {
    Tensor.cpu,
    Tensor.item,
    Tensor.numpy,
    Tensor.tolist,
    Tensor.__bool__,
    Tensor.__float__,
    Tensor.__index__,
    Tensor.__int__,
}
_OPERATIONS = {
    "aten._local_scalar_dense.default",
    "aten.masked_select.default",
    "aten.nonzero.default",
    "aten.unique_dim.default",
    "aten._unique2.default",
}
_MEMORY_ONLY = ("aten.empty", "aten.new_empty", "aten.detach", "aten.lift_fresh")


class Counter:
    """Lists the launches, of kernels or of operations of PyTorch that are no views, and
    the synchronisations."""

    def __init__(self) -> None:
        self.launches: list[str] = []
        self.synchronisations: list[str] = []
        self._inside = False

    def __enter__(self) -> "Counter":
        from gswe_pyg.ops.triton import adjoint, interpolate, read, sort

        self._modules = (adjoint, interpolate, read, sort)
        self._launch = sort.launch
        for module in self._modules:
            module.launch = self._count_launch
        self._functions, self._dispatch = _Functions(self), _Operations(self)
        self._functions.__enter__()
        self._dispatch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._dispatch.__exit__(*error)
        self._functions.__exit__(*error)
        for module in self._modules:
            module.launch = self._launch

    def _count_launch(self, kernel, *args, **options) -> None:
        self.launches.append(kernel.__name__)
        before, self._inside = self._inside, True  # the interpreter copies tensors
        self._launch(kernel, *args, **options)
        self._inside = before

    def __repr__(self) -> str:
        return f"launches {self.launches}, synchronisations {self.synchronisations}"


class _Functions(TorchFunctionMode):
    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def __torch_function__(self, function, types, args=(), kwargs=None):
        counter = self.counter
        if counter._inside or function not in _METHODS:
            return function(*args, **(kwargs or {}))
        counter.synchronisations.append(function.__name__)
        counter._inside = True
        try:
            return function(*args, **(kwargs or {}))
        finally:
            counter._inside = False


class _Operations(TorchDispatchMode):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        is_counted = not self.counter._inside
        if is_counted and name in _OPERATIONS:
            self.counter.synchronisations.append(name)
        is_view = any(a.alias_info is not None for a in function._schema.returns)
        is_free = is_view or name.startswith(_MEMORY_ONLY)
        if is_counted and not is_free and "_local_scalar" not in name:
            self.counter.launches.append(name)
        return function(*args, **(kwargs or {}))
