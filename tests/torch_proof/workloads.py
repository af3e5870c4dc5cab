"""Small programs that train on the CPU; between them they call most of what models call.

Each function prepares a program and returns its step, which is what is recorded: forward, backward and, where the
program has one, the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  (PyTorch's own convention)
from torch import Tensor, nn

Step = Callable[[], object]


def cnn() -> Step:
    """A residual network of images."""

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outer)
            self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(outer)
            self.short = nn.Conv2d(inner, outer, 1, stride, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu(self.norm1(self.first(x)), inplace=True)
            return F.relu(self.norm2(self.second(y)) + self.short(x))

    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(8, 8, 1), Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
    images, labels = torch.rand(4, 3, 32, 32), torch.randint(10, (4,))

    def step() -> None:
        for batch in (images, images.contiguous(memory_format=torch.channels_last)):
            optimizer.zero_grad()
            F.cross_entropy(model(batch), labels, label_smoothing=0.1).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            model.eval()
            model(images).softmax(-1).topk(3)
            model.train()

    return step


def transformer() -> Step:
    """Encoder and decoder, attention of several kinds, and training in bfloat16."""
    width, heads, tokens = 32, 4, 12
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(width, heads, 64, batch_first=True), 2, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoderLayer(width, heads, 64, activation="gelu", norm_first=True, batch_first=True)
    attention = nn.MultiheadAttention(width, heads, batch_first=True)
    embedding, head = nn.Embedding(50, width), nn.Linear(width, 50)
    parts = nn.ModuleList([encoder, decoder, attention, embedding, head])
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3, foreach=True)
    tokens_in, tokens_out = torch.randint(50, (2, tokens)), torch.randint(50, (2, tokens))
    causal = nn.Transformer.generate_square_subsequent_mask(tokens)
    padding = torch.arange(tokens).expand(2, -1) >= torch.tensor([[tokens], [tokens - 3]])

    def rotated(x: Tensor) -> Tensor:
        angles = torch.outer(torch.arange(x.shape[-2]), 10000 ** -torch.linspace(0, 1, x.shape[-1] // 2))
        cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    def forward() -> Tensor:
        memory = encoder(embedding(tokens_in) * width**0.5, src_key_padding_mask=padding)
        x = decoder(embedding(tokens_out), memory, tgt_mask=causal)
        x = x + attention(x, memory, memory, need_weights=True)[0]
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (x, memory, x))
        q, k = rotated(q), rotated(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y + F.scaled_dot_product_attention(q, k, v, attn_mask=causal, scale=0.5)
        scores = (q @ k.mT / 8.0).masked_fill(causal.isinf(), float("-inf"))
        y = y + scores.softmax(-1) @ v
        grouped = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        return F.cross_entropy(head((y + grouped).transpose(1, 2).flatten(2)).flatten(0, 1), tokens_out.flatten())

    def step() -> None:
        forward().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = forward()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            parts.eval()
            encoder(embedding(tokens_in), src_key_padding_mask=padding)
            torch.multinomial(head(decoder(embedding(tokens_out), embedding(tokens_in)))[:, -1].softmax(-1), 1)
            parts.train()

    return step


def mlp_with_embedding() -> Step:
    """A recommender: sparse and dense features, bags of embeddings, interactions."""
    bags = nn.ModuleList([nn.EmbeddingBag(100, 16, mode=mode) for mode in ("sum", "mean", "max")])
    sparse = nn.EmbeddingBag(40, 16, sparse=True, mode="sum")
    table = nn.Embedding(100, 16, padding_idx=0, max_norm=2.0)
    bottom = nn.Sequential(nn.Linear(13, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 16), nn.Tanh())
    top = nn.Sequential(nn.Linear(31, 32), nn.LeakyReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    parts = nn.ModuleList([bags, table, bottom, top])
    optimizer = torch.optim.Adagrad(parts.parameters(), lr=0.05)
    sparse_optimizer = torch.optim.SparseAdam(sparse.parameters())
    indices = torch.randint(100, (20,))
    few, offsets = torch.randint(40, (20,)), torch.tensor([0, 3, 3, 9, 14, 15, 18, 19])
    dense, clicks = torch.randn(8, 13), torch.rand(8, 1).round()
    ids, per_sample = torch.randint(100, (8, 3)), torch.rand(20)

    def step() -> None:
        vectors = [bag(indices, offsets) for bag in bags] + [sparse(few, offsets), table(ids).mean(1)]
        vectors.append(F.embedding_bag(indices, table.weight, offsets, mode="sum", per_sample_weights=per_sample))
        features = torch.stack([bottom(dense), *vectors[:5]], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        rows, columns = torch.tril_indices(6, 6, -1)
        logits = top(torch.cat([features[:, 0], products[:, rows, columns]], 1))
        loss = F.binary_cross_entropy_with_logits(logits, clicks) + F.mse_loss(vectors[5], features[:, 1])
        loss.backward()
        for one in (optimizer, sparse_optimizer):
            one.step()
            one.zero_grad()
        logits.sigmoid().gt(0.5).eq(clicks.bool()).float().mean().item()

    return step


def optimizers() -> Step:
    """Every optimizer in its plain, foreach and fused forms, and what goes with them."""
    forms: list[tuple[type, dict[str, object]]] = [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "fused": True}), (torch.optim.SGD, {"lr": 0.1, "foreach": True}),
        (torch.optim.Adam, {"amsgrad": True, "foreach": True}), (torch.optim.Adam, {"fused": True}),
        (torch.optim.Adam, {"foreach": False, "weight_decay": 0.1}), (torch.optim.AdamW, {"fused": True}),
        (torch.optim.AdamW, {"foreach": True}), (torch.optim.NAdam, {"foreach": True}), (torch.optim.RAdam, {}),
        (torch.optim.Adamax, {"foreach": True}), (torch.optim.Adadelta, {"foreach": True}),
        (torch.optim.Adagrad, {"fused": True}), (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
        (torch.optim.Rprop, {"foreach": True}), (torch.optim.ASGD, {"foreach": True}),
    ]  # fmt: skip
    pairs = []
    for kind, options in forms:
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        pairs.append((model, kind(model.parameters(), **options)))
    x = torch.rand(4, 8)
    tiny = nn.Linear(8, 4)
    averaged = torch.optim.swa_utils.AveragedModel(tiny)
    newton = torch.optim.LBFGS(tiny.parameters(), max_iter=3, line_search_fn="strong_wolfe")

    def loss_of_tiny() -> Tensor:
        newton.zero_grad()
        loss = tiny(x).square().mean()
        loss.backward()
        return loss

    def step() -> None:
        for model, optimizer in pairs:
            optimizer.zero_grad()
            F.huber_loss(model(x), torch.zeros(4, 4)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5, foreach=True)
            nn.utils.clip_grad_value_(model.parameters(), 0.1)
            optimizer.step()
        newton.step(loss_of_tiny)
        averaged.update_parameters(tiny)

    return step


def norms() -> Step:
    """Norms of every kind, and losses and activations beside them."""
    images, rows = torch.randn(2, 8, 6, 6), torch.randn(3, 5, 16)
    modules = [
        nn.BatchNorm2d(8), nn.BatchNorm2d(8, affine=False, track_running_stats=False),
        nn.InstanceNorm2d(8, affine=True),
        nn.GroupNorm(4, 8), nn.LocalResponseNorm(3),
    ]  # fmt: skip
    of_rows = [nn.LayerNorm(16), nn.LayerNorm((5, 16)), nn.RMSNorm(16), nn.RMSNorm(16, eps=1e-6)]
    weighted = nn.utils.parametrizations.weight_norm(nn.Linear(16, 8))
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 8))
    activations = [
        F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.elu, F.selu, F.celu, F.hardswish, F.hardsigmoid, F.mish,
        F.softplus, F.softsign, F.logsigmoid, F.glu, F.relu6, F.hardtanh, F.silu, F.tanhshrink, F.softshrink, F.rrelu,
        lambda x: F.prelu(x, torch.tensor([0.25])), lambda x: F.log_softmax(x, -1), F.normalize,
        lambda x: F.gumbel_softmax(x, dim=-1), lambda x: F.threshold(x, 0.1, 0.0), F.alpha_dropout, F.logsigmoid,
    ]  # fmt: skip
    losses = [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss, lambda a,
        b: F.kl_div(a, b.softmax(-1)),
        lambda a, b: F.poisson_nll_loss(a, b.abs()), lambda a, b: F.gaussian_nll_loss(a, b, torch.ones_like(b)),
        lambda a, b: F.cosine_similarity(a, b, -1).sum(), lambda a, b: F.pairwise_distance(a, b).sum(),
        lambda a, b: F.binary_cross_entropy(a.sigmoid(), b.sigmoid()), lambda a, b: F.triplet_margin_loss(a, b, b + 1),
        lambda a, b: F.margin_ranking_loss(a, b, torch.ones_like(b)), lambda a, b: F.hinge_embedding_loss(a, b.sign()),
        lambda a, b: torch.cdist(a, b).sum(), lambda a, b: F.multilabel_soft_margin_loss(a, b.sigmoid()),
    ]  # fmt: skip

    def step() -> None:
        for given, several in ((images, modules), (rows, of_rows), (rows, [weighted, spectral]), (rows, activations)):
            for one in several:
                one(given.clone().requires_grad_()).sum().backward()
        for loss in losses:
            loss(rows[0].clone().requires_grad_(), rows[1]).mean().backward()
        for order in (1, 2, float("inf"), 0.5):
            rows.clone().requires_grad_().norm(order, -1).sum().backward()
        half = rows.bfloat16().requires_grad_()
        F.layer_norm(half, (16,)).float().var((0, 1)).sum().backward()
        rows.std(dim=-1, keepdim=True), rows.logsumexp((0, 2)), rows.cumsum(1), rows.prod(), rows.aminmax(dim=1)

    return step


def indexing() -> Step:
    """Reading and writing by index, views, sorting, counting."""
    table, small = torch.randn(10, 6), torch.randn(4, 6)
    rows, columns, mask = torch.randint(10, (4,)), torch.randint(6, (4,)), torch.rand(10, 6) > 0.5
    places = torch.randint(10, (4, 6))

    def reading() -> None:
        x = table.clone().requires_grad_()
        total = x[rows].sum() + x[rows, columns].sum() + x[mask].sum() + x[..., 1:5:2].sum() + x[:, None, 0].sum()
        total = total + x.gather(0, places).sum() + x.index_select(0, rows).sum() + x.take(places).sum()
        total = total + torch.where(mask, x, 0.0).sum() + x.masked_select(mask).sum() + x.unfold(0, 3, 2).sum()
        total = total + x.as_strided((3, 4), (2, 1), 5).sum() + x.diagonal(1).sum() + x.narrow(0, 2, 3).sum()
        total = total + x.t()[rows % 6].sum() + x[rows[:, None], columns[None]].sum() + x[:, columns].sum()
        total = total + torch.take_along_dim(x, places, 0).sum() + x.select(1, 2).sum() + x.flip(0).roll(2, 1).sum()
        (total + x.expand(3, 10, 6).sum() + x.repeat(2, 1).sum() + x.repeat_interleave(2, 0).sum()).backward()

    def writing() -> None:
        x = table.clone()
        x[rows] = small
        x[rows, columns] = 1.0
        x[mask] = 0.0
        x[1:3] += 2.0
        x[0, 0] = 5
        x.index_put_((rows, columns), small[:, 0], accumulate=True)
        x.scatter_(0, places, small).scatter_add_(0, places, small).scatter_(1, places % 6, 3.0)
        x.scatter_reduce_(0, places, small, "amax").index_add_(0, rows, small, alpha=0.5).index_fill_(1, columns, 0.0)
        x.index_copy_(0, rows.unique(), small[: len(rows.unique())]).index_reduce_(0, rows, small, "prod")
        x.masked_fill_(mask, -1.0).masked_scatter_(mask, torch.randn(60)).put_(rows, small[:, 0])
        y = small.clone().requires_grad_()
        grown = table.index_add(0, rows, y) + table.scatter_add(0, places, y) + table.index_copy(0, torch.arange(4), y)
        (grown + table.index_put((rows,), y) + table.slice_scatter(y, 0, 2, 6)).sum().backward()

    def ordering() -> None:
        x = table.clone().requires_grad_()
        (x.sort(0).values.sum() + x.topk(3, -1).values.sum() + x.kthvalue(2).values.sum() + x.median()).backward()
        table.argsort(stable=True), table.unique(return_inverse=True, return_counts=True), rows.unique_consecutive()
        (
            torch.bincount(rows, minlength=12),
            torch.histc(table, 5),
            torch.searchsorted(table.sort(1).values, small[:1].repeat(10, 1)),
        )
        torch.bucketize(table, torch.tensor([-1.0, 0.0, 1.0])), table.nonzero(), mask.nonzero(as_tuple=True)
        table.argmax(1), table.max(0), table.cummax(0), table.mode(), F.one_hot(rows, 10), torch.isin(rows, columns)
        torch.meshgrid(rows, columns, indexing="ij"), torch.cartesian_prod(rows, columns), torch.combinations(rows)
        table.split([2, 3, 5]), torch.tensor_split(table, 3), table.unbind(1), torch.block_diag(table, small)
        torch.stack([table, table]), torch.cat([table, small]), table.tril(1), table.triu(), torch.diag_embed(table)
        torch.histogramdd(table[:, :2], [2, 2]), table.quantile(0.3, dim=1), table.nanmedian(), table.count_nonzero(0)

    def step() -> None:
        for part in (reading, writing, ordering):
            part()

    return step


def convolutions() -> Step:
    """Convolutions of every kind, pooling, padding and resizing, each forward and backward."""
    line, plane, space = torch.randn(2, 4, 12), torch.randn(2, 4, 10, 10), torch.randn(1, 4, 5, 6, 7)
    halved = torch.eye(2, 3).mul(0.5).expand(2, 2, 3)
    modules: list[tuple[Tensor, Callable[[Tensor], Tensor]]] = [
        (line, nn.Conv1d(4, 6, 3, padding=1)), (line, nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1)),
        (plane, nn.Conv2d(4, 8, 3)), (plane, nn.Conv2d(4, 8, 3, groups=2, dilation=2)),
        (plane, nn.Conv2d(4, 4, 3, groups=4)),
        (plane, nn.Conv2d(4, 8, (3, 1), stride=(2, 1), padding="valid")), (plane, nn.Conv2d(4, 8, 3, padding="same")),
        (plane, nn.Conv2d(4, 8, 3, padding=1, padding_mode="circular", bias=False)), (plane[:1], nn.Conv2d(4, 8, 1)),
        (plane, nn.ConvTranspose2d(4, 6, 4, 2, 1)), (plane, nn.ConvTranspose2d(4, 4, 3, groups=4)),
        (plane.contiguous(memory_format=torch.channels_last), nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)),
        (space, nn.Conv3d(4, 6, 3)), (space, nn.ConvTranspose3d(4, 6, 2, stride=2)), (space, nn.BatchNorm3d(4)),
        (plane.bfloat16(), nn.Conv2d(4, 8, 3).bfloat16()), (plane.double(), nn.Conv2d(4, 8, 3).double()),
        (line, nn.MaxPool1d(2)), (line, nn.AvgPool1d(3, 2)), (line, nn.AdaptiveMaxPool1d(5)), (line, nn.LPPool1d(2, 3)),
        (plane, nn.MaxPool2d(3, 2, 1, ceil_mode=True)), (plane, nn.AvgPool2d(2, count_include_pad=False)),
        (plane, nn.AdaptiveAvgPool2d((3, 5))), (plane, nn.AdaptiveMaxPool2d(4)), (plane, nn.FractionalMaxPool2d(2, 5)),
        (space, nn.MaxPool3d(2)), (space, nn.AvgPool3d(2)), (space, nn.AdaptiveAvgPool3d(2)),
        (line, nn.ReflectionPad1d(2)),
        (plane, nn.ReflectionPad2d(2)), (plane, nn.ReplicationPad2d((1, 2, 0, 1))), (plane, nn.ConstantPad2d(1, 3.5)),
        (plane, nn.ZeroPad2d(-1)), (plane, nn.CircularPad2d(1)), (plane, nn.Unfold(3)), (plane, nn.PixelShuffle(2)),
        (plane, nn.PixelUnshuffle(2)), (plane, nn.ChannelShuffle(2)),
        (line, nn.Upsample(scale_factor=2, mode="linear")),
        (plane, nn.Upsample(scale_factor=2)), (plane, nn.Upsample(size=(7, 13), mode="bilinear", align_corners=True)),
        (plane, nn.Upsample(scale_factor=1.5, mode="bicubic")), (space, nn.Upsample(scale_factor=2, mode="trilinear")),
        (plane, lambda x: F.interpolate(x, 5, mode="area")),
        (plane, lambda x: F.interpolate(x, 6, mode="bilinear", antialias=True)),
        (plane, lambda x: F.grid_sample(x, F.affine_grid(halved, (2, 4, 6, 6), False), align_corners=False)),
        (plane, lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)), (plane, nn.Dropout2d(0.3)),
        (torch.randn(2, 36, 16), lambda x: F.fold(x, (6, 6), 3)),
        (line, lambda x: F.conv_tbc(x, torch.ones(3, 12, 2), torch.zeros(2))),
    ]  # fmt: skip

    def step() -> None:
        for given, module in modules:
            module(given.clone().requires_grad_()).sum().backward()
        with torch.no_grad():
            for given, module in modules[:14]:
                module(given)

    return step


def recurrent() -> Step:
    """Recurrent networks, with packed sequences, projections and several layers."""
    batch, lengths = torch.randn(3, 7, 6), torch.tensor([7, 5, 2])
    networks = [
        nn.LSTM(6, 8, batch_first=True), nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True, dropout=0.1),
        nn.LSTM(6, 8, proj_size=4, batch_first=True), nn.GRU(6, 8, batch_first=True),
        nn.GRU(6, 8, 2, bidirectional=True),
        nn.RNN(6, 8, batch_first=True), nn.RNN(6, 8, nonlinearity="relu", bias=False),
    ]  # fmt: skip
    cells = [nn.LSTMCell(6, 8), nn.GRUCell(6, 8), nn.RNNCell(6, 8)]
    targets, target_lengths = torch.randint(1, 8, (3, 2)), torch.tensor([2, 1, 2])

    def step() -> None:
        for network in networks:
            output = network(batch.clone().requires_grad_())[0]
            output.mean().backward()
            with torch.no_grad():
                network(batch)
        packed = nn.utils.rnn.pack_padded_sequence(batch.clone().requires_grad_(), lengths, batch_first=True)
        for network in (networks[0], networks[3]):
            padded, _ = nn.utils.rnn.pad_packed_sequence(network(packed)[0], batch_first=True)
            padded.sum().backward(retain_graph=True)
        for cell in cells:
            state = cell(batch[:, 0])
            (state[0] if isinstance(state, tuple) else state).sum().backward()
        logits = networks[0](batch)[0].transpose(0, 1).log_softmax(-1)
        F.ctc_loss(logits, targets, lengths, target_lengths).backward()

    return step


def sparse() -> Step:
    """Sparse tensors with coordinates."""
    dense = torch.randn(6, 8) * (torch.rand(6, 8) > 0.6)
    right = torch.randn(8, 3)

    def step() -> None:
        coo, weight = dense.to_sparse(), right.clone().requires_grad_()
        (torch.sparse.mm(coo, weight).sum() + torch.sparse.addmm(torch.ones(6, 3), coo, weight).sum()).backward()
        (coo + coo).coalesce().to_dense(), (coo * 2.0).values(), coo.transpose(0, 1).coalesce().indices()
        torch.sparse.sum(coo, 0), torch.sparse.softmax(coo, 1), coo.index_select(0, torch.tensor([1, 3]))
        made = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.randn(3), (2, 3))
        (
            made.coalesce(),
            made.to_dense(),
            made._nnz(),
            made.clone(),
            coo.sparse_mask(coo.coalesce()),
            coo.relu(),
            coo.neg(),
        )
        leaf = dense.clone().requires_grad_()
        leaf.to_sparse().to_dense().sum().backward()
        torch.cat([coo, coo]), torch.bmm(torch.stack([coo, coo]), torch.stack([right, right]))

    return step


def compressed() -> Step:
    """Sparse tensors with compressed rows, columns or blocks."""
    dense = torch.randn(6, 8) * (torch.rand(6, 8) > 0.6)
    right = torch.randn(8, 3)

    def step() -> None:
        csr = dense.to_sparse_csr()
        (csr @ right), csr.to_dense(), csr.crow_indices(), dense.to_sparse().to_sparse_csr()
        torch.sparse_csr_tensor(csr.crow_indices(), csr.col_indices(), csr.values(), csr.shape).to_dense()
        dense.to_sparse_csc().to_dense(), dense.to_sparse_bsr((2, 2)).to_dense()

    return step


def linear_algebra() -> Step:
    """Complex numbers, transforms, decompositions, and further dtypes."""
    matrix, vector = torch.randn(5, 5), torch.randn(5)
    positive = matrix @ matrix.T + 5 * torch.eye(5)
    waves = torch.randn(3, 16)

    def decompositions() -> None:
        x, p = matrix.clone().requires_grad_(), positive.clone().requires_grad_()
        parts = [
            torch.linalg.inv(p), torch.linalg.cholesky(p), torch.linalg.qr(x)[1], torch.linalg.svdvals(x),
            torch.linalg.eigvalsh(p), torch.linalg.solve(p, vector), torch.linalg.det(p), torch.linalg.slogdet(p)[1],
            torch.linalg.matrix_exp(x * 0.1), torch.linalg.pinv(p), torch.linalg.lstsq(p, matrix)[0],
            torch.linalg.norm(x),
            torch.cholesky_solve(matrix, torch.linalg.cholesky(p)),
            torch.linalg.solve_triangular(p.tril(), x, upper=False),
            torch.linalg.matrix_power(x, 3), torch.linalg.multi_dot([x, p, x]), torch.logdet(p), torch.linalg.cond(p),
            torch.linalg.lu_factor(p)[0], torch.kron(x, p), torch.linalg.vector_norm(x, 3), torch.linalg.eigh(p)[0],
        ]  # fmt: skip
        torch.stack([part.sum() for part in parts]).sum().backward()
        torch.linalg.eig(matrix), torch.linalg.lu(matrix), torch.linalg.matrix_rank(matrix), torch.cov(matrix)
        torch.linalg.ldl_factor(positive), torch.linalg.cross(matrix[:, :3], matrix[:, 1:4]), torch.trapezoid(vector)

    def complex_numbers() -> None:
        x = waves.clone().requires_grad_()
        spectrum = torch.fft.rfft(x)
        parts = [
            spectrum.abs(), torch.fft.irfft(spectrum), torch.fft.fft2(x).real, torch.fft.fftshift(x),
            spectrum.conj().imag,
            torch.view_as_real(spectrum * (1 + 2j)), torch.polar(x, x).real, torch.complex(x, x).angle(),
            torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(), (spectrum @ spectrum.mH).real,
        ]  # fmt: skip
        torch.stack([part.sum() for part in parts]).sum().backward()
        spectrum.detach().exp().mul_(2j).add(1.5, alpha=1 - 1j), torch.fft.ifftn(spectrum.detach(), norm="ortho")

    def einsums_and_dtypes() -> None:
        x = torch.randn(2, 3, 5).requires_grad_()
        torch.einsum("bij,jk,bkl->bil", x, positive, x.transpose(1, 2)).sum().backward()
        torch.baddbmm(torch.zeros(2, 3, 3), x, x.mT, beta=0.5, alpha=2.0).tanh().sum().backward()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.einsum("bij,bkj->bik", x, x), torch.einsum("bhqd,bhkd->bhqk", x[None], x[None])
        torch.take_along_dim(matrix, (matrix > 0).long(), 1), torch.take_along_dim(matrix, torch.tensor([3, 1]))
        torch.addr(matrix, vector, vector), torch.addmv(vector, matrix, vector), torch.tensordot(matrix, positive, 1)
        whole = torch.arange(-4, 12)
        (
            whole // 3,
            whole % 5,
            whole << 1,
            whole & 3,
            ~whole,
            whole.bitwise_xor(7),
            whole / 2,
            whole.float().half() + 2.5,
        )
        (
            torch.div(whole, 3, rounding_mode="trunc"),
            whole.to(torch.uint8),
            whole.short().clamp(min=0),
            whole.bool().any(),
        )
        vector.to(torch.float8_e4m3fn).to(torch.bfloat16), vector.to(torch.complex128).abs(), vector.double().pow(2.5)
        (
            torch.lerp(vector, vector, 0.3),
            torch.addcdiv(vector, vector, vector.exp(), value=0.5),
            torch.special.erfinv(vector / 9),
        )
        scale, zero = torch.tensor([0.1]), torch.tensor([3])
        (
            torch.fake_quantize_per_tensor_affine(vector, scale, zero, 0, 255),
            torch.quantize_per_tensor(vector, 0.1, 2, torch.qint8).dequantize(),
        )
        torch.bernoulli(torch.rand(4)), torch.normal(vector, vector.exp()), torch.randperm(9), torch.rand_like(vector)
        (
            torch.poisson(vector.exp()),
            torch.linspace(0, 1, 5),
            torch.full((2,), True),
            torch.tensor([1.5, 2]),
            torch.eye(3),
        )

    def step() -> None:
        for part in (decompositions, complex_numbers, einsums_and_dtypes):
            part()

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    one.__name__: one
    for one in (
        cnn, transformer, mlp_with_embedding, optimizers, norms, indexing, convolutions, recurrent, sparse,
        linear_algebra, compressed,
    )
}  # fmt: skip

WITHOUT_OBSERVER = frozenset({"compressed"})
"""Workloads of which no execution trace is recorded: PyTorch's observer may crash on such tensors."""
