/**
 * PowerSGD: gradients are sent as products of two thin matrices. The goal is the sum over all ranks
 * of a matrix M. All ranks start with the same Q. They compute P = sum(M Q), make the columns of P
 * orthonormal, and compute Q = sum(M^T P). The result P Q^T is the sum of M projected onto the
 * columns of P. This is one step of a power iteration towards the best approximation of the same
 * matrix rank.
 *
 * Vogels, Karimireddy, Jaggi: "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
 * Optimization", NeurIPS 2019 (https://arxiv.org/abs/1905.13727). The options are those of
 * torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
 * (https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html#powersgd-communication-hook).
 *
 * Replicas stay equal bit for bit. Sums are computed in float64 in a fixed order and rounded once,
 * when they are stored as float32. Every decision about what to send depends only on values that
 * are equal on all ranks.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { UsageError } from '../../util/errors.ts';
import { createRng, type Rng } from '../../util/rng.ts';
import { elementCountOf } from '../../util/shape.ts';
import { checkWholeAtLeast } from '../groups/checks.ts';
import type { CommHook, GradBucket } from './commHooks.ts';

export interface PowerSgdOptions {
  /**
   * Number of columns of P and Q. More columns approximate better but need more bytes. Default 1.
   */
  matrixApproximationRank?: number;
  /** Number of steps with plain all-reduce before the first compressed step. Default 10. */
  startPowerSgdIter?: number;
  /**
   * Whether a step's residual is added to the next step's gradient. Default true; without error
   * feedback training may not converge.
   */
  useErrorFeedback?: boolean;
  /**
   * Whether a step starts with the Q of the previous step, so that the power iteration continues
   * over the steps. Otherwise every step starts with a random Q. Default true.
   */
  warmStart?: boolean;
  /** A matrix is compressed only if it shrinks by more than this factor. At least 1; default 2. */
  minCompressionRate?: number;
  /** Seed of the random directions; the same on all ranks. Default 0. */
  seed?: number;
}

/**
 * Default of `startPowerSgdIter`. The first gradients change most from step to step and are the
 * hardest to approximate. PyTorch waits for 1000 steps, in runs of 100 000 steps. Runs here have a
 * few hundred steps, and links are the bottleneck.
 */
export const START_POWER_SGD_ITER = 10;

/** PyTorch's value. A matrix that shrinks less is not worth two more round trips. */
const MIN_COMPRESSION_RATE = 2;

/**
 * Least share of a column's length that must remain after the directions of the other columns are
 * removed. If less remains, it is rounding error, and a random direction replaces the column. The
 * relative precision of float32 is 1.2e-7; sums over ranks lose a little more.
 */
const ORTHOGONALIZATION_EPSILON = 1e-6;

/** A parameter as a matrix, row after row in the bucket's buffer. */
interface Matrix {
  readonly parameter: number;
  readonly start: number;
  readonly end: number;
  readonly rows: number;
  readonly cols: number;
  /** Whether at least one rank used the parameter in this step. */
  readonly isUsed: boolean;
}

/** State that is equal on all ranks of a group. */
interface SharedState {
  readonly group: ProcessGroup;
  readonly rng: Rng;
  /** Number of steps so far. */
  iteration: number;
  /** Q of the previous step, by parameter. */
  readonly lastQ: Map<number, Float32Array>;
}

/**
 * Creates a hook that sends each matrix as P and Q, which have (rows + cols) * rank elements
 * instead of rows * cols. A bucket needs two all-reduces. The first sums all Ps and the
 * uncompressed tensors (vectors, and tensors that would not shrink enough). The second sums all Qs.
 *
 * A tensor becomes a matrix: its first dimensions are the rows, the other dimensions are the
 * columns, and the tensor is cut where P and Q are smallest. A kernel [in, out] stays as it is, and
 * a kernel [kh, kw, in, out] mostly becomes [kh * kw * in, out]. (torch's view(shape[0], -1) would
 * give such a kernel only kh rows, and save almost nothing.)
 *
 * With error feedback, each rank keeps the residual of its own gradient, M - P P^T M. Summed over
 * all ranks, the residuals are the sum of the gradients minus the output, as with torch's residual
 * M - output / n. Unlike torch's residual, this residual does not include the differences between
 * ranks, which would only accumulate. Uncompressed steps send the residuals, too. The residual of a
 * parameter that no rank uses is kept until a step uses the parameter.
 *
 * Buckets are reduced one after another in the order of the calls, because ranks could otherwise
 * issue the all-reduces of several buckets in different orders. For the same reason no other
 * collective may be issued on the group until a step's hooks are done.
 *
 * A hook belongs to one model. In another group the hook starts again with uncompressed steps,
 * because new ranks do not have its shared state. Each rank keeps its residual as of the last
 * applied step, so that a failed step can be retried with the same gradients.
 *
 * @throws UsageError if an option is out of its range.
 *
 * @example
 * ```ts
 * const ddp = await DistributedDataParallel.create(model, group);
 * ddp.registerCommHook(createPowerSgdHook({ matrixApproximationRank: 2 }));
 * ```
 */
export function createPowerSgdHook({
  matrixApproximationRank = 1,
  startPowerSgdIter = START_POWER_SGD_ITER,
  useErrorFeedback = true,
  warmStart = true,
  minCompressionRate = MIN_COMPRESSION_RATE,
  seed = 0,
}: PowerSgdOptions = {}): CommHook {
  checkWholeAtLeast('matrixApproximationRank', matrixApproximationRank, 1);
  checkWholeAtLeast('startPowerSgdIter', startPowerSgdIter, 0);
  if (!(minCompressionRate >= 1 && minCompressionRate < Infinity)) {
    throw new UsageError(`minCompressionRate is ${minCompressionRate}; pass a finite number of at least 1.`);
  }

  /** Residuals of this rank, by parameter. */
  const memories = new Map<number, Float32Array>();
  /**
   * Residuals after the latest step, which replace {@link memories} once that step is applied;
   * `null`: no residual.
   */
  const staged = new Map<number, Float32Array | null>();
  /** Whether the latest step has reduced its last bucket. */
  let isWhole = false;
  let shared: SharedState | null = null;
  let previous: Promise<void> = Promise.resolve();

  const hook: CommHook = (bucket, group) => {
    const reduced = previous.then(() => reduce(bucket, group));
    // The caller handles a failure of this bucket. The next bucket only waits until this bucket has
    // ended.
    previous = reduced.catch(() => {});
    return reduced;
  };
  const reset = (): void => {
    memories.clear();
    staged.clear();
  };
  return Object.assign(hook, { reset });

  async function reduce(bucket: GradBucket, group: ProcessGroup): Promise<void> {
    if (bucket.index === 0) {
      if (isWhole && !bucket.isRetry) commit();
      staged.clear();
      isWhole = false;
    }
    if (shared?.group !== group) shared = { group, rng: createRng(seed), iteration: 0, lastQ: new Map() };
    const matrices = bucket.parameters.map(matrixOf).filter(pays);
    if (matrices.length > 0 && shared.iteration >= startPowerSgdIter) await compress(bucket.buffer, matrices, shared);
    else await allReduce(bucket.buffer, matrices, group);
    if (!bucket.isLast) return;
    shared.iteration += 1;
    isWhole = true;
  }

  function commit(): void {
    for (const [parameter, memory] of staged) {
      // An infinite value in one step must not spoil all later steps.
      if (memory && isFinite(memory)) memories.set(parameter, memory);
      else memories.delete(parameter);
    }
  }

  function pays({ rows, cols }: Matrix): boolean {
    return paysFor(rows, cols, matrixApproximationRank, minCompressionRate);
  }

  async function allReduce(buffer: Float32Array, matrices: readonly Matrix[], group: ProcessGroup): Promise<void> {
    const used = matrices.filter(({ isUsed }) => isUsed);
    for (const { parameter, start, end } of used) addTo(buffer.subarray(start, end), memories.get(parameter));
    await group.allReduce(buffer);
    for (const { parameter } of used) staged.set(parameter, null);
  }

  async function compress(buffer: Float32Array, all: readonly Matrix[], state: SharedState): Promise<void> {
    const { group, rng, lastQ } = state;
    const gaps = gapsBetween(all, buffer.length);
    const matrices = all.filter(({ isUsed }) => isUsed);
    const { flat, parts } = allocate([
      ...gaps.map(({ start, end }) => end - start),
      ...matrices.map(({ rows }) => rows * matrixApproximationRank),
    ]);
    const rest = parts.slice(0, gaps.length);
    const ps = parts.slice(gaps.length);
    const qs = allocate(matrices.map(({ cols }) => cols * matrixApproximationRank));

    gaps.forEach(({ start, end }, i) => rest[i]!.set(buffer.subarray(start, end)));
    const inputs = matrices.map(({ parameter, start, end, cols }, i) => {
      const input = addTo(buffer.slice(start, end), memories.get(parameter));
      const q = qs.parts[i]!;
      const last = lastQ.get(parameter);
      if (last) q.set(last);
      else fillRandomly(q, rng);
      orthogonalize(q, cols, rng);
      multiply(input, q, cols, ps[i]!);
      return input;
    });
    await sumOverRanks(flat, group);

    matrices.forEach(({ rows, cols }, i) => {
      orthogonalize(ps[i]!, rows, rng);
      multiplyTransposed(inputs[i]!, ps[i]!, cols, qs.parts[i]!);
      // From here on, `inputs` holds the residual.
      if (useErrorFeedback) addProduct(inputs[i]!, ps[i]!, qs.parts[i]!, cols, -1);
    });
    await sumOverRanks(qs.flat, group);

    gaps.forEach(({ start }, i) => buffer.set(rest[i]!, start));
    matrices.forEach(({ parameter, start, end, cols }, i) => {
      addProduct(buffer.subarray(start, end).fill(0), ps[i]!, qs.parts[i]!, cols, 1);
      if (warmStart) lastQ.set(parameter, qs.parts[i]!);
      if (useErrorFeedback) staged.set(parameter, inputs[i]!);
    });
  }
}

/**
 * Returns the number of elements that a compressed step sends for a parameter of this shape.
 *
 * @param rank the option `matrixApproximationRank`. The other options have their defaults.
 */
export function powerSgdCompressedSize(shape: readonly number[], rank: number): number {
  const { rows, cols } = cutOf(shape);
  return paysFor(rows, cols, rank, MIN_COMPRESSION_RATE) ? (rows + cols) * rank : rows * cols;
}

/**
 * Divides the dimensions of a shape into rows and columns so that rows + cols is smallest. Of
 * several such divisions, the last is used. A vector is one column.
 */
function cutOf(shape: readonly number[]): Pick<Matrix, 'rows' | 'cols'> {
  const size = elementCountOf(shape);
  let best = { rows: 1, cols: size };
  let rows = 1;
  for (const length of shape) {
    rows *= length;
    const cols = size / rows;
    if (rows + cols <= best.rows + best.cols) best = { rows, cols };
  }
  return best;
}

function matrixOf({ index, offset, shape, isUsed }: GradBucket['parameters'][number]): Matrix {
  const { rows, cols } = cutOf(shape);
  return { parameter: index, start: offset, end: offset + rows * cols, isUsed, rows, cols };
}

/** Whether P and Q are smaller than the matrix by more than the factor `minRate`. */
function paysFor(rows: number, cols: number, rank: number, minRate: number): boolean {
  return (rows + cols) * rank * minRate < rows * cols;
}

/** Returns the ranges of a buffer that no matrix covers. */
function gapsBetween(matrices: readonly Matrix[], length: number): { start: number; end: number }[] {
  const covered = [...matrices].sort((a, b) => a.start - b.start);
  return [...covered, { start: length }]
    .map(({ start }, i) => ({ start: covered[i - 1]?.end ?? 0, end: start }))
    .filter(({ start, end }) => start < end);
}

/** Returns one array for one all-reduce, and a view of one part of it for each of `sizes`. */
function allocate(sizes: readonly number[]): { flat: Float32Array; parts: Float32Array[] } {
  const flat = new Float32Array(sizes.reduce((sum, size) => sum + size, 0));
  let end = 0;
  return { flat, parts: sizes.map((size) => flat.subarray(end, (end += size))) };
}

/** Sums the values of all ranks in place. Does nothing if there are no values. */
async function sumOverRanks(values: Float32Array, group: ProcessGroup): Promise<void> {
  if (values.length > 0) await group.allReduce(values);
}

function addTo(values: Float32Array, memory: Float32Array | undefined): Float32Array {
  if (memory) for (let i = 0; i < values.length; i++) values[i]! += memory[i]!;
  return values;
}

function isFinite(values: Float32Array): boolean {
  // A number minus itself is 0, but an infinity or a NaN minus itself is NaN.
  for (let i = 0; i < values.length; i++) if (values[i]! - values[i]! !== 0) return false;
  return true;
}

/**
 * Fills with numbers in [-1, 1). A uniform distribution is as good as a normal one here, and it has
 * the same bits on every machine.
 */
function fillRandomly(values: Float32Array, rng: Rng): void {
  for (let i = 0; i < values.length; i++) values[i] = 2 * rng.next() - 1;
}

// P and Q are stored one column after the other, so that these loops read memory in order.

/** Computes `p = m q`. The rows of `m` and the columns of `q` have `cols` elements. */
function multiply(m: Float32Array, q: Float32Array, cols: number, p: Float32Array): void {
  const rows = m.length / cols;
  for (let i = 0; i < rows; i++) {
    for (let k = 0; k * cols < q.length; k++) {
      let sum = 0;
      for (let j = 0; j < cols; j++) sum += m[i * cols + j]! * q[k * cols + j]!;
      p[k * rows + i] = sum;
    }
  }
}

/** `q = m^T p`. */
function multiplyTransposed(m: Float32Array, p: Float32Array, cols: number, q: Float32Array): void {
  const rows = m.length / cols;
  const sums = new Float64Array(cols);
  for (let k = 0; k * rows < p.length; k++) {
    sums.fill(0);
    for (let i = 0; i < rows; i++) {
      const factor = p[k * rows + i]!;
      for (let j = 0; j < cols; j++) sums[j]! += factor * m[i * cols + j]!;
    }
    q.set(sums, k * cols);
  }
}

/** Computes `m += scale p q^T`. */
function addProduct(m: Float32Array, p: Float32Array, q: Float32Array, cols: number, scale: number): void {
  const rows = m.length / cols;
  const sums = new Float64Array(cols);
  for (let i = 0; i < rows; i++) {
    sums.set(m.subarray(i * cols, (i + 1) * cols));
    for (let k = 0; k * rows < p.length; k++) {
      const factor = scale * p[k * rows + i]!;
      for (let j = 0; j < cols; j++) sums[j]! += factor * q[k * cols + j]!;
    }
    m.set(sums, i * cols);
  }
}

/** Makes columns of `length` elements orthonormal, by modified Gram-Schmidt. */
function orthogonalize(columns: Float32Array, length: number, rng: Rng): void {
  for (let start = 0; start < columns.length; start += length) {
    const column = columns.subarray(start, start + length);
    const before = norm(column);
    const removeOthers = (): void => {
      for (let other = 0; other < start; other += length) project(column, columns.subarray(other, other + length));
    };
    removeOthers();
    // The condition is also true for NaN, because the NaN of one step must not stay in Q.
    if (!(norm(column) > ORTHOGONALIZATION_EPSILON * before)) {
      fillRandomly(column, rng);
      removeOthers();
    }
    // If the remainder is small, it is not exactly orthogonal. A second pass is enough (Giraud et
    // al., 2005).
    removeOthers();
    const scale = 1 / norm(column);
    for (let i = 0; i < length; i++) column[i]! *= scale;
  }
}

/** Removes the direction of `unit` from `column`. */
function project(column: Float32Array, unit: Float32Array): void {
  const share = dot(column, unit);
  for (let i = 0; i < column.length; i++) column[i]! -= share * unit[i]!;
}

function norm(a: Float32Array): number {
  return Math.sqrt(dot(a, a));
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
